"""The window of a rate that may be called steady: what it takes, and whether a trial has the time for it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vtune.analysis.window import StepWindow
from vtune.domain.experiment import Window
from vtune.domain.numbers import seconds
from vtune.domain.steady import GROUND_S, GROUND_STEPS

# Of the trial time; the rest is for what a window of the whole ground may still wait for.
GROUND_SHARE = 0.8
# Each step is kept in memory: more are not waited for.
MOST_STEPS = 10_000
# A count that changes with each look at it is told in full hundreds.
ROUND_STEPS = 100


def waits_for_ground(window: Window, measured: Sequence[StepWindow]) -> bool:
    """However narrow its interval is: a calm minute tells more than a calm second. Where the trial time would not
    suffice, nothing is waited for. `measured`: the steps that the rate is made of."""
    if not window.ground or not measured or _has_ground(measured):
        return False
    return ground_takes_s(measured) <= GROUND_SHARE * window.trial_time_s


def ground_takes_s(measured: Sequence[StepWindow]) -> float:
    """Restarts and pauses between the steps take trial time, and are no ground."""
    return (measured[-1].ended_s - measured[0].started_s) * _times(measured)


def steps_wanted(window: Window, measured: Sequence[StepWindow]) -> int:
    """How many steps a trial is on its way to, as far as that is known."""
    if not window.ground or (measured and _has_ground(measured)):
        return window.steps
    if not measured:
        return GROUND_STEPS
    if not waits_for_ground(window, measured):
        return window.max_steps
    wanted = len(measured) * _times(measured)
    return min(MOST_STEPS, max(GROUND_STEPS, round(wanted / ROUND_STEPS) * ROUND_STEPS))


def too_little_time_text(window: Window, measured: Sequence[StepWindow]) -> str | None:
    """Where it was asked for and the trial time did not suffice: the time that does."""
    if not window.ground or not measured or _has_ground(measured) or waits_for_ground(window, measured):
        return None
    takes_s = ground_takes_s(measured)
    steps = max(GROUND_STEPS, round(len(measured) * _times(measured)))
    return f"{steps} steps need about {seconds(takes_s)}: --trial-time {math.ceil(takes_s / GROUND_SHARE / 60)}m"


def _has_ground(measured: Sequence[StepWindow]) -> bool:
    steps = len(measured)
    return steps >= MOST_STEPS or (steps >= GROUND_STEPS and _seen_s(measured) >= GROUND_S)


def _times(measured: Sequence[StepWindow]) -> float:
    """How many times as many steps are needed."""
    return max(GROUND_STEPS / len(measured), GROUND_S / max(_seen_s(measured), 1e-9))


def _seen_s(measured: Sequence[StepWindow]) -> float:
    return sum(one.duration_s for one in measured)
