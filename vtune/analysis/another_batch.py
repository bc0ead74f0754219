"""Another effective batch than the user's: what it means for the learning rate, and for what an epoch sees."""

from __future__ import annotations

from dataclasses import dataclass

from vtune.domain.record import TrialRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class AnotherBatch:
    now: int
    then: int
    # Of an epoch, now and then, where epochs are bounded by iterations and so see another number.
    samples: tuple[int, int] | None = None

    @property
    def text(self) -> str:
        return f"effective batch {self.now} instead of {self.then}"

    @property
    def learning_rate(self) -> str:
        factor = self.now / self.then
        return (
            f"rules of thumb for the learning rate: ×{factor:.3g} for SGD (linear), ×{factor**0.5:.3g} for Adam"
            " (square root)"
        )

    @property
    def epochs(self) -> str | None:
        return None if self.samples is None else f"an epoch sees {self.samples[0]} samples instead of {self.samples[1]}"


def another_batch(record: TrialRecord, baseline: TrialRecord | None) -> AnotherBatch | None:
    """None where it stays, or where one of the two is not known."""
    now, before = record.measurement, baseline.measurement if baseline is not None else None
    if before is None or not now.effective_batch or not before.effective_batch:
        return None
    if now.effective_batch == before.effective_batch:
        return None
    seen, then = now.samples_per_epoch, before.samples_per_epoch
    bounded = now.epoch_bound_by == "iterations" and seen and then and seen != then
    return AnotherBatch(
        now=now.effective_batch,
        then=before.effective_batch,
        samples=(seen, then) if bounded and seen and then else None,
    )
