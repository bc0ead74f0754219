"""What the model would try next: what it hopes most of, of equals what asks for less; and the most that is still to be
had."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vtune.analysis.comparable import launched_rate, memory_steps, metric_of
from vtune.analysis.compare import Z95
from vtune.analysis.model.points import Floats
from vtune.analysis.model.residuals import Corrected
from vtune.analysis.model.too_big import TooBig
from vtune.analysis.rungs import LOADING, loading_most
from vtune.analysis.search.worth import expected_gain
from vtune.domain.effects import Scalar
from vtune.domain.prediction import Prediction
from vtune.domain.search import Guess
from vtune.knobs.registry import same_knobs
from vtune.strategies.foresight import WORTH_A_LAUNCH
from vtune.strategies.search_seen import Seen
from vtune.strategies.space import comes_to
from vtune.strategies.train_alike import trains_alike
from vtune.strategies.turned import turned

# Gains this close are equal, as a logarithm; of small ones, so much of them.
EQUAL, PART = 0.01, 0.1
# What fits less likely than this is no trial but an accident that was foreseen. Above it, a gain counts by its chance:
# the first larger batch is always a doubt, and one trial of it tells what it takes.
LEAST_CHANCE = 0.2
# What is told to be worth a try fits more likely than not.
LIKELY = 0.5
# A batch may be so many times as large as one that ran: past it, no line through those that did tells of a cliff.
BATCH_STEP = 4
# A trial that wins no more than this on average, beyond what counts as equal, is not worth its time.
NOT_WORTH_IT = 0.004
# What cannot come this near the leader is no guess worth a trial, whoever makes it.
FAR_BELOW = 0.95


@dataclass(frozen=True)
class Outlook:
    """On all that has not been tried, by the model of what has."""

    seen: Seen

    @cached_property
    def ruled_out(self) -> Mapping[int, TooBig]:
        """By their place among the untried: what cannot fit."""
        model = self.seen.model
        if model is None:
            return {}
        why = model.all_too_big(self.seen.untried, self.seen.experiment.limits)
        return {at: one for at, one in enumerate(why) if one is not None}

    @cached_property
    def allowed(self) -> Sequence[Mapping[str, Scalar]]:
        """Likely to fit, as far as anybody can tell, and not far beyond what ran."""
        return [one for one, _ in self._foretold]

    @cached_property
    def candidates(self) -> Sequence[Mapping[str, Scalar]]:
        """Those of which the model knows something."""
        return [one for one, each in self._foretold if each is not None]

    @cached_property
    def best(self) -> Mapping[str, Scalar] | None:
        """Of what ran and fits, that of which all trials together say most."""
        model, fitting = self.seen.model, self.seen.fitting
        if model is None or not fitting:
            return None
        ran = [{**one.settings, **one.measurement.effective_settings} for one in fitting]
        known = [
            (predicted.samples_per_s, settings)
            for settings, predicted in zip(ran, model.predict_all(ran), strict=True)
            if predicted is not None
        ]
        return max(known, key=lambda one: one[0])[1] if known else None

    def most(self, *, off_times: float = 1.0) -> float:
        """What the best trial that is left would win on average over the best so far, as a logarithm."""
        if self.seen.model is None or self.best is None:
            return math.inf
        worth = self._worth if off_times == 1.0 else self._worth_if(off_times)
        return float(worth.max()) if worth is not None else -math.inf

    def next(self) -> Mapping[str, Scalar] | None:
        return None if self._worth is None else self.candidates[self._least_of_equals(self._worth, self._predicted)]

    @cached_property
    def _worth(self) -> Floats | None:
        return self._worth_if(1.0)

    def _worth_if(self, off_times: float) -> Floats | None:
        if self._over is None:
            return None
        chances = np.array([self.seen.room.chance(one) for one in self._predicted])
        chances *= [self.seen.chance_to_run(one) for one in self.candidates]
        return expected_gain(self._over, chances, off_times=off_times)

    def nothing_to_win(self, *, off_times: float = 1.0, worth: float = NOT_WORTH_IT) -> bool:
        return self.most(off_times=off_times) <= worth

    def hopeful(self, *, sd: float) -> Sequence[Mapping[str, Scalar]]:
        """Of the allowed, those that may come near the fastest so far, even if the model is off as it was (`sd`, of
        logarithms)."""
        leader = self.seen.fastest
        if leader is None or self.seen.model is None:
            return self.allowed
        least = FAR_BELOW * launched_rate(leader, metric_of(self.seen.fitting), None).value
        return [one for one, each in self._foretold if each is None or _at_most(each, sd) >= least]

    def next_best(self, count: int) -> tuple[Guess, ...]:
        """What was not tried and looks best, by the middle of what is predicted."""
        if self._over is None or self.best is None:
            return ()
        gains = np.exp(np.median(self._over.logs, axis=0))
        return tuple(
            Guess(settings=dict(self.candidates[at]), predicted=self._predicted[at], gain=float(gains[at]))
            for at in [
                at
                for at in np.argsort(-gains, kind="stable").tolist()
                if self.seen.room.chance(self._predicted[at]) >= LIKELY
            ][:count]
        )

    @cached_property
    def _over(self) -> Corrected | None:
        """Of the candidates over the best; where nothing fits yet, over one of them."""
        model = self.seen.model
        if model is None or not self.candidates:
            return None
        over = model.against(self.candidates, self.best or self.candidates[0])
        return over.logs if over is not None else None

    @cached_property
    def _predicted(self) -> Sequence[Prediction]:
        return [each for _, each in self._foretold if each is not None]

    @cached_property
    def _foretold(self) -> Sequence[tuple[Mapping[str, Scalar], Prediction | None]]:
        model = self.seen.model
        left = [
            one
            for at, one in enumerate(self.seen.untried)
            if at not in self.ruled_out and self._in_reach(one) and not self._loads_in_vain(one)
        ]
        if model is None:
            return [(one, None) for one in left]
        return [
            (one, each)
            for one, each in zip(left, model.predict_all(left), strict=True)
            if each is None or self.seen.room.chance(each) >= LEAST_CHANCE
        ]

    def _least_of_equals(self, hopes: Floats, predicted: Sequence[Prediction]) -> int:
        best = float(hopes.max())
        equals = np.flatnonzero(hopes >= best - min(EQUAL, PART * best))
        return min((int(at) for at in equals), key=lambda at: self._burden(at, predicted[at]))

    def _burden(self, at: int, predicted: Prediction) -> tuple[bool, int, int, int, int]:
        full = {**self.seen.own, **self.candidates[at]}
        now, before = (_effective(one) for one in (full, self.seen.own))
        workers = full.get("workers")
        return (
            now != before,
            memory_steps(predicted.ram_bytes),
            memory_steps(predicted.vram_bytes),
            workers if isinstance(workers, int) else 0,
            len(self.candidates[at]),
        )

    @cached_property
    def loading_is_enough(self) -> bool:
        """The fastest so far waits so little that no other loading would win what counts as more."""
        best = self.seen.fastest
        cap = loading_most(best) if best is not None else None
        return cap is not None and cap < WORTH_A_LAUNCH

    @cached_property
    def only_other_trainings(self) -> bool:
        """All that is left to try changes the training."""
        seen = self.seen
        same = same_knobs(seen.experiment.knobs)
        return all(not trains_alike(one, seen.own, same) for one in self.allowed)

    def _loads_in_vain(self, settings: Mapping[str, Scalar]) -> bool:
        """Its step has been seen by a trial that waited so little that no other loading of it would win."""
        return bool(self._fed) and self._step_of(settings) in self._fed

    @cached_property
    def _fed(self) -> frozenset[frozenset[tuple[str, Scalar]]]:
        caps = ((one, loading_most(one)) for one in self.seen.fitting)
        return frozenset(self._step_of(turned(one)) for one, cap in caps if cap is not None and cap < WORTH_A_LAUNCH)

    def _step_of(self, settings: Mapping[str, Scalar]) -> frozenset[tuple[str, Scalar]]:
        """All but how its data are loaded."""
        return frozenset(one for one in comes_to(settings, self.seen.own) if one[0] not in LOADING)

    def _in_reach(self, settings: Mapping[str, Scalar]) -> bool:
        batch = settings.get("batch_size")
        return not isinstance(batch, int) or batch <= BATCH_STEP * self._largest

    @cached_property
    def _largest(self) -> float:
        """The largest batch that ran."""
        ran = [one.settings.get("batch_size", self.seen.own.get("batch_size")) for one in self.seen.ran]
        return max((one for one in ran if isinstance(one, int)), default=math.inf)


def _at_most(predicted: Prediction, sd: float) -> float:
    above = math.log(max(1.0, predicted.samples_per_s_ci95[1] / predicted.samples_per_s))
    return predicted.samples_per_s * math.exp(math.hypot(above, Z95 * sd))


def _effective(settings: Mapping[str, Scalar]) -> tuple[Scalar, Scalar] | float:
    batch, times = settings.get("batch_size"), settings.get("accumulate_steps") or 1
    return batch * times if isinstance(batch, int) and isinstance(times, int) else (batch, times)
