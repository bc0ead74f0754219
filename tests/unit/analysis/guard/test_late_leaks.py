"""Memory of whole runs, replayed into the guard's forecast on a virtual clock: who is asked to save, and when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from vtune.analysis.guard.memory import Reading, Readings, Suspicion, is_hurried, predicted

MB = 1_000_000
BASE = 2000 * MB
# As of a launch: two minutes to save, and what the guard adds to them.
GRACE_S, SAVE_S = 120.0, 160.0
LOOK_S, HURRIED_LOOK_S = 1.0, 0.25
STEPS_PER_S = 4

Curve = npt.NDArray[np.float64]


def ramp(t: Curve, since_s: float, mb_per_s: float) -> Curve:
    return np.clip(t - since_s, 0, None) * mb_per_s * MB


def filled(t: Curve, since_s: float, seconds: float, mb: float) -> Curve:
    return mb * MB * np.clip((t - since_s) / seconds, 0, 1)


def settled(t: Curve, since_s: float, tau_s: float, mb: float) -> Curve:
    return mb * MB * (1 - np.exp(-np.clip(t - since_s, 0, None) / tau_s))


def saw_tooth(t: Curve, period_s: float, mb: float) -> Curve:
    return mb * MB * (t % period_s) / period_s


def none(t: Curve, _: np.random.Generator) -> Curve:
    return np.zeros(len(t))


def batches(t: Curve, random: np.random.Generator) -> Curve:
    """What each look finds of batches that come and go."""
    return random.normal(0, 15 * MB, len(t))


def allocator(t: Curve, random: np.random.Generator) -> Curve:
    """What is taken and given back over some seconds: neighbours are alike, with a spread of 18 MB."""
    held, pushed = np.zeros(len(t)), random.normal(0, 18 * MB * np.sqrt(1 - 0.9**0.5), len(t))
    for at in range(1, len(t)):
        held[at] = 0.9**0.25 * held[at - 1] + pushed[at]
    return held


NOISES = [pytest.param(noise, id=noise.__name__) for noise in (none, batches, allocator)]
SEEDS = (1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    asked_s: float | None
    # When it passed the limit, had nobody asked; None where it never does.
    wall_s: float | None


def replay(
    curve: Callable[[Curve], Curve], room_mb: float, noise: Callable[..., Curve] = none, *, seed: int = 1,
    until_s: float = 1500.0, epoch_steps: int | None = None, steps_at_end: int | None = None,
) -> Replayed:  # fmt: skip
    times = np.arange(0, until_s, HURRIED_LOOK_S)
    grown = curve(times)
    held = BASE + grown + noise(times, np.random.default_rng(seed))
    limit = BASE + int(room_mb * MB)
    over = np.flatnonzero(grown > room_mb * MB)
    wall_s = float(times[over[0]]) if len(over) else None
    readings, suspicion, due_s = Readings(), Suspicion(), 0.0
    for t_s, level in zip(times.tolist(), held.tolist(), strict=True):
        if wall_s is not None and t_s >= wall_s:
            break
        if t_s < due_s:
            continue
        readings.add(Reading(t_s=t_s, step=int(STEPS_PER_S * t_s), bytes=int(level)))
        found = predicted(
            "ram", readings.all, used_bytes=int(level), limit_bytes=limit, steps_at_end=steps_at_end,
            epoch_steps=epoch_steps, save_s=SAVE_S,
        )  # fmt: skip
        if suspicion.confirmed(found, t_s) and found is not None and found.imminent:
            return Replayed(asked_s=t_s, wall_s=wall_s)
        due_s = t_s + (HURRIED_LOOK_S if is_hurried(readings.all, limit - int(level)) else LOOK_S)
    return Replayed(asked_s=None, wall_s=wall_s)


# Curve, room under the limit in MB, and when the leak begins.
LEAKS: dict[str, tuple[Callable[[Curve], Curve], float, float]] = {
    "quiet 10 s, then 5 MB/s": (lambda t: ramp(t, 10, 5), 700, 10),
    "quiet 600 s, then 1 MB/s": (lambda t: ramp(t, 600, 1), 670, 600),
    "quiet 600 s, then 20 MB/s": (lambda t: ramp(t, 600, 20), 7800, 600),
    "quiet 600 s, then 20 MB/s near the limit": (lambda t: ramp(t, 600, 20), 400, 600),
    "quiet 600 s, then 100 MB/s": (lambda t: ramp(t, 600, 100), 1500, 600),
    "after the first validation, 1 MB/s": (lambda t: filled(t, 300, 3, 300) + ramp(t, 330, 1), 900, 330),
    "after the first validation, 20 MB/s": (lambda t: filled(t, 300, 3, 300) + ramp(t, 330, 20), 1500, 330),
    "from epoch 2, 1 MB/s": (lambda t: saw_tooth(t, 120, 200) + ramp(t, 240, 1), 900, 240),
    "from epoch 2, 20 MB/s": (lambda t: saw_tooth(t, 120, 200) + ramp(t, 240, 20), 1500, 240),
    "from the first step, 4 MB/s": (lambda t: ramp(t, 0, 4), 1200, 0),
}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_is_asked_to_save_while_there_is_time_whenever_it_begins(name: str, noise: Callable[..., Curve]) -> None:
    curve, room_mb, begins_s = LEAKS[name]
    for seed in SEEDS[: 1 if noise is none else None]:
        seen = replay(curve, room_mb, noise, seed=seed)
        assert seen.wall_s is not None and seen.asked_s is not None
        assert seen.asked_s > begins_s
        # All of the grace, or four tenths of the time that there is at all between the onset and the wall.
        least_s = min(GRACE_S, 0.4 * (seen.wall_s - begins_s))
        if noise is not none:
            least_s -= 3.0
        assert seen.wall_s - seen.asked_s >= least_s


# What a healthy training does, and the room under its limit in MB.
HEALTHY: dict[str, tuple[Callable[[Curve], Curve], float]] = {
    "flat": (lambda t: 0 * t, 300),
    "a step up": (lambda t: filled(t, 200, 1, 300), 450),
    "two steps up": (lambda t: filled(t, 200, 1, 150) + filled(t, 230, 1, 150), 600),
    "a first validation of 15 s": (lambda t: filled(t, 200, 15, 200), 600),
    "a first validation of 40 s": (lambda t: filled(t, 200, 40, 200), 600),
    "a cache that fills for 60 s": (lambda t: filled(t, 20, 60, 250), 700),
    "a cache that fills for 300 s": (lambda t: filled(t, 20, 300, 400), 1000),
    "levels off within half a minute": (lambda t: settled(t, 100, 30, 350), 600),
    "levels off within minutes": (lambda t: settled(t, 100, 120, 350), 600),
    "levels off within an hour": (lambda t: settled(t, 0, 900, 350), 600),
    "epochs that fill and give back": (lambda t: saw_tooth(t, 120, 250), 600),
    "short epochs that fill and give back": (lambda t: saw_tooth(t, 20, 200), 500),
    "epochs that fill at once and give back": (lambda t: 200 * MB * np.minimum(1, (t % 60) / 20), 600),
}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", HEALTHY)
def test_growth_that_stops_or_comes_back_is_no_leak(name: str, noise: Callable[..., Curve]) -> None:
    curve, room_mb = HEALTHY[name]
    for seed in SEEDS[: 1 if noise is none else None]:
        assert replay(curve, room_mb, noise, seed=seed) == Replayed(asked_s=None, wall_s=None)
