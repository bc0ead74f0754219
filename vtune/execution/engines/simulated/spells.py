"""The training's own steps over a run: spells in which they are slow, and rare stops."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from vtune.execution.engines.simulated.surface import Unsteady

_AT_ONCE = 256


def spells(unsteady: Unsteady, rng: np.random.Generator) -> Iterator[tuple[float, float]]:
    """Without an end, for each step: the factor of its cost, and the seconds that it stands still."""
    push = math.sqrt(1 - unsteady.step_follows**2)
    spell, slow = float(rng.standard_normal()), False
    while True:
        kicks, turns, stops = rng.standard_normal(_AT_ONCE), rng.random(_AT_ONCE), rng.random(_AT_ONCE)
        for kick, turn, stop in zip(kicks.tolist(), turns.tolist(), stops.tolist(), strict=True):
            spell = unsteady.step_follows * spell + push * kick
            slow = turn >= unsteady.slow_ends if slow else turn < unsteady.slow_begins
            factor = math.exp(unsteady.step_sd * spell) * (unsteady.slow_factor if slow else 1.0)
            yield factor, unsteady.stop_s if stop < unsteady.stop_chance else 0.0
