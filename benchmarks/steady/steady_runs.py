"""One simulated training watched as a trial would be, and the long run that it is held against."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from vtune.analysis.measure import measure
from vtune.domain.experiment import PlannedRun, Window
from vtune.domain.record import Measurement
from vtune.execution.engines.simulated.engine import machine_of
from vtune.execution.engines.simulated.launch import Launch
from vtune.execution.engines.simulated.recording import record
from vtune.execution.engines.simulated.surface import Surface, settings_of
from vtune.execution.engines.simulated.training import Training
from vtune.execution.engines.simulated.truth import QUIET, TRUTH_LAUNCH
from vtune.execution.engines.simulated.watching import follow
from vtune.execution.engines.simulated.weather import Weather
from vtune.execution.observer import Watch

TRUE_STEPS = 40_000
# The first steps of the long run, with its start-up in them.
LEFT_OUT = 100
PROBE = Window()
PRECISE = Window(max_steps=300, narrow=0.036, ground=True)


def true_rate(surface: Surface, steps: int = TRUE_STEPS) -> float:
    """Of a whole long run, whatever changes in it."""
    training = _training(replace(surface, noise=QUIET), TRUTH_LAUNCH)
    training.go_on(steps)
    begin = training.steps[min(LEFT_OUT, steps // 10)].ended_s
    taken = sum(one.samples for one in training.deliveries if one.returned_s > begin)
    return taken / (training.steps[-1].ended_s - begin)


def one_window(surface: Surface, seed: int, window: Window) -> Measurement:
    training = _training(surface, 1_000_000 * seed + 1)
    planned = PlannedRun()
    end = follow(training, Watch(window=window, planned=planned), lambda steps: None)
    seen = record(training, end.at_s, end_reason="stop").observed(training.started_s)
    return measure(seen, planned, None, cores=machine_of(surface).cores)


def row_of(measured: Measurement, truth: float) -> dict[str, Any]:
    ends, ground = measured.samples_per_s_ci95, measured.ground
    assert measured.samples_per_s is not None
    return {
        "rate": measured.samples_per_s,
        "ci95": ends,
        "steady": measured.steady,
        "doubts": [type(doubt).__name__ for doubt in measured.doubts],
        "steps": measured.steps_measured,
        "seconds": None if ground is None else ground.seconds,
        "error": measured.samples_per_s / truth - 1,
        "covered": ends is not None and ends[0] <= truth <= ends[1],
    }


def _training(surface: Surface, number: int) -> Training:
    settings = settings_of(surface, {})
    launch = Launch(surface, settings, number, Weather(surface.noise, surface.seed))
    return Training(surface, settings, launch, started_s=0.0, pid=1)
