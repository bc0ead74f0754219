"""What to try where the user's own configuration does not fit: the least change first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vtune.analysis.rungs import Memory
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment
from vtune.strategies.walk_candidates import why_not

# Launches that may be spent on making it fit.
FIT_TRIES = 4


def gentler(
    own: Mapping[str, Scalar], memory: Memory, experiment: Experiment, *, turns_batch: bool
) -> Iterator[dict[str, Scalar]]:
    """The device's memory goes with the batch; the machine's with the workers, and with what lies ready in their
    queues. `turns_batch`: the effective batch may change. Whether each can be tried is another question."""
    if memory != "VRAM":
        yield from _less_loading(own)
    yield from _smaller_batches(own, experiment, turns_batch=turns_batch)


def _less_loading(own: Mapping[str, Scalar]) -> Iterator[dict[str, Scalar]]:
    workers, prefetch = own.get("workers"), own.get("prefetch_factor")
    if not isinstance(workers, int) or not workers:
        return
    fewer: list[dict[str, Scalar]] = []
    if isinstance(prefetch, int) and prefetch > 1:
        fewer.append({"prefetch_factor": 1})
    while workers > 1:
        workers //= 2
        fewer.append({"workers": workers})
    # The gentlest of all comes before the tries are used up: whether anything fits, it tells.
    yield from fewer[: FIT_TRIES - 1]
    yield {"workers": 0}


def _smaller_batches(
    own: Mapping[str, Scalar], experiment: Experiment, *, turns_batch: bool
) -> Iterator[dict[str, Scalar]]:
    """With as many more of them to an optimizer step; alone only where the effective batch may change."""
    batch, times = own.get("batch_size"), own.get("accumulate_steps", 1)
    for by in (2, 4, 8, 16):
        if not isinstance(batch, int) or batch % by or not isinstance(times, int):
            return
        whole: dict[str, Scalar] = {"batch_size": batch // by, "accumulate_steps": times * by}
        if why_not(whole, own, experiment) is None:
            yield whole
        elif turns_batch:
            yield {"batch_size": batch // by}
        else:
            yield whole  # named with why it cannot be tried, as no further one can
            return
