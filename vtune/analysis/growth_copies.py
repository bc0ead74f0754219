"""Copies on write: forked workers that touch a Python object write its reference count, and get its page for their own.

Pages are touched at random, so growth is that of a coupon collector: U(n) = Cap · (1 − exp(−r·n / Cap)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vtune.analysis.growth_series import Level
from vtune.domain.events import Fact

# Less than this in a window is the interpreter's own.
LEAST_GROWTH_BYTES = 4 * 2**20
# Below it, what workers could copy is not worth a reading.
LEAST_CAP_BYTES = 32 * 2**20
# Of what the parent held beyond its imports, the part that workers ever write: tables of keys and the insides of large
# arrays carry no reference count. Seen: 0.74 to 0.9 for lists of dicts, next to nothing for arrays.
PARTS = tuple(np.linspace(0.1, 1.0, 19))
USUAL_PART, PART_SPREAD = 0.8, 0.25
# A reading's noise: a fraction of what was copied between the readings, and what an interpreter does by itself.
NOISE, NOISE_BYTES = 0.03, 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """Growth is since the last reading."""

    # Steps of the workers' life until then.
    life: float
    bytes_per_step: float
    bytes_per_step_ci95: tuple[float, float]
    # Most that can still come.
    left_bytes: int
    # By the share of the memory that is ever written: weight, cap, and the rate at which it is approached.
    curves: tuple[tuple[float, float, float], ...]

    def to_come(self, steps: float) -> tuple[float, float, float]:
        """After so many more steps, or so many fewer, back to their birth; at least, nineteen of twenty times, and
        at most, if all of it is ever written."""
        steps = max(steps, -self.life)
        values = np.asarray([self._grown(cap, pace, steps) for _, cap, pace in self.curves])
        weights = np.asarray([weight for weight, _, _ in self.curves])
        order = np.argsort(values)
        reached = np.cumsum(weights[order]) - weights[order] / 2
        low = float(np.interp(0.05, reached, values[order]))
        return float(weights @ values), low, float(values.max())

    def _grown(self, cap: float, pace: float, steps: float) -> float:
        return cap * float(np.exp(-pace * self.life) - np.exp(-pace * (self.life + steps)))


def cap_bytes(passed: Fact) -> int | None:
    """Of one pass' workers: what their parent held of its own data, once for each. Started afresh they copy nothing."""
    data = passed.data
    effective, held, before = data.get("effective") or {}, data.get("held"), data.get("held_by_imports")
    workers = effective.get("num_workers")
    if not isinstance(workers, int) or not isinstance(held, int):
        return None
    if effective.get("start_method") != "fork":
        return 0
    return workers * max(0, held - (before if isinstance(before, int) else 0))


def worth_reading(facts: Sequence[Fact]) -> bool:
    return any((cap_bytes(fact) or 0) >= LEAST_CAP_BYTES for fact in facts if fact.name == "pass")


def find_copies(levels: Sequence[Level], born: float, cap: int) -> Copies | None:
    """`levels`: what is no longer shared, to any constant. `born`: the step at which the workers were forked."""
    if len(levels) < 2 or cap < LEAST_CAP_BYTES:
        return None
    lives = np.asarray([level.step - born for level in levels])
    grown = np.asarray([level.bytes - levels[0].bytes for level in levels], dtype=float)
    if lives[-1] - lives[0] < 1 or grown[-1] < LEAST_GROWTH_BYTES:
        return None
    noise = max(NOISE_BYTES, NOISE * float(grown[-1]))
    curves = []
    for part in PARTS:
        most = cap * part
        if grown[-1] >= most:
            continue
        pace, misfit = _pace(lives, grown, most)
        prior = np.exp(-0.5 * ((part - USUAL_PART) / PART_SPREAD) ** 2)
        curves.append((float(prior * np.exp(-0.5 * misfit / noise**2)), most, pace))
    total = sum(weight for weight, _, _ in curves)
    if total <= 0:
        return None
    curves = [(weight / total, most, pace) for weight, most, pace in curves if weight / total > 1e-6]
    life = float(lives[-1])
    rates = [most * pace * float(np.exp(-pace * life)) for _, most, pace in curves]
    rate = float(np.dot([weight for weight, _, _ in curves], rates))
    error = 2 * noise / float(lives[-1] - lives[0])
    return Copies(
        life=life,
        bytes_per_step=rate,
        bytes_per_step_ci95=(max(0.0, min(rates) - error), max(rates) + error),
        left_bytes=int(max(most * float(np.exp(-pace * life)) for _, most, pace in curves)),
        curves=tuple(curves),
    )


def _pace(lives: np.ndarray, grown: np.ndarray, most: float) -> tuple[float, float]:
    """The pace at which `most` is approached that fits best, and the sum of its squared misfits."""
    linear = float(grown[-1] / (lives[-1] - lives[0])) / most
    paces = linear * np.geomspace(0.5, 50.0, 500)
    curves = most * (np.exp(-np.outer(paces, [lives[0]])) - np.exp(-np.outer(paces, lives)))
    # Each reading is as noisy as the first, from which all are counted: the constant is fitted as well.
    rests = grown - curves
    rests = rests - rests.mean(axis=1, keepdims=True)
    misfits = (rests**2).sum(axis=1)
    best = int(misfits.argmin())
    return float(paces[best]), float(misfits[best])
