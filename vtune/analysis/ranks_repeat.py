"""Do the ranks of a distributed training read the same data? Each sees one training's data of its own otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from vtune.analysis.reads import Key, WorkerReads, reads_of_ranks
from vtune.analysis.repeated import LEAST_BATCHES, is_iterable, same_samples
from vtune.analysis.roles import Roles
from vtune.domain.events import Fact
from vtune.domain.repeated import RanksRepeat


def ranks_that_repeat(roles: Roles, facts: Sequence[Fact]) -> RanksRepeat | None:
    if len(roles.ranks) < 2 or roles.train is None:
        return None
    ranks = reads_of_ranks(roles, facts)
    if len(ranks) < 2 or not ranks[0]:
        return None
    first, others = ranks[0], ranks[1:]
    if is_iterable(roles, facts):
        many = 1 + sum(_read_alike(first, other) for other in others)
        where = next((one.reads_at for one in first if one.reads_at is not None), None)
        return RanksRepeat(ranks=many, dataset=roles.train.dataset, where=where) if many > 1 else None
    items = first[0].items
    sampled = next((one.sampler_samples for one in roles.passes if one.sampler_samples is not None), None)
    if items is None or items != sampled:
        return None
    many = 1 + sum(_go_over_the_same(first, other) for other in others)
    if many < 2:
        return None
    return RanksRepeat(ranks=many, dataset=roles.train.dataset, where=roles.train.where or None, items=items)


def _read_alike(own: Sequence[WorkerReads], others: Sequence[WorkerReads]) -> bool:
    """Worker by worker."""
    by_number = {one.worker: one for one in others}
    pairs = [(one, by_number[one.worker]) for one in own if one.worker in by_number]
    long = [pair for pair in pairs if all(len(one.batches) >= LEAST_BATCHES for one in pair)]
    return bool(long) and all(same_samples(pair) is not None for pair in long)


def _go_over_the_same(own: Sequence[WorkerReads], others: Sequence[WorkerReads]) -> bool:
    """Data sets that hold the same. Where both came to the same indices, some samples have to be the same, too: a data
    set may ask for its rank only when it reads."""
    if not others or own[0].attributes is None:
        return False
    if (own[0].attributes, own[0].items) != (others[0].attributes, others[0].items):
        return False
    one, other = _samples(own), _samples(others)
    common = one.keys() & other.keys()
    return not common or any(one[key] & other[key] for key in common)


def _samples(workers: Sequence[WorkerReads]) -> dict[Key, set[tuple[str, int]]]:
    """What is known of each index: its checksum, and that of its label."""
    found: dict[Key, set[tuple[str, int]]] = {}
    for batch in (batch for one in workers for batch in one.batches):
        for sums, name in ((batch.contents, "content"), (batch.kept, "kept")):
            for key, value in zip(batch.keys, sums, strict=False):
                if value is not None:
                    found.setdefault(key, set()).add((name, value))
    return found
