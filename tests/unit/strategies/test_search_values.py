"""Values beyond the usual ones: what earlier trials ran with, and more workers where more of them still win."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from support.made_up import MACHINE, MadeUp, Settings, Told, an_experiment, launched
from support.simulated import SimulatedStudy, simulated_experiment
from vtune.domain.record import TrialRecord, WhatIf
from vtune.domain.search import Space
from vtune.domain.trial import Proposal
from vtune.execution.engines.simulated.surface import MIB, Box, LoaderCost, Memory, SampleCost, StepCost, Surface
from vtune.strategies.search import Search
from vtune.strategies.search_auto import Outlook

# Batches come from far away: a worker waits for all but a tenth of its time.
FAR_AWAY = Surface(
    name="far-away",
    seed=5,
    sample=SampleCost(latency_s=0.1, cpu_s=0.002, cv=0.1, batch_bytes=0.1 * MIB),
    loader=LoaderCost(fork_s=0.02, boot_s=0.1),
    step=StepCost(base_s=0.012, cv=0.05),
    box=Box(cores=2),
    memory=Memory(main_bytes=200 * MIB, worker_bytes=50 * MIB),
    settings={"workers": 1, "prefetch_factor": 2, "batch_size": 1, "persistent_workers": True},
    samples_per_epoch=4000,
    epochs=20,
)


def workers_of(space: Space | None) -> list[int]:
    assert space is not None
    dimension = next(one for one in space.dimensions if one.name == "workers")
    return [value for one in dimension.choices if isinstance(value := one["workers"], int)]


def test_where_waiting_workers_are_as_many_as_it_would_try_it_tries_more_of_them(tmp_path: Path) -> None:
    experiment = simulated_experiment(FAR_AWAY)
    study = SimulatedStudy(FAR_AWAY, experiment, tmp_path)
    search = Search(experiment=experiment, machine=study.machine, trials=8, confirm=False)
    assert max(workers_of(search.hunt(study.run(replace(search, trials=1))).space)) == 3
    history = study.run(search)
    most = max(record.settings["workers"] for record in history)  # type: ignore[type-var]
    assert isinstance(most, int) and 6 <= most <= 4 * 2
    best = search.hunt(history).best
    assert best is not None and isinstance(n := best.settings["workers"], int) and n > 3


def test_workers_that_compute_are_not_made_more_than_the_model_asks_for(tmp_path: Path) -> None:
    computing = replace(
        FAR_AWAY, sample=SampleCost(cpu_s=0.1, cv=0.1, batch_bytes=0.1 * MIB), step=StepCost(base_s=0.012, cv=0.05)
    )
    experiment = simulated_experiment(computing)
    study = SimulatedStudy(computing, experiment, tmp_path)
    search = Search(experiment=experiment, machine=study.machine, trials=8, confirm=False)
    assert max(workers_of(search.hunt(study.run(search)).space)) == 3


def a_search() -> Search:
    return Search(experiment=an_experiment(), machine=MACHINE, trials=4, confirm=False)


def test_what_an_earlier_walk_won_with_is_one_of_its_values() -> None:
    def told(settings: Settings) -> Told:
        return 10.0 * settings["workers"]

    trainer = MadeUp(told)
    won = launched(Proposal(settings={"workers": 5}, reason="the winner", origin="phase:1:workers"), 2, 50.0)
    own = launched(Proposal(settings={}, reason="the current settings", origin="phase:0:baseline"), 1, 10.0)
    hunt = a_search().hunt([own, won])
    assert 5 in workers_of(hunt.space) and hunt.proposal is not None
    assert 5 not in workers_of(a_search().hunt([own]).space)
    assert a_search().hunt(trainer.run(a_search(), [own, won])).best is not None


def test_a_long_journal_does_not_make_a_space_of_all_that_was_ever_asked_for() -> None:
    trainer = MadeUp(lambda settings: 10.0 * settings["workers"])
    history: list[TrialRecord] = []
    for workers in (1, 9, 10, 11, 13, 14, 15):
        proposal = Proposal(settings={"workers": workers} if workers > 1 else {}, reason="", origin="probe")
        history.append(trainer.measure(proposal, history))
    usual = set(workers_of(a_search().hunt(history[:1]).space))
    assert set(workers_of(a_search().hunt(history).space)) - usual == {11, 13, 14, 15}


class Advised(SimulatedStudy):
    """The replay of the user's own settings says that twice the workers would win much. They do not."""

    def measure(self, proposal: Proposal, history: Sequence[TrialRecord]) -> TrialRecord:
        record = super().measure(proposal, history)
        rate = record.measurement.samples_per_s
        if record.asked or not rate:
            return record
        advice = WhatIf(change="twice_the_workers", samples_per_s=1.8 * rate, setting=("workers", 4))
        return replace(record, measurement=replace(record.measurement, what_if=(advice,)))


def test_what_the_replay_of_the_best_advises_is_tried_once_the_models_pick_won_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report would advise it at the end, and nobody would have tried it."""
    # Whose loading is enough is advised nothing.
    monkeypatch.setattr(Outlook, "_fed", frozenset())
    own = {"workers": 2, "prefetch_factor": 2, "batch_size": 4, "persistent_workers": False}
    surface = replace(
        FAR_AWAY, sample=SampleCost(cpu_s=0.004, cv=0.2, batch_bytes=1e5), step=StepCost(base_s=0.08), settings=own,
        box=Box(cores=12),
    )  # fmt: skip
    experiment = simulated_experiment(surface)
    study = Advised(surface, experiment, tmp_path)
    search = Search(experiment=experiment, machine=study.machine, trials=5, confirm=False)
    history = study.run(search)
    assert ("the replay of trial 1 with workers=4 says 1.8×", {"workers": 4}) in [
        (record.reason, record.asked) for record in history[2:]
    ]
