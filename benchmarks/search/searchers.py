"""Who searches: vtune's own samplers and plans, and what one would write without vtune."""

from __future__ import annotations

import importlib
import random
from collections.abc import Sequence

import optuna

from search.trainings import Training
from vtune.config.plan_file import load_plan
from vtune.domain.phases import AskedPhases
from vtune.domain.record import TrialRecord
from vtune.domain.trial import Proposal
from vtune.strategies.phases import Phases
from vtune.strategies.search import Search
from vtune.tuner import Strategy

SAMPLERS = ("auto", "tpe", "gp", "random", "grid")
PLANS = ("ladder", "safe", "progressive", "guided")
ALONE = ("tpe alone", "random alone")
NAMES = (*SAMPLERS, *PLANS, *ALONE)
# The user's own among them.
TRIALS = 20


def searcher(name: str, training: Training, seed: int) -> Strategy:
    experiment, machine = training.experiment, training.machine
    if name in PLANS:
        return Phases(AskedPhases(plan=load_plan(name), confirm=False), experiment, machine)
    if name in ALONE:
        return {"tpe alone": Tpe, "random alone": Drawn}[name](training, seed)
    if name == "gp":
        # Where it is there already, the sampler asks no child of its own for each trial.
        importlib.import_module("torch")
    return Search(experiment=experiment, machine=machine, sampler=name, trials=TRIALS, confirm=False, seed=seed)


def code_of(name: str) -> tuple[str, ...]:
    """The modules of vtune that it consists of."""
    if name in ALONE:
        return ()
    return ("vtune.strategies.phases", "vtune.config.plan_file") if name in PLANS else ("vtune.strategies.search",)


class Drawn:
    """Settings at random, none twice, after the user's own."""

    def __init__(self, training: Training, seed: int) -> None:
        own, *others = training.every
        random.Random(seed).shuffle(others)
        self._order = [training.asked_for(one) for one in (own, *others)]

    def propose(self, history: Sequence[TrialRecord]) -> Proposal | None:
        asked = self._order[len(history)] if len(history) < len(self._order) else None
        return None if asked is None else Proposal(settings=asked, reason="drawn", origin="search")


class Tpe:
    """The script that everybody writes: each knob a category, the user's own settings first, what fails told as such.
    It remembers what it told: it is asked with a history that only grows."""

    def __init__(self, training: Training, seed: int) -> None:
        self._training = training
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = optuna.samplers.TPESampler(seed=seed)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        own, *_ = training.every
        self._values = {knob: list(dict.fromkeys(one[knob] for one in training.every)) for knob in own}
        self._study.enqueue_trial(dict(own))
        self._asked: list[optuna.Trial] = []

    def propose(self, history: Sequence[TrialRecord]) -> Proposal | None:
        if self._asked:
            self._tell(history[-1])
        trial = self._study.ask()
        self._asked.append(trial)
        settings = {knob: trial.suggest_categorical(knob, values) for knob, values in self._values.items()}
        return Proposal(settings=self._training.asked_for(settings), reason="tpe", origin="search")

    def _tell(self, record: TrialRecord) -> None:
        rate = record.measurement.samples_per_s_whole_run
        if rate is None or record.status != "completed":
            self._study.tell(self._asked[-1], state=optuna.trial.TrialState.FAIL)
        else:
            self._study.tell(self._asked[-1], rate)
