"""Which settings a search tries next, and by whose word."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from vtune.analysis.advice import gain_of
from vtune.analysis.comparable import has_rate, launched_rate, metric_of
from vtune.analysis.fit import excess_of
from vtune.analysis.model.setup import PHYSICAL
from vtune.analysis.search.trust import Mistrust, foretold_well, mistrust, off_times
from vtune.domain.choice import RankedBy
from vtune.domain.effects import Scalar
from vtune.domain.numbers import rate
from vtune.domain.record import TrialRecord
from vtune.domain.search import Sampler
from vtune.knobs.settings import shown
from vtune.strategies.foresight import WORTH_A_LAUNCH
from vtune.strategies.optuna_samplers import Told, next_settings
from vtune.strategies.search_asked import ORIGIN, Asked, settings_words
from vtune.strategies.search_auto import Outlook
from vtune.strategies.search_seen import fastest_of
from vtune.strategies.space import as_asked, comes_to
from vtune.strategies.turned import turned

# Samplers that learn start from the model's best; what is there to be compared with starts from nothing.
WARM: frozenset[Sampler] = frozenset(("tpe", "gp"))
MODELS_BEST = 5
# What no model foresees is tried on top of settings that are good already: after so many of the model's.
BEFORE_EXPLORING = 2
OPTUNAS = "the next of Optuna's"
# So many of Optuna's trials in a row, with the model's between them, win nothing: no more of them will.
IN_VAIN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    settings: Mapping[str, Scalar]
    reason: str


@dataclass(frozen=True)
class Chooser:
    asked: Asked
    outlook: Outlook

    def pick(self) -> Pick | None:
        """None where nothing is left that is likely to fit."""
        sampler = self.asked.sampler
        if sampler == "auto":
            return self._auto()
        if sampler in WARM and len(self._own) <= MODELS_BEST and (found := self._model()) is not None:
            return found
        return self._optuna(sampler)

    @cached_property
    def mistrust(self) -> Mistrust | None:
        return mistrust(self._own)

    @cached_property
    def off_times(self) -> float:
        return off_times(self._own)

    @cached_property
    def foretold_well(self) -> bool:
        return foretold_well(self._own)

    def in_vain(self, until: int) -> TrialRecord | None:
        """The trial that so many of Optuna's have won nothing over; None while there is hope."""
        theirs = [one.trial for one in self._own if one.trial <= until and one.reason.startswith(OPTUNAS)]
        if len(theirs) < IN_VAIN:
            return None
        best, before = (
            fastest_of([one for one in self.outlook.seen.fitting if one.trial <= last])
            for last in (until, theirs[-IN_VAIN] - 1)
        )
        if before is None or best is None:
            return None
        then, now = (launched_rate(one, self._ranked_by, None).value for one in (before, best))
        return before if now <= then * WORTH_A_LAUNCH else None

    @cached_property
    def unexplored(self) -> Sequence[Mapping[str, Scalar]]:
        """Values that no model knows anything of before a trial had them, on top of the best so far."""
        seen = self.outlook.seen
        if not seen.fitting:
            return []
        ran = [{**seen.own, **turned(one)} for one in seen.known.answers]
        best = self._best_asked
        found = []
        for dimension in seen.space.dimensions:
            for choice in dimension.choices if dimension.name not in PHYSICAL else ():
                if choice and not any(choice.items() <= one.items() for one in ran):
                    found.append(as_asked({**best, **choice}, seen.own, self.asked.experiment))
        too_big = seen.model.all_too_big(found, self.asked.experiment.limits) if seen.model is not None else []
        return [one for at, one in enumerate(found) if not too_big or too_big[at] is None]

    def _auto(self) -> Pick | None:
        own = len(self._own)
        if self.outlook.seen.model is None:
            return self._optuna("tpe")
        if self.unexplored and own > BEFORE_EXPLORING and (own % 2 or self.outlook.nothing_to_win()):
            return self._explore()
        if self.mistrust is not None and own % 2:
            hopeful = self.outlook.hopeful(sd=self.mistrust.sd)
            return self._optuna("tpe", hopeful) or self._model() or self._explore()
        return self._replayed() or self._model() or self._explore()

    def _replayed(self) -> Pick | None:
        """Where the model's last pick won nothing: what the replay of one of the best advises, if nobody has tried it.
        A report would advise it at the end."""
        fitting = self.outlook.seen.fitting
        rates = {one.trial: launched_rate(one, self._ranked_by, None).value for one in fitting}
        last = self._own[-1].trial if len(self._own) > 1 else None
        before = max((value for trial, value in rates.items() if trial != last), default=None)
        if last is None or before is None or rates.get(last, 0.0) > before * WORTH_A_LAUNCH:
            return None
        best = [one for one in fitting if rates[one.trial] * WORTH_A_LAUNCH >= before]
        return next((pick for one in best if (pick := self._advised_by(one)) is not None), None)

    def _advised_by(self, record: TrialRecord) -> Pick | None:
        own = self.outlook.seen.own
        for one in record.measurement.what_if:
            found = gain_of(record.measurement, one.change)
            if found is None or one.setting is None:
                continue
            name, value = one.setting
            asked = comes_to({**turned(record), name: value}, own)
            wanted = next((each for each in self.outlook.allowed if comes_to(each, own) == asked), None)
            if wanted is not None:
                said = f"the replay of trial {record.trial} with {name}={shown(value)} says {found[1]:.2g}×"
                return Pick(settings=wanted, reason=said)
        return None

    def _explore(self) -> Pick | None:
        best = self._best_asked
        wanted = next(iter(self.unexplored), None)
        if wanted is None:
            return None
        new = {name: value for name, value in wanted.items() if best.get(name) != value}
        return Pick(settings=wanted, reason=f"no trial has had {settings_words(new)} with the best so far")

    def _model(self) -> Pick | None:
        wanted, model = self.outlook.next(), self.outlook.seen.model
        predicted = model.predict(wanted) if model is not None and wanted is not None else None
        if wanted is None or predicted is None:
            return None
        low, high = (rate(one) for one in predicted.samples_per_s_ci95)
        return Pick(settings=wanted, reason=f"predicted {rate(predicted.samples_per_s)} samples/s ({low} to {high})")

    def _optuna(self, sampler: Sampler, among: Sequence[Mapping[str, Scalar]] | None = None) -> Pick | None:
        seen, asked = self.outlook.seen, self.asked
        candidates = self.outlook.allowed if among is None else among
        told = [self._told(one) for one in seen.known.answers if not one.on_busy_machine]
        wanted = next_settings(sampler, seen.space, told, candidates=candidates, seed=asked.seed)
        return None if wanted is None else Pick(settings=wanted, reason=f"{OPTUNAS} {sampler}")

    def _told(self, record: TrialRecord) -> Told:
        seen, limits = self.outlook.seen, self.asked.experiment.limits
        # Of knobs that go together the own values as well: a batch alone may be another pair.
        settings = {name: value for name, value in {**seen.own, **turned(record)}.items() if value is not None}
        if not has_rate(record):
            return Told(settings=settings, samples_per_s=None, over=1.0)
        over = excess_of(record, limits, self.asked.machine.ram_bytes)
        return Told(
            settings=settings,
            samples_per_s=launched_rate(record, self._ranked_by, None).value,
            over=max((math.log(one.needs_bytes / one.limit_bytes) for one in over), default=0.0),
        )

    @cached_property
    def _ranked_by(self) -> RankedBy:
        return metric_of([one for one in self.outlook.seen.known.answers if has_rate(one)])

    @cached_property
    def _own(self) -> Sequence[TrialRecord]:
        return [one for one in self.outlook.seen.known.records if one.origin == ORIGIN]

    @cached_property
    def _best_asked(self) -> Mapping[str, Scalar]:
        """Of what ran and fits, the fastest as it was measured."""
        best = self.outlook.seen.fastest
        return turned(best) if best is not None else {}
