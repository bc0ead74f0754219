"""What of two records may be compared, and by which numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from vtune.analysis.compare import FULL, Rate, launched, lost_to_others
from vtune.domain.choice import RankedBy
from vtune.domain.effects import Scalar
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus

# A rate from fewer steps counts only where it was shown to be steady, or where nothing better is there.
LEAST_STEPS = 20
# Vtune's own words for a trial that turned nothing, in records that do not say what they turned.
TURNED_NOTHING = "the current settings"
# Peaks of the same settings differ by some percent from launch to launch: within such a step they are the same.
MEMORY_STEP = math.log(1.1)

Settings = tuple[tuple[str, str], ...]
Burden = tuple[bool, int, int, float, int]


def settings_of(record: TrialRecord) -> Settings:
    """What tells two trials' settings apart; what is not set does not count."""
    return tuple(sorted((name, repr(value)) for name, value in record.settings.items() if value is not None))


def contradicting(one: Mapping[str, Scalar], other: Mapping[str, Scalar]) -> list[str]:
    """The settings that are known of both and are not the same."""
    return [name for name in one if None not in (one[name], other.get(name)) and one[name] != other[name]]


def same_cache(one: TrialRecord, other: TrialRecord) -> bool:
    """Cold and warm reading are different questions; where nobody knows, nothing is held against a trial."""
    regimes = {one.measurement.cache, other.measurement.cache}
    return "unknown" in regimes or len(regimes) == 1


def measured_enough(record: TrialRecord) -> bool:
    return record.measurement.steady or record.measurement.steps_measured >= LEAST_STEPS


def has_rate(record: TrialRecord) -> bool:
    """Completed, with a rate that says something of a run: a search for the ceiling feeds the training from memory."""
    measured = record.measurement
    return record.status is TrialStatus.COMPLETED and (measured.samples_per_s or 0) > 0 and measured.ceiling is None


def turned_nothing(record: TrialRecord) -> bool:
    return record.reason == TURNED_NOTHING if record.asked is None else not record.asked


def metric_of(measured: Iterable[TrialRecord]) -> RankedBy:
    """One measure for all: a whole run's rate, and an epoch's, pay what a steady rate does not."""
    measurements = [record.measurement for record in measured]
    if all((one.samples_per_s_whole_run or 0) > 0 for one in measurements):
        return "samples_per_s_whole_run"
    if all((one.samples_per_s_epoch or 0) > 0 for one in measurements):
        return "samples_per_s_epoch"
    return "samples_per_s"


def rate_of(record: TrialRecord, ranked_by: RankedBy) -> Rate:
    """The interval of the steady rate, as wide in proportion: what a whole run pays besides makes it no wider."""
    steady, interval = record.measurement.samples_per_s, record.measurement.samples_per_s_ci95
    value = getattr(record.measurement, ranked_by)
    assert steady and value
    if interval is None:
        return Rate(value, None)
    return Rate(value, (interval[0] * value / steady, interval[1] * value / steady))


def launched_rate(record: TrialRecord, ranked_by: RankedBy, cores: float | None) -> Rate:
    return launched(rate_of(record, ranked_by), lost_of(record, cores))


def lost_of(record: TrialRecord, cores: float | None) -> float:
    """By how much its rate may be higher without others beside it, as a logarithm. Where nobody knows how many cores
    there are, those that were busy are taken for all."""
    busy = (record.measurement.others_cores or 0.0) + (record.measurement.tree_cores or 0.0)
    return lost_to_others(others_share(record, cores), full=cores is None or busy >= FULL * cores)


def others_share(record: TrialRecord, cores: float | None) -> float:
    """Of the cores, what others kept busy; where nobody knows how many there are, of those that were busy."""
    others = record.measurement.others_cores or 0.0
    busy = max(1.0, others + (record.measurement.tree_cores or 0.0))
    return min(1.0, max(0.0, others) / (cores or busy))


def by_settings(records: Sequence[TrialRecord]) -> dict[tuple[Settings, str], list[TrialRecord]]:
    groups: dict[tuple[Settings, str], list[TrialRecord]] = {}
    for record in records:
        groups.setdefault((settings_of(record), record.measurement.cache), []).append(record)
    return groups


def burden(record: TrialRecord, baseline: TrialRecord) -> Burden:
    """Among equals the least wins. Another training first, then what presses on the machine: RAM, VRAM, workers."""
    measured = record.measurement
    workers = record.settings.get("workers")
    return (
        measured.effective_batch != baseline.measurement.effective_batch,
        _memory_steps(measured.ram_peak_bytes),
        _memory_steps(measured.vram_peak_bytes),
        workers if isinstance(workers, int) else math.inf,
        record.trial,
    )


def _memory_steps(peak_bytes: int | None) -> int:
    return round(math.log(peak_bytes) / MEMORY_STEP) if peak_bytes else 0
