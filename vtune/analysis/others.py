"""Other programs on the cores through a trial's window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from vtune.analysis.compare import CORES_FULL, LOST_TO_OTHERS
from vtune.analysis.window import StepWindow
from vtune.domain.events import TelemetrySample
from vtune.domain.others import OtherProgram, OthersOnCores, others_on_cores
from vtune.domain.record import Measurement, Projection

# The cores of the training itself are read over so long, as those of the others are.
OVER_S = 2.0


def with_others(
    measured: Measurement, telemetry: Sequence[TelemetrySample], regular: Sequence[StepWindow], cores: float | None
) -> Measurement:
    return measured if cores is None else replace(measured, others=_others(telemetry, regular, cores))


def _others(telemetry: Sequence[TelemetrySample], regular: Sequence[StepWindow], cores: float) -> OthersOnCores | None:
    """In the mean over the window: a burst of a second in a window of thirty is none that matters. Of a trial without a
    window, over all of it."""
    inside = [sample for sample in telemetry if sample.processes and sample.programs is not None]
    if regular:
        begin_s, end_s = regular[0].started_s, regular[-1].ended_s
        inside = [sample for sample in inside if begin_s <= sample.t_s <= end_s] or inside
    looks = [(sample, sample.others_cores) for sample in inside if sample.others_cores is not None]
    if not looks:
        return None
    own = _cores_of_trial(telemetry)
    taken = [_taken(others, own.get(sample.t_s, 0.0), cores) for sample, others in looks]
    return others_on_cores(
        cores=cores,
        wanted=cores,
        used=min(cores, fmean(others for _, others in looks)),
        taken=min(cores, fmean(taken)),
        programs=_programs([sample for sample, _ in looks]),
    )


def _taken(others: float, own: float, cores: float) -> float:
    """Where the cores were full, whatever others had the training may have wanted. Where some idled, others still slow
    it down, by their use of caches and memory."""
    return others if others + own >= CORES_FULL * cores else LOST_TO_OTHERS * others


def _cores_of_trial(telemetry: Sequence[TelemetrySample]) -> dict[float, float]:
    """At each look, by its time: those that the trial's processes kept busy since a look two seconds before."""
    found, first = dict[float, float](), 0
    for sample in telemetry:
        while first + 1 < len(telemetry) and telemetry[first + 1].t_s <= sample.t_s - OVER_S:
            first += 1
        before = telemetry[first]
        if sample.t_s > before.t_s:
            known = {process.pid: process.cpu_s for process in before.processes}
            busy_s = sum(process.cpu_s - known.get(process.pid, 0.0) for process in sample.processes)
            found[sample.t_s] = max(0.0, busy_s) / (sample.t_s - before.t_s)
    return found


def _programs(samples: Sequence[TelemetrySample]) -> list[OtherProgram]:
    """In the mean over all of these looks: who left in the middle used half."""
    used, names = defaultdict[int, float](float), dict[int, str]()
    for sample in samples:
        for program in sample.programs or ():
            used[program.pid] += program.cores
            names[program.pid] = program.name
    return [OtherProgram(pid=pid, name=names[pid], cores=cores / len(samples)) for pid, cores in used.items()]


def without_prediction(measured: Measurement) -> Measurement:
    """Of a busy machine: a projection or a replay would foretell the others' part of these costs as well, and no
    interval knows of it. Memory is as it was."""
    return replace(measured, what_if=(), projected=Projection(), samples_per_s_ci95=None)
