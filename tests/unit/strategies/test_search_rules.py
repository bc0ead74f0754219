"""The rules by which a joint search hands over, holds back and gives up, each where it alone decides."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.made_up import MACHINE, OWN, MadeUp, Settings, Told, an_experiment, launched
from support.simulated import SimulatedStudy, simulated_experiment
from vtune.analysis.search.trust import Mistrust
from vtune.domain.effects import Scalar
from vtune.domain.experiment import KnobBinding, Limit, Limits
from vtune.domain.trial import Proposal, TrialStatus
from vtune.execution.engines.simulated.surfaces import FOUR_CORES
from vtune.strategies import search_next
from vtune.strategies.optuna_samplers import Told as ToldToOptuna
from vtune.strategies.search import Search
from vtune.strategies.search_auto import Outlook

BATCHES = KnobBinding(name="batch_size", values=(1, 2, 4, 8, 16))
FIRST = Proposal(settings={}, reason="the current settings", origin="search")


def drawn_batches(history: Sequence[Any]) -> set[Scalar]:
    experiment = an_experiment(knobs=(BATCHES,))
    searches = [
        Search(experiment=experiment, machine=MACHINE, trials=9, sampler="random", seed=seed) for seed in range(60)
    ]
    proposals = [search.propose(history) for search in searches]
    return {one.settings.get("batch_size", OWN["batch_size"]) for one in proposals if one is not None}


def test_no_batch_is_tried_that_is_over_four_times_as_large_as_one_that_ran() -> None:
    first = launched(FIRST, 1, 10.0)
    assert drawn_batches([first]) == {1, 2, 4}
    larger = launched(replace(FIRST, settings={"batch_size": 4}), 2, 12.0)
    assert drawn_batches([first, larger]) == {1, 2, 4, 8, 16}
    # What did not run is no step on the way.
    failed = launched(replace(FIRST, settings={"batch_size": 4}), 2, TrialStatus.OUT_OF_VRAM)
    assert 16 not in drawn_batches([first, failed])


def never_fed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No trial rules out that its step could be fed better."""
    monkeypatch.setattr(Outlook, "loading_is_enough", False)
    monkeypatch.setattr(Outlook, "_fed", frozenset())


@pytest.mark.parametrize(
    ("since", "foretold_well", "samples", "ends_after"),
    [
        pytest.param(0, False, None, 10, marks=pytest.mark.slow),
        pytest.param(11, False, None, 12, marks=pytest.mark.slow),
        pytest.param(13, True, None, 14, marks=pytest.mark.slow),
        (0, True, None, 6),
        (0, False, 4000, 6),
        # A twentieth of the run is little to one who may be off by as much.
        pytest.param(0, False, 20_000, 10, marks=pytest.mark.slow),
    ],
)
def test_it_gives_up_after_ten_trials_or_six_that_it_foretold_or_that_hardly_pay_and_two_looks_in_a_row(
    since: int,
    foretold_well: bool,
    samples: int | None,
    ends_after: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`since` this trial the model says that nothing is to be won."""

    def nothing_to_win(outlook: Outlook, *, off_times: float = 1.0, worth: float = 0.0) -> bool:
        return max(one.trial for one in outlook.seen.known.records) >= since

    never_fed(monkeypatch)
    monkeypatch.setattr(Outlook, "nothing_to_win", nothing_to_win)
    monkeypatch.setattr(search_next, "foretold_well", lambda records: foretold_well)
    surface = FOUR_CORES if samples is None else replace(FOUR_CORES, epochs=1, samples_per_epoch=samples)
    experiment = simulated_experiment(surface)
    study = SimulatedStudy(surface, experiment, tmp_path)
    search = Search(experiment=experiment, machine=study.machine, trials=20, confirm=False)
    history = study.run(search)
    hunt = search.hunt(history)
    assert len(history) == ends_after and hunt.given_back == 20 - ends_after
    assert ("longer than that of a run of" in (hunt.ended or "")) is (samples is not None)


def test_optuna_is_told_by_how_much_a_trial_is_over_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(settings: Settings) -> Told:
        if settings["workers"] == 8:
            return TrialStatus.OUT_OF_SHM
        return 10.0 * settings["workers"], {"ram_peak_bytes": settings["workers"] * 2**30}

    seen: list[ToldToOptuna] = []

    def listening(sampler: Any, space: Any, told: Sequence[ToldToOptuna], **asked: Any) -> Mapping[str, Scalar] | None:
        seen[:] = told
        return None

    monkeypatch.setattr(search_next, "next_settings", listening)
    experiment = an_experiment(limits=Limits(ram=Limit(bytes=3 * 2**30, text="3GiB")))
    trainer, asked = MadeUp(told), [{}, {"workers": 3}, {"workers": 6}, {"workers": 8}]
    history: list[Any] = []
    for settings in asked:
        history.append(trainer.measure(replace(FIRST, settings=settings), history))
    Search(experiment=experiment, machine=MACHINE, trials=9, sampler="tpe").propose(history)
    over = {one.settings.get("workers", 1): one.over for one in seen}
    assert over[1] == over[3] == 0.0 and over[8] == 1.0
    assert over[6] == pytest.approx(math.log(2), abs=0.01)
    assert {one.settings.get("workers", 1): one.samples_per_s is None for one in seen} == {
        1: False,
        3: False,
        6: False,
        8: True,
    }


def test_where_the_leader_waits_for_nothing_four_trials_are_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Outlook, "nothing_to_win", lambda outlook, **asked: True)
    monkeypatch.setattr(Outlook, "loading_is_enough", True)
    study = SimulatedStudy(FOUR_CORES, simulated_experiment(FOUR_CORES), tmp_path)
    search = Search(experiment=study.experiment, machine=study.machine, trials=20, confirm=False)
    assert len(study.run(search)) == 4


@pytest.mark.slow
def test_a_mistrusted_model_and_optuna_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    never_fed(monkeypatch)
    experiment = simulated_experiment(FOUR_CORES, knobs=(KnobBinding(name="batch_size"),))
    study = SimulatedStudy(FOUR_CORES, experiment, tmp_path)
    search = Search(experiment=experiment, machine=study.machine, trials=9, confirm=False)
    trusted = [record.reason for record in study.run(search)]
    assert not any("Optuna" in reason for reason in trusted)
    doubt = Mistrust(trials=(2, 3, 4, 5), inside=1, off=1.3, sd=0.3)
    monkeypatch.setattr(search_next, "mistrust", lambda records: doubt if len(records) >= 5 else None)
    study = SimulatedStudy(FOUR_CORES, experiment, tmp_path / "again")
    history = study.run(search)
    by_optuna = ["Optuna" in record.reason for record in history]
    assert by_optuna == [False, False, False, False, False, True, False, True, False]
    assert doubt.text in search.hunt(history).remarks


def test_what_read_its_data_otherwise_than_the_own_settings_is_compared_with_a_launch_that_did_not() -> None:
    """The first launch reads from the disk, all later ones find it in memory."""
    launches = 0

    def told(settings: Settings) -> Told:
        nonlocal launches
        launches += 1
        # So much faster than the user's own that anybody else would be ended early.
        warm = 10.0 * min(settings["workers"], 6)
        return (warm / 3, {"cache": "cold"}) if launches == 1 else (warm, {"cache": "warm"})

    search = Search(experiment=an_experiment(), machine=MACHINE, trials=6, confirm=False)
    history = MadeUp(told).run(search)
    again = [record for record in history[1:] if record.asked == {}]
    assert [record.trial for record in again] == [3] and again[0].beaten is None and len(history) == 6
    assert again[0].reason == "your own settings once more: trial 1 read its data cold, trial 2 warm"
    hunt = search.hunt(history)
    assert hunt.best is not None and hunt.best.settings["workers"] != 1
    assert hunt.best.measurement.cache == "warm"
