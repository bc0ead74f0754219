"""Was it shown that the workers of an iterable data set read different samples?

Different samples show it where nothing was drawn at random, and so do different labels. Where random augmentation may
be all that differs, the code of the data set has to say that it shares out its samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, combinations

from vtune.analysis.reads import WorkerReads
from vtune.domain.repeated import Hidden

Sums = tuple[int | None, ...]
# Labels in the same order of so many samples are no chance.
LABELS_ALIKE = 8


def not_shown(workers: Sequence[WorkerReads]) -> Hidden | None:
    """Of a run with several workers. Those that came to no batch gave nothing twice."""
    first = workers[0].pass_number if workers else 0
    gave = [one for one in workers if one.batches and one.pass_number == first]
    if len(gave) < 2:
        return Hidden.FEW_GAVE if workers and not any(one.says_it_splits for one in workers) else None
    found = (_doubt(one, other) for one, other in combinations(gave, 2))
    return next((one for one in found if one is not None), None)


def _doubt(one: WorkerReads, other: WorkerReads) -> Hidden | None:
    kept = _in_order((batch.kept for batch in one.batches), (batch.kept for batch in other.batches))
    contents = _in_order((batch.contents for batch in one.batches), (batch.contents for batch in other.batches))
    if any(a != b for a, b in kept):
        return None
    says = one.says_it_splits and other.says_it_splits
    if all(a == b for a, b in contents):
        alike = Hidden.ALL_EQUAL if len({a for a, _ in contents}) == 1 else Hidden.FEW_DIFFERENT
        return None if says else alike
    if not (_draws(one) or _draws(other)):
        return None
    labels = [a for a, _ in kept if a is not None]
    if len(labels) >= LABELS_ALIKE and len(set(labels)) > 1:
        # The same labels in the same order; a shard of its own has some value of its own in its code, too.
        elsewhere = says and one.batches[0].cursor != other.batches[0].cursor
        return None if elsewhere else Hidden.AUGMENTED
    return None if says else Hidden.AUGMENTED


def _in_order(one: Iterable[Sums], other: Iterable[Sums]) -> list[tuple[int | None, int | None]]:
    return list(zip(chain.from_iterable(one), chain.from_iterable(other), strict=False))


def _draws(one: WorkerReads) -> bool:
    """Some generator that is known to it moved on."""
    names = {name for batch in one.batches for name in batch.states}
    states = ((batch.states.get(name) for batch in (one.start, *one.batches)) for name in names)
    return any(len({state for state in own if state is not None}) > 1 for own in states)
