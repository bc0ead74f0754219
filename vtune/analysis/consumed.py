"""The samples that each optimizer step used: which batches were delivered and gone into a backward by then.

A loader that reads ahead delivers batches before they are used, and so an empty step follows at the end of its data.
Batches are used in the order of their delivery, and a backward uses the oldest that is left; one that finds none left
is a further backward of the batch before.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vtune.analysis.forwards import Uses, uses_of_batches
from vtune.analysis.lockstep import in_lockstep
from vtune.analysis.observed import Observed
from vtune.analysis.roles import Roles, find_roles
from vtune.domain.consumed import NO_BATCH_WORDS, Consumed, NoBatch
from vtune.domain.events import Backward, BatchDelivered, Fact, OptimizerStepped
from vtune.domain.record import Measurement

# Fewer say nothing of the next step.
LEAST_STEPS = 3
# More different sizes than this are put together in the record.
MOST_SIZES = 50
# Above this share of steps with more batches than backwards, each backward uses several batches. Below this share of
# steps with a backward, backwards are not what torch counts here.
SEVERAL_BATCHES, WITHOUT_BACKWARDS = 0.5, 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class StepUse:
    """What one optimizer step of one process used."""

    samples: int
    # With those of batches that it left out: the rate counts them.
    got: int
    # It may use up what the end of an epoch leaves.
    ends_pass: bool
    # Its first batch is the first of its pass, which may have been read ahead.
    begins_pass: bool


def with_consumed(measured: Measurement, observed: Observed) -> Measurement:
    """The effective batch, where it is one."""
    roles = observed.roles
    if roles is None or roles.train is None or not roles.batches:
        return measured
    own = [_roles_of(pid, roles, observed) for pid in roles.ranks]
    seen = [one for one in own if one is not None]
    used = [_used_by_step(one, observed.backwards, observed.facts) for one in seen]
    steps = _together([one.steps for one in used]) if len(used) == len(own) else []
    counted = steps or next(one.steps for one, of in zip(used, seen, strict=True) if of is roles)
    if not counted or not sum(use.samples for use in counted):
        return measured
    no_batch, batch = _number(counted)
    if len(roles.ranks) > 1:
        if not steps or len(seen) < len(own):
            no_batch = NoBatch.RANKS_UNSEEN
        elif not in_lockstep([[step.ended_s for step in one.steps] for one in seen]):
            no_batch = NoBatch.RANKS_APART
    if _declared_ranks(observed.facts, roles) > len(roles.ranks):
        no_batch = NoBatch.RANKS_UNSEEN
    if roles.rows_unknown:
        no_batch = NoBatch.ROWS_UNKNOWN
    if any(one.is_guess for one in used):
        no_batch = NoBatch.SEVERAL_LOADERS if roles.beside else NoBatch.JOINED_OR_SKIPPED
    by_rank = 1 if steps else len(roles.ranks)
    rows = _rows(roles)
    consumed = Consumed(
        by_step=_histogram([use.samples * by_rank for use in counted]),
        mean=by_rank * sum(use.got for use in counted) / len(counted),
        no_batch=no_batch,
        rows=rows,
        batch_bytes=_batch_bytes(roles, observed.facts, rows),
    )
    measured = replace(measured, effective_batch=batch if no_batch is None else None, consumed=consumed)
    if no_batch is None:
        return measured
    return replace(measured, unknown={**measured.unknown, "effective_batch": NO_BATCH_WORDS[no_batch]})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Used:
    steps: list[StepUse]
    # Most steps have more batches than backwards, and nothing tells whether all of them are used.
    is_guess: bool


def _used_by_step(roles: Roles, backwards: Sequence[Backward], facts: Sequence[Fact]) -> _Used:
    """Of one process, all its steps."""
    taken = _by_backwards(roles, sorted(b.started_s for b in backwards if b.pid == roles.pid))
    used = taken.by_step if taken.by_step is not None else _by_delivery(roles)
    uses = uses_of_batches(roles, used, facts) if taken.several_to_a_backward else Uses.ALL
    got = [_samples(batches) for batches in used]
    if uses is Uses.ONE:
        used = [batches[-1:] for batches in used]
    feeder = _feeder_of(roles)
    last, first = _ends_and_begins(roles)
    found = []
    before: BatchDelivered | None = None
    pass_before: dict[int, int] = {}
    for at, batches in enumerate(used):
        passes: dict[int, set[int]] = defaultdict(set)
        for batch in batches:
            passes[feeder[batch.loader]].add(batch.pass_number)
        several = any(len(numbers) > 1 for numbers in passes.values())
        across = several or any(pass_before.get(of, next(iter(own))) not in own for of, own in passes.items())
        after_end = not batches and before is not None and id(before) in last
        found.append(
            StepUse(
                samples=_samples(batches),
                got=got[at],
                ends_pass=several or after_end or any(id(batch) in last for batch in batches),
                begins_pass=across or any(id(batch) in first for batch in batches),
            )
        )
        before = batches[-1] if batches else before
        pass_before |= {feeder[batch.loader]: batch.pass_number for batch in batches}
    return _Used(steps=found, is_guess=uses is Uses.UNKNOWN)


def _samples(batches: Sequence[BatchDelivered]) -> int:
    return sum(batch.samples or batch.leading for batch in batches)


def _feeder_of(roles: Roles) -> dict[int, int]:
    return {number: at for at, one in enumerate(roles.feeders) for number in one.loader.numbers}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    # None where batches and backwards do not tell of each other.
    by_step: list[list[BatchDelivered]] | None
    # Most steps have more batches than backwards: put together, or some of them left out.
    several_to_a_backward: bool


def _by_backwards(roles: Roles, backwards: Sequence[float]) -> _Taken:
    waiting: deque[BatchDelivered] = deque()
    feeder = _feeder_of(roles)
    ended = {one.number for of in roles.feeders for one in of.passes if one.samples is not None}
    _, first = _ends_and_begins(roles)
    used: list[list[BatchDelivered]] = []
    into: list[BatchDelivered] = []
    delivered = went = several = with_backward = 0
    for _, _, event in _in_order(roles, backwards):
        if isinstance(event, BatchDelivered):
            if waiting and id(event) in first:
                # The training has left that loader's pass before, and what it had read of it.
                kept = [b for b in waiting if feeder[b.loader] != feeder[event.loader] or b.pass_number in ended]
                waiting = deque(kept)
            waiting.append(event)
            delivered += event.main_thread
        elif isinstance(event, OptimizerStepped):
            used.append(into)
            several, with_backward = several + (delivered > went), with_backward + (went > 0)
            into, delivered, went = [], 0, 0
        else:
            went += 1
            if waiting:
                into.append(waiting.popleft())
    steps = len(used)
    without = with_backward < WITHOUT_BACKWARDS * steps
    joined = not without and several > max(1.0, SEVERAL_BATCHES * steps)
    return _Taken(by_step=None if without or joined else used, several_to_a_backward=joined)


def _in_order(
    roles: Roles, backwards: Sequence[float]
) -> Iterator[tuple[float, int, BatchDelivered | OptimizerStepped | None]]:
    events: list[tuple[float, int, BatchDelivered | OptimizerStepped | None]] = [
        *((batch.returned_s, 1, batch) for batch in roles.fed),
        *((started_s, 2, None) for started_s in backwards),
        *((step.ended_s, 0, step) for step in roles.steps),
    ]
    return iter(sorted(events, key=lambda event: event[:2]))


def _by_delivery(roles: Roles) -> list[list[BatchDelivered]]:
    used: list[list[BatchDelivered]] = []
    into: list[BatchDelivered] = []
    for _, _, event in _in_order(roles, ()):
        if isinstance(event, BatchDelivered):
            into.append(event)
        else:
            used.append(into)
            into = []
    return used


def _ends_and_begins(roles: Roles) -> tuple[set[int], set[int]]:
    """The last batches of the passes that are over, and the first ones of all, by identity."""
    over: set[int] = set()
    begins: set[int] = set()
    for feeder in roles.feeders:
        if not feeder.batches:
            continue
        ended = {one.number for one in feeder.passes if one.samples is not None}
        lengths = {one.number: one.length for one in feeder.passes}
        last: dict[int, BatchDelivered] = {}
        first: dict[int, BatchDelivered] = {}
        for batch in feeder.batches:
            first.setdefault(batch.pass_number, batch)
            last[batch.pass_number] = batch
        newest_s = max(batch.returned_s for batch in first.values())
        over |= {
            id(batch)
            for number, batch in last.items()
            # Iterators that are read in turns go on after the newest has begun.
            if batch.returned_s < newest_s or number in ended or batch.index + 1 == lengths.get(number)
        }
        begins |= {id(batch) for batch in first.values()}
    return over, begins


def _number(steps: Sequence[StepUse]) -> tuple[NoBatch | None, int]:
    """The one number that all steps used, but for those that take what the end of an epoch leaves."""
    inside = [use for use in steps if not use.ends_pass] or list(steps)
    further = [use for use in inside if not use.begins_pass] or inside
    if len(inside) < min(LEAST_STEPS, len(steps)) or len(steps) < LEAST_STEPS:
        inside = further = list(steps)
    for some in (inside, further):
        if len({use.samples for use in some}) == 1 and some[0].samples:
            return (None if len(steps) >= LEAST_STEPS else NoBatch.FEW_STEPS), some[0].samples
    if any(not use.samples for use in further):
        return NoBatch.SEVERAL_STEPS, 0
    return NoBatch.VARIES, 0


def _together(used: Sequence[Sequence[StepUse]]) -> list[StepUse]:
    """The ranks' steps one by one; the last may not have ended everywhere."""
    return [
        StepUse(
            samples=sum(use.samples for use in step),
            got=sum(use.got for use in step),
            ends_pass=any(use.ends_pass for use in step),
            begins_pass=any(use.begins_pass for use in step),
        )
        for step in zip(*used, strict=False)
    ]


def _roles_of(pid: int, roles: Roles, observed: Observed) -> Roles | None:
    if pid == roles.pid:
        return roles
    own = find_roles(
        [step for step in observed.steps if step.pid == pid],
        [batch for batch in observed.delivered if batch.pid == pid],
        [fact for fact in observed.facts if fact.pid == pid],
    )
    return own if own is not None and own.batches else None


def _declared_ranks(facts: Sequence[Fact], roles: Roles) -> int:
    told = [f.data.get("world_size") for f in facts if f.name == "hello" and f.pid == roles.pid]
    return next((number for number in told if isinstance(number, int)), 1)


def _histogram(samples: Sequence[int]) -> tuple[tuple[float, int], ...]:
    counts = Counter(samples)
    if len(counts) <= MOST_SIZES:
        return tuple(sorted((float(size), steps) for size, steps in counts.items()))
    return tuple((float(np.median(part)), len(part)) for part in np.array_split(np.sort(samples), MOST_SIZES))


def _rows(roles: Roles) -> int | None:
    if roles.beside:
        return None
    last, _ = _ends_and_begins(roles)
    found = {batch.leading for batch in roles.batches if id(batch) not in last}
    return found.pop() or None if len(found) == 1 else None


def _batch_bytes(roles: Roles, facts: Sequence[Fact], rows: int | None) -> int | None:
    numbers = roles.train.numbers if roles.train is not None else frozenset()
    found = {
        fact.data.get("bytes")
        for fact in facts
        if fact.name == "shape" and fact.pid == roles.pid and fact.data.get("loader") in numbers
        if (fact.data.get("shape") or [None])[0] == rows
    }
    number = found.pop() if len(found) == 1 else None
    return number if isinstance(number, int) else None
