"""The machine's pace over a study: slow drift, and neighbours that come and go. Of the machine, not of one launch, so
that trials which follow each other share it."""

from __future__ import annotations

import math

import numpy as np

from vtune.execution.engines.simulated.surface import Noise

# Within such a piece the pace stays as it is.
PIECE_S = 5.0
_AT_ONCE = 1024


class Weather:
    def __init__(self, noise: Noise, seed: int) -> None:
        self._noise = noise
        self._rng = np.random.default_rng((seed, 7))
        self._drift = 0.0
        self._busy = False
        self._pieces: list[tuple[float, float]] = []

    @property
    def changes(self) -> bool:
        return self._noise.drift_sd > 0 or self._noise.episode_share > 0

    def at(self, t_s: float) -> tuple[float, float]:
        """The pace, and the cores that neighbours keep busy."""
        if not self.changes:
            return 1.0, 0.0
        piece = max(0, int(t_s / PIECE_S))
        while piece >= len(self._pieces):
            self._go_on()
        return self._pieces[piece]

    def _go_on(self) -> None:
        noise = self._noise
        keep = math.exp(-PIECE_S / max(noise.drift_time_s, PIECE_S))
        push = noise.drift_sd * math.sqrt(1 - keep**2)
        leave = min(1.0, PIECE_S / noise.episode_s)
        share = min(noise.episode_share, 0.99)
        come = leave * share / (1 - share)
        if not self._pieces:
            self._drift = noise.drift_sd * float(self._rng.standard_normal())
            self._busy = bool(self._rng.random() < share)
        for kick, chance in zip(self._rng.standard_normal(_AT_ONCE), self._rng.random(_AT_ONCE), strict=True):
            self._drift = keep * self._drift + push * float(kick)
            self._busy = chance >= leave if self._busy else chance < come
            slower = 1 - noise.episode_slowdown if self._busy else 1.0
            self._pieces.append((math.exp(self._drift) * slower, noise.episode_cores if self._busy else 0.0))
