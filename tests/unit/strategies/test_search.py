"""A joint search: what it asks first, what it counts, when it ends, and what it says of itself."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.made_up import MACHINE, OWN, MadeUp, Settings, Told, an_experiment, asked_for, launched
from support.simulated import SimulatedStudy, limited, simulated_experiment
from vtune.domain.effects import Scalar
from vtune.domain.experiment import KnobBinding, Limit, Limits
from vtune.domain.record import TrialRecord
from vtune.domain.trial import Proposal, TrialStatus
from vtune.execution.engines.simulated.surface import (
    GIB,
    MIB,
    Box,
    Device,
    LoaderCost,
    Memory,
    SampleCost,
    StepCost,
    Surface,
)
from vtune.execution.engines.simulated.surfaces import FOUR_CORES, SMALL_VOLUMES
from vtune.strategies.foresight import fitted
from vtune.strategies.search import Search

BATCH = KnobBinding(name="batch_size")
NOTHING_TO_GAIN = Surface(
    name="nothing-to-gain",
    seed=31,
    sample=SampleCost(cpu_s=0.004, cv=0.2, batch_bytes=1e5),
    step=StepCost(sample_s=0.02, cv=0.1),
    settings={"workers": 2, "prefetch_factor": 2, "batch_size": 4, "persistent_workers": False},
    samples_per_epoch=6000,
    epochs=20,
)


# docs/rehearsal.md in figures.
REHEARSAL = Surface(
    name="rehearsal",
    seed=21,
    sample=SampleCost(latency_s=0.06, cv=0.12, batch_bytes=0.1 * MIB),
    loader=LoaderCost(fork_s=0.02, boot_s=0.4, batch_s=0.1, dispatch_s=0.001, receive_s=0.001),
    step=StepCost(base_s=0.008, sample_s=0.006, host_s=0.001, every_steps=8, every_s=0.012),
    box=Box(cores=12, ram_bytes=24 * GIB, shm_bytes=GIB),
    memory=Memory(main_bytes=270 * MIB, worker_bytes=79 * MIB),
    device=Device(name="Emulated A100", vram_bytes=800 * 10**6, base_bytes=200e6, sample_bytes=270e6),
    settings={"workers": 1, "prefetch_factor": 1, "batch_size": 1},
    samples_per_epoch=4000,
    epochs=32,
    startup_s=3.0,
)


def a_search(own: Mapping[str, Scalar] = OWN, *, trials: int = 6, fields: Any = None, **asked: Any) -> Search:
    return Search(experiment=an_experiment(own, **(fields or {})), machine=MACHINE, trials=trials, **asked)


def more_is_faster(settings: Settings) -> Told:
    return 10.0 * min(settings["workers"], 6) ** 0.5 * (1.2 if settings["pin_memory"] else 1.0)


def tried(history: list[TrialRecord]) -> list[TrialRecord]:
    return [record for record in history if record.origin == "search"]


def test_the_users_own_settings_are_the_first_trial() -> None:
    proposal = a_search().propose([])
    assert proposal is not None and proposal.settings == {} and proposal.origin == "search"
    assert proposal.reason == "the current settings"
    asked = a_search(fields={"settings": {"workers": 4}}).propose([])
    assert asked is not None and asked.settings == {"workers": 4} and asked.reason == "asked for workers=4"


def test_a_probe_of_the_same_answers_in_place_of_it_and_counts() -> None:
    probe = launched(Proposal(settings={}, reason="the current settings", origin="probe"), 1, 10.0)
    hunt = a_search(trials=6).hunt([probe])
    assert hunt.baseline == probe and hunt.counted == 1 and hunt.stage == "searching"
    history = MadeUp(more_is_faster).run(a_search(trials=6, confirm=False), [probe])
    assert len(tried(history)) == 5


def test_trials_count_the_baseline_and_not_the_confirmations() -> None:
    history = MadeUp(more_is_faster, luck=0.01).run(a_search(trials=6))
    hunt = a_search(trials=6).hunt(history)
    assert len(tried(history)) == hunt.counted == 6 and hunt.stage == "done" and hunt.left == (0, 0)
    assert hunt.ended == "all 6 trials are used" and hunt.given_back == 0
    confirmed = [record for record in history if record.origin == "confirm"]
    assert confirmed and confirmed[0].race is None and hunt.best is not None
    assert confirmed[0].trial in hunt.trials and history.index(confirmed[0]) == 6


def test_the_same_again_does_nothing_and_more_trials_go_on() -> None:
    trainer = MadeUp(more_is_faster, luck=0.01)
    history = trainer.run(a_search(trials=4, confirm=False))
    assert a_search(trials=4, confirm=False).propose(history) is None
    longer = trainer.run(a_search(trials=7, confirm=False), history)
    assert len(longer) == 7 and longer[:4] == history
    assert len({str(one) for one in asked_for(longer)}) == 7


def test_interrupted_launches_and_those_left_out_count_for_nothing() -> None:
    search = a_search(trials=3, confirm=False)
    cut = launched(Proposal(settings={}, reason="the current settings", origin="search"), 1, TrialStatus.INTERRUPTED)
    assert search.propose([cut]) == search.propose([])
    history = MadeUp(more_is_faster).run(search, [cut])
    assert len(history) == 4
    again = replace(search, left_out=frozenset({2})).hunt(history)
    assert again.baseline is None and again.proposal is not None and again.proposal.settings == {}


def test_a_budget_is_not_passed_and_keeps_the_winners_second_launch() -> None:
    """Each made-up trial takes 34.1 s."""
    for confirm, launches in ((False, 8), (True, 6)):
        search = a_search(trials=50, budget_s=300.0, confirm=confirm)
        history = MadeUp(more_is_faster).run(search)
        hunt = search.hunt(history)
        assert sum(record.seconds for record in history) <= 300 and len(tried(history)) == launches
        assert hunt.ended is not None and "would pass the budget of 300 s" in hunt.ended and hunt.given_back == 0


def test_a_budget_keeps_nothing_for_a_winner_while_the_users_own_settings_lead() -> None:
    """Each made-up trial takes 34.1 s: three of them fit, with the second launch of a winner only one would."""
    search = a_search(trials=50, budget_s=110.0)
    history = MadeUp(lambda settings: 10.0 if settings["workers"] == 1 else 5.0).run(search)
    hunt = search.hunt(history)
    assert len(tried(history)) == 3 and hunt.ended is not None and "winner" not in hunt.ended
    assert sum(record.seconds for record in history) <= 110.0


def test_what_does_not_fit_at_first_is_made_to_fit_by_the_least_change() -> None:
    def told(settings: Settings) -> Told:
        return TrialStatus.OUT_OF_VRAM if settings["batch_size"] > 2 else more_is_faster(settings)

    own = {**OWN, "batch_size": 8}
    history = MadeUp(told, own).run(a_search(own, trials=8, confirm=False))
    assert asked_for(history)[:3] == [
        {},
        {"batch_size": 4, "accumulate_steps": 2},
        {"batch_size": 2, "accumulate_steps": 4},
    ]
    hunt = a_search(own, trials=8, confirm=False).hunt(history)
    assert hunt.stopped is None and hunt.best is not None and hunt.best.settings["batch_size"] <= 2  # type: ignore[operator]


def test_where_nothing_fits_it_stops_and_names_the_limit() -> None:
    search = a_search({**OWN, "batch_size": 8})
    history = MadeUp(lambda settings: TrialStatus.OUT_OF_VRAM, {**OWN, "batch_size": 8}).run(search)
    hunt = search.hunt(history)
    assert hunt.best is None and hunt.proposal is None and hunt.stage == "done" and len(history) <= 5
    assert hunt.stopped is not None and "what is set does not fit (trial 1: out of vram" in hunt.stopped


def test_where_every_trial_is_over_a_limit_the_nearest_relaxation_is_named() -> None:
    def told(settings: Settings) -> Told:
        return 10.0, {"ram_peak_bytes": (4 + settings["workers"]) * GIB}

    tight = Limits(ram=Limit(bytes=3 * GIB, text="3GiB"))
    search = a_search({**OWN, "workers": 4}, trials=4, fields={"limits": tight})
    history = MadeUp(told, {**OWN, "workers": 4}).run(search)
    hunt = search.hunt(history)
    assert hunt.best is None and hunt.proposal is None and hunt.stopped is not None
    assert "--ram-limit" in hunt.stopped


def test_a_training_that_crashes_as_it_is_set_is_nothing_to_build_on() -> None:
    history = MadeUp(lambda settings: TrialStatus.CRASHED).run(a_search())
    hunt = a_search().hunt(history)
    assert len(history) == 1 and hunt.stopped is not None and "gives nothing to build on" in hunt.stopped


@pytest.mark.slow
def test_what_no_model_foresees_is_tried_once_each_with_the_best_so_far(tmp_path: Path) -> None:
    experiment = simulated_experiment(
        FOUR_CORES, limits=limited(ram=0.6, vram=0.95), knobs=(BATCH, KnobBinding(name="threads", values=(1, 2, 4)))
    )
    study = SimulatedStudy(FOUR_CORES, experiment, tmp_path)
    search = Search(experiment=experiment, machine=study.machine, trials=14, confirm=False)
    history = study.run(search)
    threads = [record.asked["threads"] for record in history if record.asked and "threads" in record.asked]
    assert {1, 2, 4} <= set(threads)
    first = next(at for at, record in enumerate(history) if "threads" in (record.asked or {}))
    assert first == 3
    others = {name: value for name, value in (history[first].asked or {}).items() if name != "threads"}
    assert others in asked_for(history[:first]) and others


def test_where_nothing_is_to_be_won_the_rest_is_given_back(tmp_path: Path) -> None:
    experiment = simulated_experiment(NOTHING_TO_GAIN)
    study = SimulatedStudy(NOTHING_TO_GAIN, experiment, tmp_path)
    search = Search(experiment=experiment, machine=study.machine, trials=20)
    history = study.run(search)
    hunt = search.hunt(history)
    assert len(history) <= 6 and hunt.given_back == 20 - len(tried(history)) >= 14
    assert hunt.ended is not None
    assert hunt.settings == {} and hunt.best is not None and hunt.best.trial == 1
    # What confirms does not open it again.
    assert search.propose(history) is None


def test_every_proposal_says_what_it_expects_and_keeps_to_what_is_foreseen_to_fit(tmp_path: Path) -> None:
    limits = limited(ram=0.6, vram=0.5)
    experiment = simulated_experiment(SMALL_VOLUMES, limits=limits, knobs=(BATCH,))
    study = SimulatedStudy(SMALL_VOLUMES, experiment, tmp_path)
    search = Search(experiment=experiment, machine=study.machine, trials=8, confirm=False)
    history = study.run(search)
    assert all(record.predicted is not None for record in history[1:])
    for at, record in enumerate(history[1:], start=1):
        model = fitted(history[:at], study.machine)
        assert model is not None and model.surely_too_big(record.asked or {}, limits) is None
        vram = record.measurement.vram_peak_bytes
        assert vram is not None and vram <= 20 * GIB
    hunt = search.hunt(history)
    assert hunt.over_a_limit > 0 and hunt.settings_in_all > 500 and hunt.ruled_out_by_failures == 0
    gains = [guess.gain for guess in hunt.next_best]
    assert len(gains) == 5 and gains == sorted(gains, reverse=True)
    assert all(dict(guess.settings) not in asked_for(history) for guess in hunt.next_best)


@pytest.mark.slow
def test_nothing_that_asks_for_as_much_as_what_ran_out_is_tried(tmp_path: Path) -> None:
    """A device that lets a batch of 32 run out, without any limit."""
    surface = replace(
        SMALL_VOLUMES, device=Device(vram_bytes=20 * GIB, base_bytes=0.2 * GIB, sample_bytes=0.9 * GIB),
        settings={**SMALL_VOLUMES.settings, "batch_size": 16},
    )  # fmt: skip
    experiment = simulated_experiment(surface, knobs=(BATCH,))
    study = SimulatedStudy(surface, experiment, tmp_path)
    search = Search(experiment=experiment, machine=study.machine, trials=8, confirm=False)
    too_large = Proposal(settings={"batch_size": 32}, reason="asked for batch_size=32", origin="probe")
    probe = study.measure(too_large, ())
    assert probe.status is TrialStatus.OUT_OF_VRAM
    history = study.run(search, [probe])
    sizes = [record.settings["batch_size"] for record in history[1:]]
    assert all(isinstance(size, int) and size < 32 for size in sizes) and search.hunt(history).ruled_out_by_failures > 0


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["tpe", "gp"])
def test_samplers_that_learn_start_from_the_models_best(sampler: Any, tmp_path: Path) -> None:
    if sampler == "gp":
        pytest.importorskip("torch")
    experiment = simulated_experiment(FOUR_CORES, limits=limited(ram=0.6, vram=0.95), knobs=(BATCH,))
    study = SimulatedStudy(FOUR_CORES, experiment, tmp_path)
    search = Search(experiment=experiment, machine=study.machine, trials=7, confirm=False, sampler=sampler)
    history = study.run(search)
    reasons = [record.reason for record in history]
    assert all(reason.startswith("predicted") for reason in reasons[1:6]) and "Optuna" in reasons[6]
    assert len(history) == 7


def test_limits_of_today_count_and_not_those_of_then() -> None:
    """A trial over today's limit is no answer to build a winner on."""

    def told(settings: Settings) -> Told:
        return 10.0 * settings["workers"], {"ram_peak_bytes": settings["workers"] * 2**30}

    history = MadeUp(told).run(a_search(trials=6, confirm=False))
    tight = Limits(ram=Limit(bytes=3 * 2**30, text="3GiB"))
    hunt = a_search(trials=6, confirm=False, fields={"limits": tight}).hunt(history)
    assert hunt.best is not None and hunt.best.settings["workers"] <= 3  # type: ignore[operator]


def test_beyond_a_number_of_workers_that_failed_nothing_is_tried_before_what_lies_below(tmp_path: Path) -> None:
    limits = Limits(ram=Limit(bytes=850 * 10**6, text="850MB"), vram=Limit(fraction=0.95, text="95%"))
    experiment = simulated_experiment(REHEARSAL, limits=limits, knobs=(BATCH,))
    study = SimulatedStudy(REHEARSAL, experiment, tmp_path)
    search = Search(experiment=experiment, machine=study.machine, trials=6, confirm=False)
    history = study.run(search)
    failed = [at for at, record in enumerate(history) if record.status is TrialStatus.OUT_OF_RAM]
    assert (
        failed
        and all(
            later.settings["workers"] < history[at].settings["workers"]  # type: ignore[operator]
            for at in failed
            for later in history[at + 1 :]
        )
    )
    # The first larger batch is a doubt, and worth one trial.
    best = search.hunt(history).best
    assert best is not None and (best.settings["workers"], best.settings["batch_size"]) == (6, 2)


def test_a_knob_of_the_users_own_is_found_to_win_though_no_model_knows_it() -> None:
    def told(settings: Settings) -> Told:
        rate = more_is_faster(settings)
        assert isinstance(rate, float)
        return rate * {0.1: 1.5, 0.3: 1.0, 0.5: 0.9}[settings["flip"]]

    own = {**OWN, "flip": 0.3}
    flip = KnobBinding(name="flip", key=("training", "flip"), values=(0.1, 0.5))
    search = a_search(own, trials=14, fields={"knobs": (flip,)}, confirm=False)
    history = MadeUp(told, own, luck=0.01).run(search)
    hunt = search.hunt(history)
    assert hunt.settings["flip"] == 0.1 and hunt.settings["workers"] != 1
    # Without a model it is Optuna that learns it: the worst value is not what most trials are spent on.
    assert sum(settings.get("flip") == 0.5 for settings in asked_for(history)) < len(history) / 2
