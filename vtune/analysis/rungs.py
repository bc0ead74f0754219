"""Whether a step of a phase is kept: what it brought over what had won before it, and what rules it out. By the rate of
samples, never by a step's time, which a larger batch always makes longer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from vtune.analysis.another_batch import another_batch
from vtune.analysis.comparable import has_rate, launched_rate, measured_enough, metric_of, same_cache
from vtune.analysis.compare import Z95, ratio_of
from vtune.analysis.fit import excess_of, needs_text, out_of_room, out_of_shm, room_text
from vtune.analysis.lost import steps_text
from vtune.analysis.race import DELTA
from vtune.analysis.two_sides import Z99
from vtune.domain.choice import Ratio
from vtune.domain.experiment import Limits
from vtune.domain.machine_use import ProcessUse
from vtune.domain.numbers import tells_nothing, times_of
from vtune.domain.phases import Success
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus

Memory = Literal["RAM", "VRAM", "shm"]
OUT_OF_MEMORY: Mapping[TrialStatus, Memory] = {
    TrialStatus.OUT_OF_VRAM: "VRAM",
    TrialStatus.OUT_OF_RAM: "RAM",
    TrialStatus.OUT_OF_SHM: "shm",
    TrialStatus.REFUSED: "shm",
}
# What only feeds the training: none of it makes its own work any shorter.
LOADING = frozenset(("workers", "prefetch_factor", "persistent_workers", "in_order"))


# Of a core: reading and logging threads beside the training's own take a little more than the one.
ONE_CORE = 1.1
# Past it a share of the time tells nothing of how fast it were without.
MOST_QUEUED = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    kept: bool
    # One sentence with the numbers.
    why: str
    # Over what had won before it, with the interval that decides; None where one of the two has no rate that
    # lasts.
    ratio: Ratio | None = None
    # It has no room: nothing that takes more is worth a trial.
    too_big: bool = False
    # Criteria of the plan that nobody could judge here, in words.
    not_judged: tuple[str, ...] = ()
    # On a busy machine, and by an interval that holds everything, nobody knows: neither kept nor rejected, and no
    # reason to go on or to stop.
    undecided: bool = False


def judge_rung(
    rung: TrialRecord,
    before: TrialRecord,
    *,
    success: Success,
    limits: Limits,
    ram_total_bytes: int | None,
    cores: float | None,
    of_few: bool = False,
) -> Judged:
    """`before` is the trial that stands for what had won so far; what it lacks is not held against the rung. A plan
    compares many times: two launches are told apart by an interval of 99 %, as wherever nobody counts how often; of the
    few rungs that a model has chosen (`of_few`) by one of 95 %, and the choice at the end judges them all again."""
    missing = criteria_unmeasured(rung, success)
    busy = next((one for one in (rung, before) if one.on_busy_machine), None)
    if busy is not None:
        why = f"trial {busy.trial} was measured on a busy machine: it decides nothing"
        return Judged(kept=False, why=why, not_judged=missing, undecided=True)
    failed = _ruled_out(rung, limits, ram_total_bytes)
    if failed is not None:
        return Judged(kept=False, why=failed[0], too_big=failed[1], not_judged=missing)
    if not has_rate(before):
        return Judged(kept=True, why=f"it runs, and trial {before.trial} does not", not_judged=missing)
    if not same_cache(rung, before):
        regimes = f"read its data {rung.measurement.cache}, trial {before.trial} {before.measurement.cache}"
        return Judged(kept=False, why=f"it {regimes}: not comparable", not_judged=missing)
    ranked_by = metric_of((rung, before))
    widen = 1.0 if of_few else Z99 / Z95
    ratio = ratio_of(launched_rate(rung, ranked_by, cores), launched_rate(before, ranked_by, cores), widen=widen)
    said = times_of(ratio.value, ratio.ci95, f"trial {before.trial}")
    faster = ratio.shown_faster_by(math.log1p(DELTA))
    if before.measurement.fed_from_stock and not faster:
        why = f"trial {before.trial} lived on batches that lay ready: its rate would not last, and decides nothing"
        return Judged(kept=False, why=why, not_judged=missing)
    if tells_nothing(ratio.ci95):
        return Judged(kept=False, why=said, not_judged=missing, undecided=True)
    if measured_enough(before) and not measured_enough(rung):
        return Judged(kept=False, why=f"{said}, on {steps_text(rung)}", ratio=ratio, not_judged=missing)
    if faster:
        return Judged(kept=True, why=said + _short_of(rung, success), ratio=ratio, not_judged=missing)
    shown = "slower" if ratio.shown_slower else f"not shown to be faster by more than {DELTA:.0%}"
    if ratio.ci95 is None:
        shown = "no interval tells whether that is a difference"
    return Judged(kept=False, why=f"{said}: {shown}", ratio=ratio, not_judged=missing)


def criteria_unmeasured(rung: TrialRecord, success: Success) -> tuple[str, ...]:
    if success.gpu_util_percent is None or gpu_util(rung) is not None:
        return ()
    because = "no GPU was seen" if not rung.measurement.gpus else "its utilization is not known"
    return (f"{_gpu_criterion(success)}: not judged, {because}",)


def gpu_util(record: TrialRecord) -> float | None:
    """The mean of all devices that tell."""
    told = [gpu.util_mean for gpu in record.measurement.gpus if gpu.util_mean is not None]
    return sum(told) / len(told) if told else None


def batch_words(record: TrialRecord, baseline: TrialRecord) -> str:
    """What follows from another effective batch than the user's, for the sentence on a rung that is kept."""
    found = another_batch(record, baseline)
    if found is None:
        return ""
    seen = f", and {found.epochs}" if found.epochs is not None else ""
    return f"; the effective batch is {found.change}{seen}; {found.learning_rate}"


def too_big_for(record: TrialRecord, limits: Limits, ram_total_bytes: int | None) -> tuple[Memory, str] | None:
    """The memory that has no room for what this trial asked of it, and the numbers; None where it has."""
    failed = _ruled_out(record, limits, ram_total_bytes)
    if failed is None or not failed[1]:
        return None
    if record.status in OUT_OF_MEMORY:
        return OUT_OF_MEMORY[record.status], failed[0]
    over = excess_of(record, limits, ram_total_bytes)
    return (over[0].memory if over else "shm" if out_of_shm(record) else "VRAM"), failed[0]


def ruled_out(record: TrialRecord, limits: Limits, ram_total_bytes: int | None) -> str | None:
    """Why no run can be made with what this trial ran with, whatever its rate was; None where one can."""
    failed = _ruled_out(record, limits, ram_total_bytes)
    return None if failed is None else failed[0]


def loading_most(record: TrialRecord) -> float | None:
    """The most that other loading could win over this trial, in a whole run: no wait, no restart, and no worker that
    keeps a core which the training's own process stands in line for."""
    measured, headroom = record.measurement, record.diagnosis.headroom
    if headroom is None or measured.fed_from_stock or not measured.samples_per_s:
        return None
    whole = measured.samples_per_s_whole_run or measured.samples_per_s_epoch or measured.samples_per_s
    return headroom * max(1.0, measured.samples_per_s / whole) * _without_a_line(record)


def threads_most(record: TrialRecord) -> float | None:
    """The most that other numbers of threads could win: a training whose own process keeps no more than one core busy
    has none that work beside each other. None where more of them do, or nobody counted."""
    main = _main_process(record)
    if main is None or main.cpu_fraction is None or main.cpu_fraction > ONE_CORE:
        return None
    return _without_a_line(record)


def _without_a_line(record: TrialRecord) -> float:
    main = _main_process(record)
    queued = main.queued_fraction if main is not None else None
    return 1.0 / (1.0 - min(MOST_QUEUED, queued or 0.0))


def _main_process(record: TrialRecord) -> ProcessUse | None:
    return next((use for use in record.measurement.processes if use.role == "main"), None)


def _ruled_out(record: TrialRecord, limits: Limits, ram_total_bytes: int | None) -> tuple[str, bool] | None:
    """What rules it out whatever its rate is, and whether that is its size."""
    if record.status is not TrialStatus.COMPLETED:
        words = record.status.value.replace("_", " ")
        return f"{words}: {record.detail or 'no detail is known'}", record.status in OUT_OF_MEMORY
    if record.on_busy_machine:
        return "it was measured on a busy machine", False
    if not has_rate(record):
        return "no rate could be measured", False
    over = excess_of(record, limits, ram_total_bytes)
    if over:
        return "; ".join(map(needs_text, over)), True
    if out_of_room(record):
        return room_text(record), True
    if record.measurement.fed_from_stock:
        return "its window lived on batches that lay ready before: the rate would not last", False
    return None


def _short_of(rung: TrialRecord, success: Success) -> str:
    """A plan's criterion that was missed. Slower but busier is no alternative, so it is told and changes nothing."""
    found = gpu_util(rung)
    if success.gpu_util_percent is None or found is None or found > success.gpu_util_percent:
        return ""
    return f", below the plan's {_gpu_criterion(success)} ({found:.0f} %)"


def _gpu_criterion(success: Success) -> str:
    return f"GPU > {success.gpu_util_percent:g} %"
