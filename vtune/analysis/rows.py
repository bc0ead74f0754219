"""How many samples a delivered batch has: by the sampler's count, or by its rows where a collate hands on fewer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vtune.domain.events import BatchDelivered, Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    batches: tuple[BatchDelivered, ...]
    # Fewer rows come out than samples were asked for, and nothing shows how many samples the rows are: a cap, or
    # samples packed into longer rows.
    rows_unknown: bool = False


def count_samples(
    batches: Sequence[BatchDelivered], sizes: Mapping[int, object], facts: Sequence[Fact], loaders: frozenset[int]
) -> Counted:
    """`sizes`: the loader's own batch size, by pass."""
    return _by_rows(_by_loader(batches, sizes), _told_by_rows(facts, loaders))


def _by_loader(batches: Sequence[BatchDelivered], sizes: Mapping[int, object]) -> tuple[BatchDelivered, ...]:
    """An iterable data set's batches carry no count of the sampler's: the loader's own batch size is one, the leading
    dimension (time, channels) need not be. Where it is, it tells the short batches at the end of the data, too."""
    own = [(batch.leading, sizes.get(batch.pass_number)) for batch in batches if not batch.samples]
    leads = bool(own) and all(isinstance(size, int) and leading <= size for leading, size in own)
    leads = leads and any(leading == size for leading, size in own)

    def counted(batch: BatchDelivered) -> BatchDelivered:
        size = sizes.get(batch.pass_number)
        if batch.samples or not isinstance(size, int):
            return batch
        return replace(batch, samples=batch.leading if leads and batch.leading else size)

    return tuple(counted(batch) for batch in batches)


def _by_rows(batches: tuple[BatchDelivered, ...], told: Mapping[int, list[Mapping[str, object]]]) -> Counted:
    sized = {(batch.leading, batch.samples) for batch in batches if batch.leading and batch.samples}
    fewer = {(leading, samples) for leading, samples in sized if leading < samples}
    if not fewer or any(_holds(samples, told.get(leading, [])) for leading, samples in fewer):
        return Counted(batches=batches)
    # A batch of one sample leads by one in every layout.
    leads = any(leading == samples > 1 for leading, samples in sized)
    if leads and all(leading <= samples for leading, samples in sized):
        counted = (replace(b, samples=b.leading) if b.leading and b.samples else b for b in batches)
        return Counted(batches=tuple(counted))
    return Counted(batches=batches, rows_unknown=True)


def _holds(samples: int, told: Sequence[Mapping[str, object]]) -> bool:
    """Whether such a batch has as many samples in another place: a tensor of labels, a list of images, the second
    dimension where time leads. Logs of older versions do not tell."""
    for sizes in told:
        heads, lengths = sizes.get("heads"), sizes.get("lengths")
        if not isinstance(heads, list) or not isinstance(lengths, list):
            return True
        if samples in lengths or any(head[0] == samples for head in heads):
            return True
        seconds = {head[1] for head in heads if len(head) > 1}
        time_leads = seconds == {samples} and all(len(head) > 1 for head in heads)
        # Of one tensor, or of several of the same length, the second dimension may be anything.
        if time_leads and len({head[0] for head in heads}) > 1:
            return True
    return not told


def _told_by_rows(facts: Sequence[Fact], loaders: frozenset[int]) -> Mapping[int, list[Mapping[str, object]]]:
    """The shapes of the batches that were told, by the rows of the first tensor."""
    found: dict[int, list[Mapping[str, object]]] = defaultdict(list)
    for fact in facts:
        shape = fact.data.get("shape")
        if fact.name == "shape" and fact.data.get("loader") in loaders and isinstance(shape, list) and shape:
            found[shape[0]].append(fact.data)
    return found
