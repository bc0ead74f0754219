"""What is true of each case, by how it was made, and what vtune is to say of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    what: str
    # The reason that vtune has to give; None where nothing repeats.
    reason: str | None = None
    # In its source, on the line that vtune has to name.
    line: str | None = None
    # None where the user's own two workers show too little, and a run with fewer workers would tell.
    own_reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Of tests/integration/probe/scripts/batches.py, with a batch of 8 and of 16."""

    name: str
    what: str
    batch: int | None
    larger: int | None
    status: str = "completed"


def _repeats(name: str, what: str, reason: str, line: str, *, own: bool = True) -> Case:
    return Case(name=name, what=what, reason=reason, line=line, own_reason=reason if own else None)


NUMBERS, ALL, NEXT, HIDDEN = "same_numbers", "same_samples", "next_record", "not_shown"
OWN_RNG = "self.rng = np.random.default_rng(0)"

CASES = (
    _repeats("own_rng", "`self.rng` of `__init__` chooses the sample, forked", NUMBERS, OWN_RNG),
    _repeats("own_rng_spawned", "the same, spawned", NUMBERS, OWN_RNG),
    _repeats("own_rng_in_order", "the same, without shuffling", NUMBERS, OWN_RNG),
    _repeats("own_rng_augments", "`self.rng` makes the noise only", NUMBERS, "self.rng = rng"),
    _repeats("own_python_random", "a `random.Random` of its own", NUMBERS, "self.rng = rng"),
    _repeats("own_torch_generator", "a `torch.Generator` of its own", NUMBERS, "self.rng = rng"),
    _repeats("own_state_in_transform", "a `RandomState` in a list of transforms", NUMBERS, "self.state ="),
    _repeats("rng_of_the_module", "a generator of the module", NUMBERS, "SHARED = "),
    _repeats("until_accepted", "samples take different numbers of draws", NUMBERS, OWN_RNG),
    _repeats("made_late", "made at the first sample, with a constant seed", NUMBERS, OWN_RNG),
    _repeats("made_late_until_accepted", "the same, of which samples take different numbers", NUMBERS, OWN_RNG),
    _repeats("made_by_hand", "a generator made by hand, augmented at random", NUMBERS, "self.seed = 1"),
    _repeats("numpy_seeded_alike", "`worker_init_fn` gives each worker one seed", NUMBERS, "def seed_alike"),
    _repeats("pops", "pops its next record, whatever the index", NEXT, "def __getitem__"),
    _repeats("pops_in_order", "the same, without shuffling", NEXT, "def __getitem__"),
    _repeats("reads_on", "`next()` of an iterator that it holds", NEXT, "def __getitem__"),
    _repeats("counts", "counts its own calls", NEXT, "def __getitem__"),
    _repeats("counts_in_order", "the same, without shuffling", NEXT, "def __getitem__", own=False),
    _repeats("walks_an_order", "walks a permutation by a counter, augmented", NEXT, "def __getitem__"),
    _repeats("iterable_whole", "iterable, each worker reads all", ALL, "def __iter__"),
    _repeats("iterable_unused_info", "iterable, asks `get_worker_info` for nothing", ALL, "def __iter__"),
    _repeats("iterable_unused_augmented", "the same, augmented at random", HIDDEN, "def __iter__"),
    _repeats("iterable_commented", "names it in a comment, augmented at random", HIDDEN, "def __iter__"),
    _repeats("iterable_only_seeded", "`worker_init_fn` only seeds", ALL, "def __iter__"),
    _repeats("iterable_own_rng", "draws without end from `self.rng`", NUMBERS, OWN_RNG),
    _repeats("iterable_constant", "one constant sample without end: nothing can be seen", HIDDEN, "def __iter__"),
    Case(name="clean", what="the index chooses the sample"),
    Case(name="numpy_of_the_process", what="numpy's own generator, which torch seeds by worker"),
    Case(name="numpy_seeded_by_worker", what="`worker_init_fn` seeds by worker"),
    Case(name="rng_by_worker", what="a generator made in each worker"),
    Case(name="rng_by_index", what="seeded anew by index for each sample"),
    Case(name="rng_jumps_by_worker", what="one seed for all, and each worker a jump further"),
    Case(name="walks_its_own_order", what="walks a permutation that each worker draws for itself"),
    Case(name="counts_only", what="counts its calls, augmented at random"),
    Case(name="rng_not_drawn", what="a copied generator from which no worker draws"),
    Case(name="constant", what="all samples are equal"),
    Case(name="blank", what="nine patches of ten are empty"),
    Case(name="few_with_replacement", what="8 samples, drawn with replacement"),
    Case(name="few_in_order", what="4 samples over and over, in order"),
    Case(name="each_twice_in_order", what="each sample twice in a row, batches of 1"),
    Case(name="concatenated", what="4 samples, concatenated, in order"),
    Case(name="cached", what="a cache that fills, and a counter of calls"),
    Case(name="iterable_strided", what="iterable, every n-th sample by worker"),
    Case(name="iterable_in_parts", what="iterable, in parts of 10 samples over and over"),
    Case(name="iterable_in_large_parts", what="the same with 100 samples"),
    Case(name="iterable_in_augmented_parts", what="the same, augmented at random"),
    Case(name="iterable_shuffled_then_shared", what="one shuffle for all workers, shared out after it"),
    Case(name="iterable_set_from_outside", what="`worker_init_fn` shares out"),
    Case(name="iterable_random_by_worker", what="patches without end, from Python's own generator"),
    Case(name="webdataset", what="WebDataset, whose shards have the same keys and labels"),
)

SHAPES = (
    Shape(name="plain", what="one batch a step", batch=8, larger=16),
    Shape(name="remainder", what="a last batch that is smaller", batch=8, larger=16),
    Shape(name="buckets", what="batches of different sizes", batch=None, larger=None),
    Shape(name="accumulate", what="three batches a step, with a remainder", batch=24, larger=48),
    Shape(name="ahead", what="a loader that reads one batch ahead", batch=8, larger=16),
    Shape(name="batch_sampler", what="the caller's own batch sampler", batch=8, larger=16),
    Shape(name="nominal", what="accumulates to a constant batch", batch=32, larger=32),
    Shape(name="capped", what="a collate that caps its rows", batch=8, larger=8, status="invalid"),
)
