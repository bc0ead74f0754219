"""Whether a trial goes on until its rate may be called steady, and what it says where it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vtune.analysis.ground import MOST_STEPS, steps_wanted, too_little_time_text, waits_for_ground
from vtune.analysis.window import StepWindow
from vtune.domain.experiment import Window
from vtune.domain.steady import GROUND_S, GROUND_STEPS

WINDOW = Window(steps=50, max_steps=300)


def stepped(count: int, step_s: float, *, restart_s: float = 0.0, epoch: int = 100) -> list[StepWindow]:
    """Measured steps; a restart between two epochs is none of them."""
    begins = [n * step_s + n // epoch * restart_s for n in range(count)]
    return [
        StepWindow(number=n, started_s=at, ended_s=at + step_s, batches=(), other_batches=(), boundary=False)
        for n, at in enumerate(begins)
    ]


def test_a_precise_probe_goes_on_until_its_window_is_the_ground_of_a_steady_rate() -> None:
    window = replace(WINDOW, ground=True, trial_time_s=180.0)
    assert waits_for_ground(window, stepped(100, 0.1))
    # Enough steps in too few seconds, enough seconds in too few steps, and both.
    assert waits_for_ground(window, stepped(GROUND_STEPS, 0.01))
    assert waits_for_ground(window, stepped(400, 0.1))
    assert not waits_for_ground(window, stepped(GROUND_STEPS, 0.1))
    assert not waits_for_ground(WINDOW, stepped(100, 0.1))
    assert GROUND_STEPS * 0.1 > GROUND_S > GROUND_STEPS * 0.01


def test_time_between_epochs_is_no_ground() -> None:
    window = replace(WINDOW, ground=True, trial_time_s=180.0)
    # 32 s in all, and 23 s of them in steps: what is measured of them would be too short to be called steady.
    restarts = stepped(1150, 0.02, restart_s=0.9)
    assert restarts[-1].ended_s > GROUND_S > sum(one.duration_s for one in restarts)
    assert waits_for_ground(window, restarts)
    assert not waits_for_ground(window, stepped(1510, 0.02, restart_s=0.9))
    # Most of the trial time would go into restarts.
    assert not waits_for_ground(window, stepped(200, 0.02, restart_s=20.0))


def test_a_ground_that_the_trial_time_does_not_allow_is_not_waited_for() -> None:
    window = replace(WINDOW, ground=True, trial_time_s=180.0)
    assert not waits_for_ground(window, stepped(100, 1.0))
    assert not waits_for_ground(window, stepped(MOST_STEPS, 0.001))


@pytest.mark.parametrize(
    ("steps", "step_s", "said"),
    [
        # As of 306 steps of 178 ms: 160 s of a trial time of 180 s.
        (306, 0.178, "900 steps need about 160 s: --trial-time 4m"),
        (100, 1.0, "900 steps need about 15 min: --trial-time 19m"),
        (400, 0.1, None),
        (GROUND_STEPS, 0.1, None),
    ],
)
def test_where_the_trial_time_is_too_short_for_the_ground_the_time_that_suffices_is_told(
    steps: int, step_s: float, said: str | None
) -> None:
    precise = replace(WINDOW, ground=True, trial_time_s=180.0)
    assert too_little_time_text(precise, stepped(steps, step_s)) == said
    assert too_little_time_text(WINDOW, stepped(steps, step_s)) is None


def test_a_precise_trial_counts_towards_the_steps_that_it_waits_for() -> None:
    precise = replace(WINDOW, ground=True, trial_time_s=180.0)
    assert steps_wanted(WINDOW, ()) == steps_wanted(WINDOW, stepped(10, 0.1)) == 50
    assert steps_wanted(precise, ()) == steps_wanted(precise, stepped(10, 0.1)) == GROUND_STEPS
    # 30 seconds of 10 ms; and where the trial time does not suffice, the longest window.
    assert steps_wanted(precise, stepped(10, 0.01)) == steps_wanted(precise, stepped(2000, 0.01)) == 3000
    assert steps_wanted(precise, stepped(10, 1.0)) == 300
