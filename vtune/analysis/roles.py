"""Which process trains, which optimizer counts the steps, which loader feeds them: by co-occurrence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from vtune.analysis.feeding import Loader, find_feeding
from vtune.analysis.lockstep import paces
from vtune.analysis.rows import count_samples
from vtune.domain.effects import Scalar
from vtune.domain.events import BatchDelivered, BatchLoaded, Fact, OptimizerStepped
from vtune.domain.steady import Order


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
class Feeder:
    """A loader that feeds the steps, with its passes and batches in the leading process, in order."""

    loader: Loader
    passes: tuple[TrainPass, ...]
    batches: tuple[BatchDelivered, ...]
    rows_unknown: bool = False

    @property
    def stock(self) -> int:
        return stock_of(self.passes)


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
    # Of loaders that feed nothing, as a validation's.
    other_batches: tuple[BatchDelivered, ...]
    # Loader workers of the other ranks.
    peers_worker_pids: tuple[int, ...]
    # Processes that step the same training: one, or the ranks of a distributed run.
    ranks: tuple[int, ...]
    # Fewer rows come out of the training's loader than samples were asked for, and they cannot be counted.
    rows_unknown: bool = False
    # Samples of all ranks over those of the leading one; None: they step alike.
    paces: float | None = None
    # Loaders that feed the steps beside `train`, in the same steps or in turns with it.
    beside: tuple[Feeder, ...] = ()

    @property
    def times(self) -> float:
        """By this the leading process's rate is multiplied."""
        return float(len(self.ranks)) if self.paces is None else self.paces

    @property
    def fed(self) -> tuple[BatchDelivered, ...]:
        """The batches of all loaders that feed the steps, in the order of their delivery."""
        if not self.beside:
            return self.batches
        beside = (batch for feeder in self.beside for batch in feeder.batches)
        return tuple(sorted((*self.batches, *beside), key=lambda batch: batch.returned_s))

    @property
    def feeders(self) -> tuple[Feeder, ...]:
        """All of them, the one that settings turn first."""
        if self.train is None:
            return ()
        return (Feeder(loader=self.train, passes=self.passes, batches=self.batches), *self.beside)

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
        return _workers(self.settings)

    @property
    def prefetch(self) -> int:
        return _prefetch(self.settings)

    @property
    def stock(self) -> int:
        return stock_of(self.passes)

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
    feeding = find_feeding(own_steps, own_batches, own_facts)
    feeders = [_feeder(loader, own_batches, own_facts) for loader in feeding.loaders]
    first = feeders[0] if feeders else None
    train = first.loader if first is not None else None
    fed = {number for one in feeders for number in one.loader.numbers}
    return Roles(
        pid=pid,
        steps=own_steps,
        optimizer=optimizer,
        train=train,
        passes=first.passes if first is not None else (),
        batches=first.batches if first is not None else (),
        rows_unknown=any(one.rows_unknown for one in feeders),
        others=feeding.others,
        other_batches=tuple(batch for batch in own_batches if batch.loader not in fed),
        peers_worker_pids=_peers_worker_pids(facts, train, [rank for rank in ranks if rank != pid]),
        ranks=ranks,
        paces=_paces(pid, {rank: by_process[rank, -primary[rank][2]] for rank in ranks}, train, delivered, facts),
        beside=tuple(feeders[1:]),
    )


def _feeder(loader: Loader, own: Sequence[BatchDelivered], facts: Sequence[Fact]) -> Feeder:
    passes = _passes(facts, loader)
    counted = count_samples(
        [batch for batch in own if batch.loader in loader.numbers],
        {one.number: one.settings.get("batch_size") for one in passes},
        facts,
        loader.numbers,
    )
    return Feeder(
        loader=loader,
        passes=_with_samples(passes, counted.batches, facts),
        batches=counted.batches,
        rows_unknown=counted.rows_unknown,
    )


def stock_of(passes: Sequence[TrainPass]) -> int:
    """Batches that may lie ready before the first step ends."""
    return _workers(passes[-1].settings) * _prefetch(passes[-1].settings) if passes else 0


def _workers(settings: Mapping[str, Scalar]) -> int:
    workers = settings.get("workers")
    return workers if isinstance(workers, int) else 0


def _prefetch(settings: Mapping[str, Scalar]) -> int:
    """By worker; torch's own default where a loader does not say."""
    prefetch = settings.get("prefetch_factor")
    return prefetch if isinstance(prefetch, int) else 2


def settings_in_common(facts: Sequence[Fact]) -> Mapping[str, Scalar]:
    """Before the first step nobody knows which loader is the training's: what all of them run with is its own, too."""
    first, *others = [_in_knob_names(fact.data.get("effective") or {}) for fact in facts if fact.name == "pass"] or [{}]
    return {name: value for name, value in first.items() if all(one.get(name) == value for one in others)}


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


def _passes(facts: Sequence[Fact], loader: Loader) -> tuple[TrainPass, ...]:
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
        if fact.name == "pass" and fact.data.get("loader") in loader.numbers
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
