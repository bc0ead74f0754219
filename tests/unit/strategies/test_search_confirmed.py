"""The end of a search: its winner once more, and a race where a doubt is left. What confirms opens nothing again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from support.made_up import MACHINE, OWN, MadeUp, Settings, Told, an_experiment
from support.simulated import SimulatedStudy, limited, simulated_experiment
from vtune.domain.experiment import KnobBinding, Limit, Limits
from vtune.domain.record import TrialRecord
from vtune.domain.trial import Proposal
from vtune.execution.engines.simulated.surfaces import FOUR_CORES
from vtune.journal.records import record_from_json, record_to_json
from vtune.strategies.search import Search

WORKERS = KnobBinding(name="workers", values=(1, 4))
HELD = {"prefetch_factor": 2, "persistent_workers": False, "pin_memory": False}


def two_settings(**asked: object) -> Search:
    experiment = an_experiment(knobs=(WORKERS,), settings=HELD)
    return Search(experiment=experiment, machine=MACHINE, sampler="grid", **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("longer", [10.9, 11.1])
def test_neither_the_longer_launch_nor_the_first_rounds_end_a_race_that_is_open(longer: float) -> None:
    history: list[TrialRecord] = []

    def told(settings: Settings) -> Told:
        """A lucky leg now and then reads more than the trial that won."""
        lucky = 1.02 if len(history) % 3 == 0 else 1.0
        raced = 10.0 * (1.1 if settings["workers"] == 4 else 1.0) * lucky
        # The third is the user's own settings once more, before anything that only looks faster is confirmed.
        value = {0: 10.0, 1: 11.0, 2: 10.0, 3: longer}.get(len(history), raced)
        return value, {"samples_per_s_ci95": (value * 0.88, value * 1.12), "samples_per_s_whole_run": None}

    search, trainer = two_settings(trials=2), MadeUp(told)
    while (proposal := search.propose(history)) is not None:
        history.append(trainer.measure(proposal, history))
    rounds = [one.race.round for one in history if one.race is not None]
    assert rounds == [1, 1, 2, 2, 3, 3]
    best = search.hunt(history).best
    assert best is not None and best.settings["workers"] == 4


def test_how_it_ended_and_what_it_gave_back_stay_as_its_confirmations_use_up_the_budget() -> None:
    search, trainer = two_settings(trials=20, budget_s=175.0), MadeUp(lambda settings: 10.0 * settings["workers"])
    history: list[TrialRecord] = []
    ends: list[tuple[str | None, int]] = []
    while (proposal := (hunt := search.hunt(history)).proposal) is not None:
        ends += [(hunt.ended, hunt.given_back)] if hunt.stage == "confirm" else []
        history.append(trainer.measure(proposal, history))
    assert [one.origin for one in history] == ["search", "search", "confirm"] and hunt.stage == "done"
    assert {*ends, (hunt.ended, hunt.given_back)} == {("every setting that is likely to fit has been tried", 18)}


def test_a_scout_run_counts_for_the_budget() -> None:
    def launched(scout_s: float) -> int:
        search = Search(
            experiment=an_experiment(), machine=MACHINE, sampler="grid", budget_s=400.0, confirm=False, scout_s=scout_s
        )
        history = MadeUp(lambda settings: 10.0).run(search)
        assert search.hunt(history).used_s == sum(one.seconds for one in history) + scout_s <= 400.0
        return len(history)

    assert launched(0.0) > launched(150.0) > 0


@pytest.mark.slow
def test_a_search_with_confirmations_goes_on_from_any_moment_as_if_nothing_had_happened(tmp_path: Path) -> None:
    """By the model of a training that tells it something, under limits and within a budget."""
    experiment = simulated_experiment(FOUR_CORES, limits=limited(ram=0.6, vram=0.95))
    study = SimulatedStudy(FOUR_CORES, experiment, tmp_path)

    def made() -> Search:
        return Search(experiment=experiment, machine=study.machine, trials=9, budget_s=3600.0)

    def read_again(records: Sequence[TrialRecord]) -> list[TrialRecord]:
        return [record_from_json(json.loads(json.dumps(record_to_json(record)))) for record in records]

    asked = []
    whole = study.run(made(), seen=lambda proposal, record: asked.append(proposal))
    assert any(one.predicted is not None for one in whole) and any(one.origin == "confirm" for one in whole)
    for length, proposal in enumerate(asked):
        assert made().propose(read_again(whole[:length])) == proposal
    assert made().propose(read_again(whole)) is None


@pytest.mark.slow
def test_what_nobody_allowed_neither_leads_nor_is_built_on(tmp_path: Path) -> None:
    """A plan that names the batch may change it; a search that keeps the training the same may not."""
    experiment = simulated_experiment(FOUR_CORES, knobs=(KnobBinding(name="threads", values=(1, 2)),))
    study = SimulatedStudy(FOUR_CORES, experiment, tmp_path)
    larger = {"batch_size": 32, "workers": 4, "persistent_workers": True}
    history: list[TrialRecord] = []
    for settings in ({}, larger):
        proposal = Proposal(settings=settings, reason="a rung", origin="phase:2:batch_size")
        history.append(study.measure(proposal, history))
    search = Search(experiment=experiment, machine=study.machine, trials=7)
    whole = study.run(search, history)
    own = [one for one in whole if one.origin in ("search", "confirm")]
    assert any("threads" in (one.asked or {}) for one in own)
    assert {one.measurement.effective_batch for one in own} == {8}
    best = search.hunt(whole).best
    assert best is not None and best.measurement.effective_batch == 8
    fastest = max(whole, key=lambda one: one.measurement.samples_per_s or 0)
    assert fastest is history[1] and all(one.beaten is None or one.beaten.trial != fastest.trial for one in own)


def test_what_ran_without_a_setting_that_is_asked_for_now_is_not_its_winner(tmp_path: Path) -> None:
    experiment = simulated_experiment(FOUR_CORES)
    study = SimulatedStudy(FOUR_CORES, experiment, tmp_path)
    proposal = Proposal(settings={"workers": 4}, reason="by hand", origin="probe")
    history = [study.measure(proposal, [])]
    held = simulated_experiment(FOUR_CORES, settings={"workers": 2})
    search = Search(experiment=held, machine=study.machine, trials=4, confirm=False)
    whole = study.run(search, history)
    best = search.hunt(whole).best
    assert len(whole) > 2 and best is not None and best.settings["workers"] == 2


def test_of_knobs_that_go_together_each_pair_is_tried() -> None:
    """An earlier trial had twice the batch with the accumulation of before, which is another pair."""
    own = {**OWN, "batch_size": 2, "accumulate_steps": 2}
    experiment = an_experiment(own, settings={**HELD, "workers": 1})
    search = Search(experiment=experiment, machine=MACHINE, sampler="grid", confirm=False)
    trainer = MadeUp(lambda settings: 10.0 * settings["batch_size"], own)
    first = trainer.run(search)[0]
    larger = Proposal(settings={"batch_size": 4}, reason="a rung", origin="phase:2:batch_size")
    tried = [one.asked for one in trainer.run(search, [first, trainer.measure(larger, [first])])]
    assert {"batch_size": 4, "accumulate_steps": 1} in tried and {"batch_size": 1, "accumulate_steps": 4} in tried


def test_what_confirmed_before_is_paid_for_and_told_also_where_nothing_is_confirmed_any_more() -> None:
    experiment = an_experiment()
    trainer = MadeUp(lambda settings: 10.0 * min(settings["workers"], 4) + settings["prefetch_factor"])

    def made(**asked: object) -> Search:
        return Search(experiment=experiment, machine=MACHINE, sampler="grid", **asked)  # type: ignore[arg-type]

    history = trainer.run(made(trials=3))
    used_s = sum(one.seconds for one in history)
    assert history[-1].origin == "confirm" and used_s > 0
    again = made(trials=3, confirm=False).hunt(history)
    assert again.trials == tuple(one.trial for one in history) and again.used_s == used_s
    # A second less than one more launch would need.
    each_s = max(one.seconds for one in history)
    ended = made(trials=9, confirm=False, budget_s=used_s + each_s - 1).hunt(history)
    assert ended.proposal is None and "would pass the budget" in (ended.ended or "")
    assert made(trials=9, confirm=False, budget_s=used_s + each_s + 1).propose(history) is not None


def test_trials_of_other_settings_count_for_none_of_those_that_are_asked_for() -> None:
    trainer = MadeUp(lambda settings: 10.0 * settings["workers"])
    history = trainer.run(Search(experiment=an_experiment(), machine=MACHINE, trials=4, confirm=False))
    held = Search(
        experiment=an_experiment(settings={"workers": 2}), machine=MACHINE, sampler="grid", trials=3, confirm=False
    )
    before = {one.trial for one in history if (one.asked or {}).get("workers") == 2}
    assert held.hunt(history).counted == len(before)
    whole = trainer.run(held, history)
    assert held.hunt(whole).counted == 3 and len(whole) == len(history) + 3 - len(before)
    fewer = Search(experiment=an_experiment(), machine=MACHINE, trials=2, confirm=False).hunt(history)
    assert fewer.ended == "all 2 trials are used: 4 were there"


def test_nothing_is_tried_that_asks_for_as_much_as_what_was_measured_over_the_limit(tmp_path: Path) -> None:
    """Whatever the interval of what is predicted leaves open."""
    loose = simulated_experiment(FOUR_CORES)
    study = SimulatedStudy(FOUR_CORES, loose, tmp_path)
    history: list[TrialRecord] = []
    for settings in ({}, {"workers": 3}):
        history.append(study.measure(Proposal(settings=settings, reason="by hand", origin="search"), history))
    peak = history[1].measurement.ram_peak_bytes or 0
    limits = Limits(ram=Limit(bytes=int(0.999 * peak), text="so much"))
    search = Search(experiment=simulated_experiment(FOUR_CORES, limits=limits), machine=study.machine, trials=9)
    hunt = search.hunt(history)
    assert [*hunt.over] == [2] and "of RAM, the limit is" in hunt.over[2] and hunt.over_a_limit > 0
    own = {"workers": 2, "prefetch_factor": 2, "batch_size": 8}

    def asks_for_as_much(asked: Mapping[str, object]) -> bool:
        full = {**own, **asked}
        return all(int(str(full[name])) >= least for name, least in {**own, "workers": 3}.items())

    whole = study.run(search, history)
    assert len(whole) > 4 and asks_for_as_much(whole[1].asked or {})
    assert not any(asks_for_as_much(one.asked or {}) for one in whole[2:])
    assert not any(asks_for_as_much(guess.settings) for guess in search.hunt(whole).next_best)
