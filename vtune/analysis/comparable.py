"""What of two records may be compared, and by which numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from vtune.analysis.compare import CORES_FULL, MOST_SHARE, Rate, launched, lost_to_others
from vtune.domain.choice import RankedBy
from vtune.domain.effects import Scalar
from vtune.domain.record import Measurement, TrialRecord
from vtune.domain.trial import TrialStatus

# A rate from fewer steps counts only where it was shown to be steady, or where nothing better is there.
LEAST_STEPS = 20
# Vtune's own words for a trial that turned nothing, in records that do not say what they turned.
TURNED_NOTHING = "the current settings"
# Peaks of the same settings differ by some percent from launch to launch: within such a step they are the same.
MEMORY_STEP = math.log(1.1)

# Of its time on a core, what a neighbour's use of the caches, of the memory and of the core's other half may take.
SLOWED = 0.3

Settings = tuple[tuple[str, str], ...]
Burden = tuple[int, int, float, int]


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
    """Completed, with a rate that says something of a run: a search for the ceiling feeds the training from memory, and
    on a busy machine nobody knows what others took."""
    measured = record.measurement
    completed = record.status is TrialStatus.COMPLETED and not record.on_busy_machine
    return completed and (measured.samples_per_s or 0) > 0 and measured.ceiling is None


# They say of the settings that a run may not come to its end, whatever other launches of them came to.
FATAL = (
    TrialStatus.OUT_OF_VRAM,
    TrialStatus.OUT_OF_RAM,
    TrialStatus.OUT_OF_SHM,
    TrialStatus.CRASHED,
    TrialStatus.HUNG,
    TrialStatus.DIVERGED,
    TrialStatus.INVALID,
)


def failed_after(launches: Sequence[TrialRecord], trial: int) -> TrialRecord | None:
    """The launch in which the same settings failed after that one ran. What did not take effect in one launch and did
    in a later one takes effect: its way into the training was mended."""
    later = [one for one in launches if one.trial > trial]
    ran = max((one.trial for one in later if has_rate(one)), default=trial)
    fatal = (one for one in later if one.status in FATAL)
    return next((one for one in fatal if one.status is not TrialStatus.INVALID or one.trial > ran), None)


def died_of(records: Sequence[TrialRecord]) -> dict[int, TrialRecord]:
    """Each completed trial whose settings failed in a later launch, and that launch. What a launch that ended early ran
    with is not always known, so it is told by what was asked. One that failed first and ran afterwards runs."""
    alike: dict[frozenset[tuple[str, str]], list[TrialRecord]] = {}
    for record in records:
        if record.asked is not None and (has_rate(record) or record.status in FATAL):
            key = frozenset((name, repr(value)) for name, value in record.asked.items())
            alike.setdefault(key, []).append(record)
    died: dict[int, TrialRecord] = {}
    for group in alike.values():
        ran = [record.trial for record in group if has_rate(record)]
        if ran and (there := failed_after(group, min(ran))) is not None:
            died.update(dict.fromkeys(ran, there))
    return died


def lived_longer(record: TrialRecord) -> bool:
    """A winner's further launch, for longer than the trials that it is compared by: it shows whether the settings last.
    What it sees beyond them (an epoch's end, a validation) is in none of the others' rates."""
    return record.origin == "confirm" and record.race is None


def full_run(record: TrialRecord) -> bool:
    """Other than a trial's, its rate has a day's pauses and neighbours in it, and its end may be a full disk's."""
    return record.origin == "launch"


def turned_nothing(record: TrialRecord) -> bool:
    return record.reason == TURNED_NOTHING if record.asked is None else not record.asked


def own_measurement(records: Sequence[TrialRecord]) -> Measurement | None:
    """Of the user's own settings, where a trial has told what its steps used."""
    own = (one.measurement for one in records if turned_nothing(one) and one.measurement.samples_per_step)
    return next(own, None)


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
    return rate_in(record.measurement, ranked_by)


def rate_in(measured: Measurement, ranked_by: RankedBy) -> Rate:
    steady, interval = measured.samples_per_s, measured.samples_per_s_ci95
    value = getattr(measured, ranked_by)
    assert steady and value
    if interval is None:
        return Rate(value, None)
    return Rate(value, (interval[0] * value / steady, interval[1] * value / steady))


def launched_rate(record: TrialRecord, ranked_by: RankedBy, cores: float | None) -> Rate:
    return launched(rate_of(record, ranked_by), lost_of(record, cores))


def lost_of(record: TrialRecord, cores: float | None) -> float:
    """By how much its rate may be higher without others beside it, as a logarithm. Where nobody knows how many cores
    there are, those that were busy are taken for all."""
    return lost_in(record.measurement, cores)


def lost_in(measured: Measurement, cores: float | None) -> float:
    busy = (measured.others_cores or 0.0) + (measured.tree_cores or 0.0)
    lost = lost_to_others(_others_share(measured, cores), full=cores is None or busy >= CORES_FULL * cores)
    waited = _lost_on_cores(measured)
    return lost if waited is None else min(lost, waited)


def _lost_on_cores(measured: Measurement) -> float | None:
    """The most that others can have taken from a training that hardly needed a core: the time that it stood in line
    for one, and what they slow down while it has one. A step may wait for the main process and for a worker, one after
    the other. None where nobody counted."""
    main = [use for use in measured.processes if use.role == "main"]
    workers = [use for use in measured.processes if use.role != "main"]
    known = [use for use in (*main, *workers) if use.queued_fraction is not None and use.cpu_fraction is not None]
    if not main or len(known) < len(main) + len(workers) or measured.tree_cores is None:
        return None
    queued = sum(max((use.queued_fraction or 0.0 for use in side), default=0.0) for side in (main, workers))
    used = sum(max((use.cpu_fraction or 0.0 for use in side), default=0.0) for side in (main, workers))
    counted = sum(use.cpu_fraction or 0.0 for use in known)
    # Threads that are not counted one by one stand in line as the others do: those of two processes of all.
    unseen = max(0.0, measured.tree_cores - counted) * min(1.0, 2 / len(known))
    line = sum(use.queued_fraction or 0.0 for use in known) / counted if counted > 0 else 1.0
    return -math.log1p(-min(MOST_SHARE, queued + unseen * line + SLOWED * (used + unseen)))


def _others_share(measured: Measurement, cores: float | None) -> float:
    """Of the cores, the share that others kept busy; where nobody knows how many there are, of those that were busy."""
    others = measured.others_cores or 0.0
    busy = max(1.0, others + (measured.tree_cores or 0.0))
    return min(1.0, max(0.0, others) / (cores or busy))


def by_settings(records: Sequence[TrialRecord]) -> dict[tuple[Settings, str], list[TrialRecord]]:
    groups: dict[tuple[Settings, str], list[TrialRecord]] = {}
    for record in records:
        groups.setdefault((settings_of(record), record.measurement.cache), []).append(record)
    return groups


def burden(record: TrialRecord) -> Burden:
    """Among equals of the same training the least wins, by what presses on the machine: RAM, VRAM, workers."""
    measured = record.measurement
    workers = record.settings.get("workers")
    return (
        memory_steps(measured.ram_peak_bytes),
        memory_steps(measured.vram_peak_bytes),
        workers if isinstance(workers, int) else math.inf,
        record.trial,
    )


def memory_steps(peak_bytes: int | None) -> int:
    return round(math.log(peak_bytes) / MEMORY_STEP) if peak_bytes else 0
