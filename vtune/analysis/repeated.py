"""Do loader workers make the same data? Shown by checksums of what each gave and of what it drew from.

One equal sample shows nothing: blank patches, a few samples drawn again and again, a shared cache. Evidence is a whole
sequence that is equal in order while it varies within each worker, by more than chance would bring.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise

from vtune.analysis.own_numbers import same_own_numbers
from vtune.analysis.reads import BatchReads, Key, State, WorkerReads, main_reads, reads_of
from vtune.analysis.roles import Roles
from vtune.analysis.splits import not_shown
from vtune.domain.events import Fact
from vtune.domain.repeated import Repeated, Repeats

# Chance would make such a sequence once in a million.
LEAST_BITS = 20.0
# Of each worker: what was drawn once may have been for a shuffle, and one batch does not advance.
LEAST_BATCHES = 2
# Numbers drawn: less than any generator's jump, and more than a few batches take.
LEAST_JUMP = 2**40

Alone = Mapping[Key, int]


def find_repeated(roles: Roles, facts: Sequence[Fact], *, alone: Alone | None = None) -> Repeated | None:
    """`alone`: checksums of samples by their index, from a run in which one process made all of them."""
    iterable = is_iterable(roles, facts)
    for _, own in groupby(reads_of(roles, facts), lambda one: one.pass_number):
        gave = list(own)
        workers = [one for one in gave if len(one.batches) >= LEAST_BATCHES]
        if iterable:
            found = same_samples(workers)
        else:
            found = _same_numbers(workers) or _next_record(gave, alone or {}) or same_own_numbers(workers)
        if found is not None:
            return replace(found, dataset=roles.train.dataset if roles.train is not None else "")
    hidden = not_shown(reads_of(roles, facts)) if iterable and roles.workers > 1 else None
    if hidden is not None:
        dataset = roles.train.dataset if roles.train is not None else ""
        at = next((one.reads_at for one in reads_of(roles, facts) if one.reads_at is not None), None)
        return Repeated(reason=Repeats.NOT_SHOWN, workers=roles.workers, dataset=dataset, where=at, hidden=hidden)
    return None


def was_compared(roles: Roles, facts: Sequence[Fact]) -> bool:
    """Long enough for what its workers share to show."""
    by_pass = groupby(reads_of(roles, facts), lambda one: one.pass_number)
    return any(sum(len(one.batches) >= LEAST_BATCHES for one in own) > 1 for _, own in by_pass)


def samples_alone(roles: Roles, facts: Sequence[Fact]) -> dict[Key, int]:
    """By index, where one process made all samples: the main one, or the only worker."""
    if roles.workers > 1 or is_iterable(roles, facts):
        return {}
    batches = [*main_reads(roles, facts), *(batch for one in reads_of(roles, facts) for batch in one.batches)]
    found: dict[Key, int] = {}
    for key, content in _keyed(batches):
        if key is not None and content is not None:
            # A later pass may have drawn other random numbers for the same index.
            found.setdefault(key, content)
    return found


def is_iterable(roles: Roles, facts: Sequence[Fact]) -> bool:
    key = roles.train.key if roles.train is not None else None
    return any(fact.data.get("iterable") for fact in facts if fact.name == "loader" and fact.data.get("key") == key)


def bits(count: int, values: Sequence[object]) -> float:
    """How unlikely it is that so many draws from such values come out the same twice, as a logarithm."""
    if not values:
        return 0.0
    alike = sum((times / len(values)) ** 2 for times in Counter(values).values())
    return -count * math.log2(alike)


def _same_numbers(workers: Sequence[WorkerReads]) -> Repeated | None:
    names = dict.fromkeys(name for one in workers for name in _all_states(one))
    for name in sorted(names, key=lambda one: one in ("random", "numpy.random", "torch")):
        for first in workers:
            alike = [one for one in workers if one is not first and _draw_the_same(first, one, name)]
            if alike:
                return Repeated(
                    reason=Repeats.SAME_NUMBERS,
                    workers=1 + len(alike),
                    dataset="",
                    where=_place(first, name),
                    generator=name,
                    batches=min(len(_states(one, name)) for one in (first, *alike)) - 1,
                )
    return None


def _place(one: WorkerReads, generator: str) -> str | None:
    return one.places.get(generator) or one.prepared_at or one.reads_at


def _draw_the_same(one: WorkerReads, other: WorkerReads, name: str) -> bool:
    """From the same state on, in batches of different samples: what is seeded anew for each sample, by its index or by
    a constant, is not drawn on."""
    own, others = _states(one, name), _states(other, name)
    count = min(len(own), len(others))
    own, others = own[:count], others[:count]
    if count <= LEAST_BATCHES or not (_draws_on(own) and _draws_on(others)):
        return False
    if own[0] != others[0] and not (_is_made_late(one, name) and _is_made_late(other, name) and _is_near(own, others)):
        return False
    asked = zip(one.batches, other.batches, strict=False)
    if sum(a.keys != b.keys for a, b in asked) < LEAST_BATCHES:
        return False
    if own == others:
        return True
    # Some samples take more numbers than others: then it is the same sequence at another place. The first draw after a
    # seed makes the words of MT19937, all further ones use them.
    streams = {state.stream for state in (*own[1:], *others[1:])}
    return len(streams) == 1 and None not in streams


def _is_made_late(one: WorkerReads, name: str) -> bool:
    """With the first sample: nobody saw in which state it began."""
    return name not in one.start.states


def _is_near(own: Sequence[State], others: Sequence[State]) -> bool:
    """Each goes on along one sequence, and they are apart by no more than a few batches draw: workers that share one
    out are a jump apart."""
    both = [[state.place for state in side if state.place is not None] for side in (own, others)]
    places = [place for side in both for place in side]
    if len(places) < len(own) + len(others) or any(side != sorted(side) for side in both):
        return False
    return max(places) - min(places) < LEAST_JUMP


def _draws_on(states: Sequence[State]) -> bool:
    changes = sum(before != after for before, after in pairwise(states))
    return changes >= LEAST_BATCHES and len(set(states)) == changes + 1


def _states(one: WorkerReads, name: str) -> list[State]:
    return [batch.states[name] for batch in (one.start, *one.batches) if name in batch.states]


def _all_states(one: WorkerReads) -> Iterable[str]:
    return (name for batch in (one.start, *one.batches) for name in batch.states)


def _next_record(workers: Sequence[WorkerReads], alone: Alone) -> Repeated | None:
    for first in workers:
        alike = [one for one in workers if one is not first and _give_the_same(first, one)]
        pairs = [_equal_pairs(first, one) for one in alike]
        values = [content for _, content in _keyed(first.batches)]
        by_chance = sum(bits(len(own), values) for own in pairs)
        if by_chance < LEAST_BITS:
            continue
        # A data set that repeats itself every so many indices gives the same at so many indices' distance.
        apart = sum(bits(len({_distance(a, b) for a, b in own}), values) for own in pairs)
        held = [_held_against(first, one, alone) for one in alike]
        if any(verdict is False for verdict in held):
            continue
        if apart >= LEAST_BITS or True in held or any(_takes_out(first, one) for one in alike):
            return Repeated(
                reason=Repeats.NEXT_RECORD,
                workers=1 + len(alike),
                dataset="",
                where=first.reads_at,
                batches=min(len(one.batches) for one in (first, *alike)),
            )
    return None


def _give_the_same(one: WorkerReads, other: WorkerReads) -> bool:
    pairs = list(zip(_keyed(one.batches), _keyed(other.batches), strict=False))
    return bool(pairs) and all(a is not None and a == b for (_, a), (_, b) in pairs)


def _equal_pairs(one: WorkerReads, other: WorkerReads) -> list[tuple[Key | None, Key | None]]:
    """Indices of the samples that are equal though another one was asked for."""
    pairs = zip(_keyed(one.batches), _keyed(other.batches), strict=False)
    return [(a, b) for (a, _), (b, _) in pairs if a != b]


def _distance(one: Key | None, other: Key | None) -> object:
    return other - one if isinstance(one, int) and isinstance(other, int) else (one, other)


def _held_against(one: WorkerReads, other: WorkerReads, alone: Alone) -> bool | None:
    """Whether the same indices gave other samples where one process made all of them; None where nothing was seen of
    one of the two."""
    known = [
        [content == alone[key] for key, content in _keyed(own.batches) if key is not None and key in alone]
        for own in (one, other)
    ]
    if any(not same for own in known for same in own):
        return True
    return False if all(known) else None


def _takes_out(one: WorkerReads, other: WorkerReads) -> bool:
    """Both use up a container of the data set, or an iterator that it holds."""
    shrinking = [
        {
            name
            for name, size in own.start.takes.items()
            if size < 0 or any(batch.takes.get(name, size) < size for batch in own.batches)
        }
        for own in (one, other)
    ]
    return bool(shrinking[0] & shrinking[1])


def _keyed(batches: Sequence[BatchReads]) -> list[tuple[Key | None, int | None]]:
    found: list[tuple[Key | None, int | None]] = []
    for batch in batches:
        keys = batch.keys if len(batch.keys) == len(batch.contents) else (None,) * len(batch.contents)
        found.extend(zip(keys, batch.contents, strict=True))
    return found


def same_samples(workers: Sequence[WorkerReads]) -> Repeated | None:
    for first in workers:
        values = [content for _, content in _keyed(first.batches)]
        if _comes_round(values):
            continue
        alike = [one for one in workers if one is not first and _is_at_the_same_place(first, one)]
        shown = sum(bits(len(list(zip(values, _keyed(one.batches), strict=False))), values) for one in alike)
        if shown >= LEAST_BITS:
            drawn = _drawn_alike([first, *alike])
            return Repeated(
                reason=Repeats.SAME_SAMPLES if drawn is None else Repeats.SAME_NUMBERS,
                workers=1 + len(alike),
                dataset="",
                where=first.reads_at if drawn is None else _place(first, drawn),
                generator=drawn,
                batches=min(len(one.batches) for one in (first, *alike)),
            )
    return None


def _drawn_alike(workers: Sequence[WorkerReads]) -> str | None:
    """The generator that chose these samples, where all drew on in one: a shuffle draws once."""
    for name in dict.fromkeys(_all_states(workers[0])):
        own = [_states(one, name) for one in workers]
        count = min(map(len, own))
        if _draws_on(own[0][:count]) and all(states[:count] == own[0][:count] for states in own):
            return name
    return None


def _is_at_the_same_place(one: WorkerReads, other: WorkerReads) -> bool:
    """Shards of a small data set that comes round may look alike: then its own counters are at different places."""
    if not _give_the_same(one, other):
        return False
    both = list(zip((batch.cursor for batch in one.batches), (batch.cursor for batch in other.batches), strict=False))
    names = set[str]().union(*(own for pair in both for own in pair))
    for name in names:
        own, others = ([pair[at].get(name) for pair in both] for at in (0, 1))
        if len(set(own)) > 1 and len(set(others)) > 1 and own != others:
            return False
    return True


def _comes_round(values: Sequence[int | None]) -> bool:
    """A few samples, over and over: equal shards of them are no sign of anything."""
    return any(
        all(values[at] == values[at + period] for at in range(len(values) - period))
        for period in range(2, len(values) // 2 + 1)
    )
