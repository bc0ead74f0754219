"""What a record tells of its costs by batch, and what is made of one that tells little."""

from dataclasses import replace
from typing import Any

import pytest

from support.studies import a_trial
from vtune.analysis.model.rows import Row, row_of
from vtune.analysis.model.setup import Base
from vtune.domain.machine_use import ProcessUse
from vtune.domain.record import TrainingCost, TrialRecord, WorkerCost

WORKER = WorkerCost(batch_s=0.4, cpu_fraction=0.75, batches=100, delivering=4, cv=0.2, dispatch_s=0.001)
TRAINING = TrainingCost(batch_s=0.02, cv=0.1, delivery_s=0.002)
OWN = {"workers": 4, "prefetch_factor": 2, "batch_size": 2, "persistent_workers": False}


def a_record(**measured: Any) -> TrialRecord:
    told = {"effective_settings": OWN, "worker_cost": WORKER, "training_cost": TRAINING, "rate_from": "twin"}
    return a_trial(1, 20.0, workers=4, measured={**told, **measured})


def row(record: TrialRecord) -> Row:
    setup = Base([record]).setup_of(record)
    assert setup is not None
    found = row_of(record, setup)
    assert found is not None
    return found


def test_a_workers_batch_is_computing_and_waiting() -> None:
    found = row(a_record())
    assert found.cpu_s == pytest.approx(0.3)
    assert found.wait_s == pytest.approx(0.1)
    assert found.own_s == pytest.approx(0.02)
    # 10 batches a second of 0.4 s each.
    assert found.busy == pytest.approx(4.0)
    assert found.computing == pytest.approx(3.0)


def test_time_in_line_for_a_core_is_no_wait_for_the_storage() -> None:
    uses = tuple(ProcessUse(role=f"worker {n}", cpu_fraction=0.75, queued_fraction=0.2) for n in range(4))
    found = row(a_record(processes=uses))
    assert found.wait_s == pytest.approx(0.4 - 0.3 - 0.2 * 4 * 0.1)
    assert found.computing == pytest.approx(3.8)


def test_workers_of_a_training_that_never_waits_are_busy_for_a_part_of_the_time() -> None:
    found = row(a_record(worker_cost=replace(WORKER, batch_s=0.1)))
    assert found.busy == pytest.approx(1.0)


def test_without_workers_loading_is_what_the_loader_alone_takes() -> None:
    own = {**OWN, "workers": 0, "prefetch_factor": None}
    record = a_record(effective_settings=own, worker_cost=None, loader_samples_per_s=25.0)
    found = row(replace(record, settings={"workers": 0, "batch_size": 2}))
    assert found.load_s == pytest.approx(2 / 25.0)
    assert found.busy == 0.0


def test_a_loader_that_nobody_could_see_into_is_guessed_from_the_waiting() -> None:
    starved = row(a_record(worker_cost=None, training_cost=None, loader_samples_per_s=None, data_wait_fraction=0.8))
    assert starved.load_s == pytest.approx(4 * 0.1, rel=0.01)
    assert starved.own_s == pytest.approx(2 / 71.0)
    fed = row(a_record(worker_cost=None, training_cost=None, loader_samples_per_s=None, data_wait_fraction=0.01))
    assert fed.cpu_sd > 1.5 * starved.cpu_sd


def test_few_uneven_batches_tell_less_than_many_even_ones() -> None:
    few = row(a_record(worker_cost=replace(WORKER, batches=10, cv=1.0, slow=(6.0,))))
    assert few.cpu_sd > 5 * row(a_record()).cpu_sd
    assert few.cv_sd > 2 * row(a_record()).cv_sd


def test_a_trial_without_a_rate_has_no_costs() -> None:
    record = a_record(samples_per_s=None)
    setup = Base([record]).setup_of(record)
    assert setup is not None
    assert row_of(record, setup) is None


def test_what_a_training_takes_once_in_many_steps_is_no_part_of_its_usual_one() -> None:
    cost = replace(TRAINING, batch_s=0.03, cv=5.0, period_steps=75, period_extra_s=1.5, long_steps=(74, 149, 224))
    found = row(a_record(training_cost=cost, steps_measured=230))
    assert found.own_s == pytest.approx(0.01)
    assert (found.stop_s, found.stop_every) == (1.5, 75.0)
    assert found.own_sd < 0.05
    # What every tenth step does is in all of them.
    often = row(a_record(training_cost=replace(cost, period_steps=10, period_extra_s=0.1, long_steps=())))
    assert (often.own_s, often.stop_s) == (0.03, 0.0)
