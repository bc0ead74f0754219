"""Another effective batch than the user's: shown by what both optimizers used, and what it means for the learning rate
and for what an epoch sees."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vtune.domain.consumed import Consumed, NoBatch
from vtune.domain.record import Measurement, TrialRecord

# Steps of different sizes: two windows of one training differ by chance. So much in the mean, and beyond chance at
# 0.1 % by Kolmogorov and Smirnov's test, is another training.
LEAST_RATIO = 1.1
CRITICAL = 1.949
# Of such trainings nobody knows what a step used.
UNKNOWN = (
    NoBatch.ROWS_UNKNOWN,
    NoBatch.RANKS_UNSEEN,
    NoBatch.RANKS_APART,
    NoBatch.FEW_STEPS,
    NoBatch.SEVERAL_LOADERS,
    NoBatch.JOINED_OR_SKIPPED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnotherBatch:
    now: float
    then: float
    # Else the means of steps of different sizes.
    exact: bool = True
    # Else nothing ran with it yet: what the settings say, unless the training keeps its batch by itself.
    measured: bool = True
    # Of an epoch, now and then, where epochs are bounded by iterations and so see another number.
    samples: tuple[int, int] | None = None

    @property
    def ratio(self) -> float:
        return self.now / self.then

    @property
    def change(self) -> str:
        mean = "" if self.exact else " in the mean"
        unmeasured = "" if self.measured else " (not measured: by the settings)"
        return f"{_number(self.now)} instead of {_number(self.then)}{mean}{unmeasured}"

    @property
    def text(self) -> str:
        return f"effective batch {self.change}"

    @property
    def learning_rate(self) -> str:
        return (
            f"rules of thumb for the learning rate: ×{self.ratio:.3g} for SGD (linear), ×{self.ratio**0.5:.3g} for Adam"
            " (square root)"
        )

    def as_json(self) -> dict[str, object]:
        return {
            "now": self.now,
            "before": self.then,
            "ratio": self.ratio,
            "exact": self.exact,
            "measured": self.measured,
        }

    @property
    def epochs(self) -> str | None:
        return None if self.samples is None else f"an epoch sees {self.samples[0]} samples instead of {self.samples[1]}"


def another_batch(record: TrialRecord, baseline: TrialRecord | None) -> AnotherBatch | None:
    """None where it stays, or where one of the two is not known."""
    return None if baseline is None else batch_change(record.measurement, baseline.measurement)


def batch_change(now: Measurement, before: Measurement) -> AnotherBatch | None:
    of_now, of_then = now.samples_per_step, before.samples_per_step
    if not of_now or not of_then or not _is_known(now) or not _is_known(before):
        return None
    exact = now.effective_batch is not None and before.effective_batch is not None
    if exact:
        of_now, of_then = float(now.effective_batch or 0), float(before.effective_batch or 0)
    far = max(of_now, of_then) / min(of_now, of_then) >= LEAST_RATIO
    if exact and now.consumed is not None and before.consumed is not None:
        another = of_now != of_then
    elif now.consumed is None or before.consumed is None:
        # An older journal: a mean, rounded.
        another = far and of_now != of_then
    else:
        another = far and _beyond_chance(now.consumed, before.consumed)
    if not another:
        return None
    seen, then = now.samples_per_epoch, before.samples_per_epoch
    bounded = now.epoch_bound_by == "iterations" and seen and then and seen != then
    return AnotherBatch(
        now=of_now, then=of_then, exact=exact, samples=(seen, then) if bounded and seen and then else None
    )


def batch_ratio(now: Measurement, before: Measurement) -> float | None:
    """Now over before; None where one of the two is not known."""
    if not now.samples_per_step or not before.samples_per_step or not (_is_known(now) and _is_known(before)):
        return None
    found = batch_change(now, before)
    return 1.0 if found is None else found.ratio


def may_be_another(record: TrialRecord, baseline: TrialRecord) -> bool:
    """Shown to be another training, or not known to be the same."""
    now, before = record.measurement, baseline.measurement
    ratio = batch_ratio(now, before)
    if ratio is not None:
        return ratio != 1.0
    return _reason(now) != _reason(before) or now.effective_batch != before.effective_batch


def no_larger_rows(now: Measurement, before: Measurement) -> int | None:
    """The rows of a batch, where another batch size was set and as many come out as before, with as many bytes."""
    one, other = now.consumed, before.consumed
    if one is None or other is None or one.rows is None or one.batch_bytes is None:
        return None
    sizes = now.effective_settings.get("batch_size"), before.effective_settings.get("batch_size")
    same = (one.rows, one.batch_bytes) == (other.rows, other.batch_bytes)
    return one.rows if same and None not in sizes and sizes[0] != sizes[1] else None


def _reason(measured: Measurement) -> NoBatch | None:
    return measured.consumed.no_batch if measured.consumed is not None else None


def _is_known(measured: Measurement) -> bool:
    return _reason(measured) not in UNKNOWN


def _beyond_chance(one: Consumed, other: Consumed) -> bool:
    """Kolmogorov and Smirnov's two-sample test of the steps' sizes."""
    of_one, of_other = dict(one.by_step), dict(other.by_step)
    many, others = sum(of_one.values()), sum(of_other.values())
    gap = below = below_other = 0.0
    for size in sorted({*of_one, *of_other}):
        below += of_one.get(size, 0) / many
        below_other += of_other.get(size, 0) / others
        gap = max(gap, abs(below - below_other))
    return gap > CRITICAL * math.sqrt((many + others) / (many * others))


def _number(samples: float) -> str:
    return f"{samples:.0f}" if samples == round(samples) else f"{samples:.3g}"
