"""Which process trains, which optimizer counts the steps, which loader feeds them: by co-occurrence."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from vtune.analysis.lockstep import paces
from vtune.analysis.rows import count_samples
from vtune.domain.effects import Scalar
from vtune.domain.events import BatchDelivered, BatchLoaded, Fact, OptimizerStepped
from vtune.domain.steady import Order

# Below this even the best loader feeds something else than the steps. Several optimizers, or a loader that runs ahead,
# leave the right one at about a half; validation loaders reach a third.
LEAST_SHARE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader:
    """All loaders of one key in the training process: one made anew each epoch is still the same loader."""

    key: str
    numbers: frozenset[int]
    where: str
    dataset: str
    # Share of the windows between steps in which it delivered.
    share: float
    # What the script itself asked for, before anything was turned.
    asked_batch_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainPass:
    """One walk over the training's loader."""

    number: int
    begun_s: float | None
    # In batches, where the sampler could tell.
    length: int | None
    worker_pids: tuple[int, ...]
    # How often its iterator was reset before: persistent workers serve several passes.
    resume: int
    # What it really ran with, in the knobs' names.
    settings: Mapping[str, Scalar]
    # Exact, where the pass was seen from its first batch to its end.
    samples: int | None = None
    # By the sampler's own count, what it drops at the end left out.
    sampler_samples: int | None = None
    # Numbers of the loader object and of its data; None in trials of an older vtune.
    made: int | None = None
    data: int | None = None
    order: Order = Order.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    pid: int
    # The primary optimizer's steps in the leading process, in order.
    steps: tuple[OptimizerStepped, ...]
    optimizer: int
    train: Loader | None
    # The training loader's passes and batches in the leading process, in order.
    passes: tuple[TrainPass, ...]
    batches: tuple[BatchDelivered, ...]
    others: tuple[Loader, ...]
    # Other loaders' batches that the same thread waits for: validation, a second loader in the same step.
    other_batches: tuple[BatchDelivered, ...]
    # Loader workers of the other ranks.
    peers_worker_pids: tuple[int, ...]
    # Processes that step the same training: one, or the ranks of a distributed run.
    ranks: tuple[int, ...]
    # Fewer rows come out of the training's loader than samples were asked for, and they cannot be counted.
    rows_unknown: bool = False
    # Samples of all ranks over those of the leading one; None: they step alike.
    paces: float | None = None

    @property
    def times(self) -> float:
        """By this the leading process's rate is multiplied."""
        return float(len(self.ranks)) if self.paces is None else self.paces

    @property
    def rebuilds_its_loader(self) -> bool:
        """Each pass has a loader object of its own, and workers end with it."""
        made = [one.made for one in self.passes if one.made is not None]
        return len(made) > 1 and len(set(made)) == len(made) and not self.reads_in_turns

    @property
    def reads_in_turns(self) -> bool:
        """Iterators of loaders that were made at one place, alive at the same time."""
        return any(after.pass_number < before.pass_number for before, after in pairwise(self.batches))

    @property
    def goes_through_parts(self) -> bool:
        """Its passes are over different data: whoever walks through chunks of it has an epoch of several passes."""
        return len({one.data for one in self.passes if one.data is not None}) > 1

    @property
    def settings(self) -> Mapping[str, Scalar]:
        return self.passes[-1].settings if self.passes else {}

    @property
    def workers(self) -> int:
        workers = self.settings.get("workers")
        return workers if isinstance(workers, int) else 0

    @property
    def prefetch(self) -> int:
        """By worker; torch's own default where a loader does not say."""
        prefetch = self.settings.get("prefetch_factor")
        return prefetch if isinstance(prefetch, int) else 2

    @property
    def stock(self) -> int:
        """Batches that may lie ready before the first step ends."""
        return self.workers * self.prefetch

    def own_loads(self, loaded: Sequence[BatchLoaded]) -> list[BatchLoaded]:
        """What the training loader's workers made; a validation loader's workers are others."""
        ours = {pid for one in self.passes for pid in one.worker_pids}
        return [batch for batch in loaded if batch.pid in ours]


def find_roles(
    steps: Sequence[OptimizerStepped], delivered: Sequence[BatchDelivered], facts: Sequence[Fact]
) -> Roles | None:
    """None before the first optimizer step."""
    by_process: dict[tuple[int, int], list[OptimizerStepped]] = defaultdict(list)
    for step in steps:
        by_process[step.pid, step.optimizer].append(step)
    if not by_process:
        return None
    parameters = {
        (fact.pid, fact.data.get("optimizer")): int(fact.data.get("parameters") or 0)
        for fact in facts
        if fact.name == "optimizer"
    }
    primary: dict[int, tuple[int, int, int]] = {}
    for (pid, optimizer), own in by_process.items():
        rank = (len(own), parameters.get((pid, optimizer), 0), -optimizer)
        if pid not in primary or rank > primary[pid]:
            primary[pid] = rank
    most = max(count for count, _, _ in primary.values())
    # A helper process that stepped a little (a warm-up, an evaluation) is not a rank.
    ranks = tuple(sorted(pid for pid, (count, _, _) in primary.items() if count >= max(1, most // 2)))
    declared = {fact.pid: fact.data.get("rank") for fact in facts if fact.name == "hello"}
    pid = min(ranks, key=lambda p: (declared.get(p) if isinstance(declared.get(p), int) else 2**31, p))
    optimizer = -primary[pid][2]
    own_steps = tuple(by_process[pid, optimizer])
    own_batches = [batch for batch in delivered if batch.pid == pid and not batch.nested]
    own_facts = [fact for fact in facts if fact.pid == pid]
    loaders = _loaders(own_steps, own_batches, own_facts)
    best = max(loaders, key=lambda loader: loader.share, default=None)
    train = best if best is not None and best.share >= LEAST_SHARE else None
    passes = _passes(own_facts, train)
    counted = count_samples(
        [batch for batch in own_batches if train is not None and batch.loader in train.numbers],
        {one.number: one.settings.get("batch_size") for one in passes},
        own_facts,
        train.numbers if train is not None else frozenset(),
    )
    batches = counted.batches
    return Roles(
        pid=pid,
        steps=own_steps,
        optimizer=optimizer,
        train=train,
        passes=_with_samples(passes, batches, own_facts),
        batches=batches,
        rows_unknown=counted.rows_unknown,
        others=tuple(loader for loader in loaders if loader is not train),
        other_batches=tuple(b for b in own_batches if train is None or b.loader not in train.numbers),
        peers_worker_pids=_peers_worker_pids(facts, train, [rank for rank in ranks if rank != pid]),
        ranks=ranks,
        paces=_paces(pid, {rank: by_process[rank, -primary[rank][2]] for rank in ranks}, train, delivered, facts),
    )


def settings_in_common(facts: Sequence[Fact]) -> Mapping[str, Scalar]:
    """Before the first step nobody knows which loader is the training's: what all of them run with is its own, too."""
    first, *others = [_in_knob_names(fact.data.get("effective") or {}) for fact in facts if fact.name == "pass"] or [{}]
    return {name: value for name, value in first.items() if all(one.get(name) == value for one in others)}


def _loaders(
    steps: Sequence[OptimizerStepped], batches: Sequence[BatchDelivered], facts: Sequence[Fact]
) -> list[Loader]:
    known: dict[int, Mapping[str, object]] = {
        int(fact.data["loader"]): fact.data for fact in facts if fact.name == "loader" and "loader" in fact.data
    }
    ends = [step.ended_s for step in steps]
    windows: dict[str, set[int]] = defaultdict(set)
    numbers: dict[str, set[int]] = defaultdict(set)
    for batch in batches:
        key = str(known.get(batch.loader, {}).get("key", f"loader {batch.loader}"))
        numbers[key].add(batch.loader)
        window = bisect_right(ends, batch.returned_s)
        # After the last step nothing is known yet: the batch may belong to a step that has not ended.
        if window < len(ends):
            windows[key].add(window)
    found = []
    for key, own in numbers.items():
        fact = known.get(min(own), {})
        found.append(
            Loader(
                key=key,
                numbers=frozenset(own),
                where=str(fact.get("where", "")),
                dataset=str(fact.get("dataset", "")),
                share=len(windows[key]) / len(ends),
                asked_batch_size=_asked_batch_size(fact),
            )
        )
    return sorted(found, key=lambda loader: -loader.share)


def _with_samples(
    passes: Sequence[TrainPass], batches: Sequence[BatchDelivered], facts: Sequence[Fact]
) -> tuple[TrainPass, ...]:
    ended = {fact.data.get("pass"): fact.data.get("batches") for fact in facts if fact.name == "pass_end"}
    by_pass: dict[int, list[int]] = defaultdict(list)
    for batch in batches:
        by_pass[batch.pass_number].append(batch.samples or batch.leading)
    return tuple(
        replace(one, samples=sum(by_pass[one.number]))
        if by_pass[one.number] and ended.get(one.number) == len(by_pass[one.number])
        else one
        for one in passes
    )


def _peers_worker_pids(facts: Sequence[Fact], train: Loader | None, peers: Sequence[int]) -> tuple[int, ...]:
    if train is None:
        return ()
    keyed = {(f.pid, f.data.get("loader")) for f in facts if f.name == "loader" and f.data.get("key") == train.key}
    return tuple(
        worker
        for fact in facts
        if fact.name == "pass" and fact.pid in peers and (fact.pid, fact.data.get("loader")) in keyed
        for worker in fact.data.get("worker_pids") or ()
    )


def _paces(
    leader: int,
    steps: Mapping[int, Sequence[OptimizerStepped]],
    train: Loader | None,
    delivered: Sequence[BatchDelivered],
    facts: Sequence[Fact],
) -> float | None:
    if len(steps) < 2:
        return None
    key = train.key if train is not None else None
    own = {(f.pid, f.data.get("loader")) for f in facts if f.name == "loader" and f.data.get("key") == key}
    samples: dict[int, int] = defaultdict(int)
    for batch in delivered:
        if (batch.pid, batch.loader) in own and not batch.nested:
            samples[batch.pid] += batch.samples or batch.leading
    pids = sorted(steps, key=lambda pid: pid != leader)
    by_step = [samples[pid] / len(steps[pid]) for pid in pids]
    # A process with another script: its steps count as those of the leading one.
    by_step = [one or by_step[0] or 1.0 for one in by_step]
    return paces([[step.ended_s for step in steps[pid]] for pid in pids], by_step)


def _asked_batch_size(fact: Mapping[str, object]) -> int | None:
    if fact.get("own_batch_sampler"):
        # torch's own default, which the loader does not use then.
        return None
    asked = fact.get("asked")
    size = asked.get("batch_size") if isinstance(asked, Mapping) else None
    return size if isinstance(size, int) else None


def _passes(facts: Sequence[Fact], train: Loader | None) -> tuple[TrainPass, ...]:
    if train is None:
        return ()
    # Told once the indices have shown it, where the sampler is not one of torch's.
    told = {fact.data.get("pass"): fact.data.get("order") for fact in facts if fact.name == "order"}
    return tuple(
        TrainPass(
            number=int(fact.data.get("pass", -1)),
            begun_s=_number(fact.data.get("begun")),
            length=fact.data["length"] if isinstance(fact.data.get("length"), int) else None,
            worker_pids=tuple(fact.data.get("worker_pids") or ()),
            resume=int(fact.data.get("resume") or 0),
            settings=_in_knob_names(fact.data.get("effective") or {}),
            sampler_samples=fact.data["samples"] if isinstance(fact.data.get("samples"), int) else None,
            made=fact.data["made"] if isinstance(fact.data.get("made"), int) else None,
            data=fact.data["data"] if isinstance(fact.data.get("data"), int) else None,
            order=_order(told.get(fact.data.get("pass"), fact.data.get("order"))),
        )
        for fact in facts
        if fact.name == "pass" and fact.data.get("loader") in train.numbers
    )


def _order(value: object) -> Order:
    return Order(str(value)) if value in set(Order) else Order.UNKNOWN


def _in_knob_names(effective: Mapping[str, Any]) -> Mapping[str, Scalar]:
    names = {
        "workers": "num_workers",
        "prefetch_factor": "prefetch_factor",
        "persistent_workers": "persistent_workers",
        "pin_memory": "pin_memory",
        "in_order": "in_order",
        "batch_size": "batch_size",
    }
    return {knob: effective[option] for knob, option in names.items() if option in effective}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
