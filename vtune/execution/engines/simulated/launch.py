"""What makes one launch of a surface differ from the next, and one setting from what models know of it."""

from __future__ import annotations

import math

import numpy as np

from vtune.execution.engines.simulated.surface import Settings, Surface
from vtune.execution.engines.simulated.weather import Weather

# Waves that the random field over the settings is made of: enough that it looks like a Gaussian process.
_WAVES = 64


class Launch:
    """`number` tells launches of the same settings apart; the same number is the same launch again."""

    def __init__(self, surface: Surface, settings: Settings, number: int, weather: Weather) -> None:
        self.weather = weather
        self.rng = np.random.default_rng((surface.seed, 1, number))
        self.order_rng = np.random.default_rng((surface.seed, 2) if surface.seeded else (surface.seed, 2, number))
        self.luck = math.exp(surface.noise.launch_sd * float(self.rng.standard_normal()))
        self._fixed = self.luck * field_at(surface, settings)

    def pace_at(self, t_s: float) -> float:
        return self._fixed * self.weather.at(t_s)[0]


def field_at(surface: Surface, settings: Settings) -> float:
    """A smooth random factor of the pace, of mean about 1: the same for every launch of these settings."""
    if surface.unmodelled is None or surface.unmodelled.field_sd <= 0:
        return 1.0
    rng = np.random.default_rng((surface.seed, 3))
    # One unit is as far as settings have to differ to have little to do with each other.
    at = np.array(
        [
            math.log2(settings.workers + 1) / 1.5,
            math.log2(max(1, settings.prefetch)) / 2,
            math.log2(settings.batch) / 1.5,
            0.5 * settings.pin,
            0.5 * settings.persistent,
        ]
    )
    waves = rng.standard_normal((_WAVES, len(at)))
    phases = rng.uniform(0, 2 * math.pi, _WAVES)
    height = math.sqrt(2 / _WAVES) * float(np.cos(waves @ at + phases).sum())
    return math.exp(surface.unmodelled.field_sd * height)
