"""What settings would do, as a record would tell it: rate, memory, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vtune.analysis.model.memory import MemoryModel, Needs
from vtune.analysis.model.points import Floats, Nearness, Points, nearness, points_of
from vtune.analysis.model.residuals import Corrected, Drawn, Residuals
from vtune.analysis.model.setup import Base, Regime, Setup
from vtune.analysis.model.time import TimeModel
from vtune.analysis.model.too_big import Shortage, TooBig, Took, asks_as_much, measured_over, over
from vtune.analysis.model.whole import WholeRun
from vtune.domain.choice import RankedBy, Ratio
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Limits
from vtune.domain.numbers import bytes_
from vtune.domain.prediction import Prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The parts that make a rate."""

    time: TimeModel
    whole: WholeRun
    off: Floats

    def drawn(self, points: Points, near: Nearness) -> Drawn:
        pace = self.time.pace(points, near)
        batches = self.time.batches_per_s(points, pace)
        waits = np.clip(1 - batches * (pace.own_s + pace.stop_s / pace.stop_every), 0.0, 1.0).mean(axis=0)
        return Drawn(logs=self.whole.log_rate(points, pace, batches, self.off), waits=waits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """What the trials covered: beyond it, a prediction says so."""

    points: Points
    regimes: tuple[Regime, ...]
    ranked_by: RankedBy
    ram_total_bytes: int | None
    vram_total_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """Logarithms of ratios, by draw and candidate; only of those that the model knows something of."""

    known: NDArray[np.bool_]
    logs: Corrected


class Model:
    """Settings are those asked for on top of what the baseline ran with."""

    def __init__(
        self,
        base: Base,
        covered: Covered,
        *,
        rates: Rates,
        residuals: Residuals,
        memory: MemoryModel,
        shortages: Sequence[Shortage],
        taken: Sequence[Took] = (),
    ) -> None:
        self.ranked_by = covered.ranked_by
        self._base, self._covered, self._rates, self._residuals = base, covered, rates, residuals
        self._memory, self._shortages, self._taken = memory, tuple(shortages), tuple(taken)
        self._predicted: dict[Setup, Prediction] = {}

    def predict(self, settings: Mapping[str, Scalar]) -> Prediction | None:
        """None where no trial of the kind was measured: other precision, other filters."""
        return self.predict_all([settings])[0]

    def predict_all(self, candidates: Sequence[Mapping[str, Scalar]]) -> list[Prediction | None]:
        setups = [self._setup(one) for one in candidates]
        new = list(dict.fromkeys(one for one in setups if one is not None and one not in self._predicted))
        if new:
            middle, below, above = self._corrected(new).interval()
            low, high = np.exp(middle - below), np.exp(middle + above)
            for at, (setup, needs) in enumerate(zip(new, self._memory.of(new), strict=True)):
                self._predicted[setup] = Prediction(
                    samples_per_s=float(np.exp(middle[at])),
                    samples_per_s_ci95=(float(low[at]), float(high[at])),
                    ram_bytes=None if needs.ram is None else needs.ram.middle,
                    ram_ci95=None if needs.ram is None else (needs.ram.low, needs.ram.high),
                    vram_bytes=None if needs.vram is None else needs.vram.middle,
                    vram_ci95=None if needs.vram is None else (needs.vram.low, needs.vram.high),
                    shm_bytes=needs.shm,
                    notes=self._notes(setup),
                )
        return [None if one is None else self._predicted[one] for one in setups]

    def gain(self, settings: Mapping[str, Scalar], over: Mapping[str, Scalar]) -> Ratio | None:
        """One over the other: what both share of what is not known cancels."""
        found = self.against([settings], over)
        if found is None or not found.known[0]:
            return None
        middle, below, above = found.logs.interval()
        low, value, high = (float(np.exp(log[0])) for log in (middle - below, middle, middle + above))
        return Ratio(value=value, ci95=(low, high))

    def against(self, candidates: Sequence[Mapping[str, Scalar]], over: Mapping[str, Scalar]) -> Against | None:
        """All of them over one; None where nothing is known of that one."""
        setups, other = [self._setup(one) for one in candidates], self._setup(over)
        if other is None:
            return None
        # What is the same setup twice is reckoned once: it may be asked for in several ways.
        unique = list(dict.fromkeys(one for one in setups if one is not None))
        points = points_of([*unique, other], self._covered.regimes)
        near = nearness(points, self._covered.points)
        to_last = nearness(points, points_of([other], self._covered.regimes))
        differences = self._residuals.over_last(self._rates.drawn(points, near), near, to_last)
        place = {one: at for at, one in enumerate(unique)}
        which = np.array([place[one] for one in setups if one is not None], dtype=int)
        return Against(
            known=np.array([one is not None for one in setups], dtype=bool),
            logs=Corrected(logs=differences.logs[:, which], left=differences.left[which]),
        )

    def surely_too_big(self, settings: Mapping[str, Scalar], limits: Limits) -> str | None:
        """Why it cannot fit, in words; None where it may."""
        found = self.all_too_big([settings], limits)[0]
        return found.why if found is not None else None

    def all_too_big(self, candidates: Sequence[Mapping[str, Scalar]], limits: Limits) -> list[TooBig | None]:
        setups = [self._base.setup(one) for one in candidates]
        asked = list(dict.fromkeys(one for one in setups if one is not None))
        why = dict(zip(asked, self._too_big(asked, limits), strict=True))
        return [None if one is None else why[one] for one in setups]

    def _too_big(self, setups: Sequence[Setup], limits: Limits) -> list[TooBig | None]:
        covered = self._covered
        allowed = {
            "RAM": limits.ram.resolve(covered.ram_total_bytes) if limits.ram is not None else None,
            "VRAM": limits.vram.resolve(covered.vram_total_bytes) if limits.vram is not None else None,
        }
        known = [one for one in setups if one.regime in covered.regimes]
        needs = dict(zip(known, self._memory.of(known), strict=True)) if known else {}
        passed = {memory: measured_over(self._taken, memory, limit) for memory, limit in allowed.items()}
        found: list[TooBig | None] = []
        for setup in setups:
            ran_out = (one.rules_out(setup, allowed) for one in self._shortages)
            fell = next((one for one in ran_out if one is not None), None)
            need = needs.get(setup, Needs())
            why = (
                fell
                or _as_much_as(setup, passed, allowed)
                or over("RAM", need.ram, limits.ram, covered.ram_total_bytes)
                or over("VRAM", need.vram, limits.vram, covered.vram_total_bytes)
            )
            found.append(None if why is None else TooBig(why=why, by_failure=fell is not None))
        return found

    def fits(self, settings: Mapping[str, Scalar], limits: Limits) -> bool:
        """More likely than not; what nobody can tell is taken to fit."""
        setup = self._base.setup(settings)
        if setup is None or self.surely_too_big(settings, limits) is not None:
            return False
        needs, covered = self._needs(setup), self._covered
        return (
            over("RAM", needs.ram, limits.ram, covered.ram_total_bytes, surely=False) is None
            and over("VRAM", needs.vram, limits.vram, covered.vram_total_bytes, surely=False) is None
        )

    def _corrected(self, setups: Sequence[Setup]) -> Corrected:
        points = points_of(setups, self._covered.regimes)
        near = nearness(points, self._covered.points)
        return self._residuals.corrected(self._rates.drawn(points, near), near)

    def _needs(self, setup: Setup) -> Needs:
        return self._memory.of([setup])[0] if setup.regime in self._covered.regimes else Needs()

    def _setup(self, settings: Mapping[str, Scalar]) -> Setup | None:
        setup = self._base.setup(settings)
        return setup if setup is not None and setup.regime in self._covered.regimes else None

    def _notes(self, setup: Setup) -> tuple[str, ...]:
        points, lines = self._covered.points, []
        if len(points) == 1:
            lines.append("from one trial")
        if not points.batch.min() <= setup.batch <= points.batch.max():
            lines.append(f"batch size {setup.batch} is beyond what was measured")
        if not points.workers.min() <= setup.workers <= points.workers.max():
            lines.append(f"{setup.workers} {'worker' if setup.workers == 1 else 'workers'}: beyond what was measured")
        return tuple(lines)


def _as_much_as(setup: Setup, passed: Mapping[str, Sequence[Took]], allowed: Mapping[str, int | None]) -> str | None:
    for memory, limit in allowed.items():
        like = next((one for one in passed[memory] if asks_as_much(memory, setup, one.setup)), None)
        if like is not None and limit is not None:
            needed, trial = like.needs[memory]
            took = f"trial {trial} took {bytes_(needed)} of {memory}"
            return f"{took}, the limit is {bytes_(limit)}, and this asks for no less"
    return None
