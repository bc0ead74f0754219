"""From a steady rate to what a study ranks by: restarts, validations, the start."""

from collections.abc import Mapping
from typing import Any

import pytest

from support.studies import a_trial
from vtune.analysis.model.fit import fit_model
from vtune.domain.effects import Scalar
from vtune.domain.record import Projection, TrainingCost, TrialRecord, WorkerCost

OWN: dict[str, Scalar] = {"workers": 2, "prefetch_factor": 2, "batch_size": 1, "persistent_workers": False}
LOAD_S, OWN_S, START_S, VALIDATION_S = 0.2, 0.05, 3.0, 10.0
EPOCHS, ONCE_S = 20, 5.0


def trial(
    number: int,
    asked: Mapping[str, Scalar] | None = None,
    *,
    samples: int = 200,
    sees_end: bool = False,
    by: str = "data",
    epochs: int | None = EPOCHS,
    **measured: Any,
) -> TrialRecord:
    """Whose training waits for its loader: workers come up in three seconds at the beginning of each epoch."""
    settings = {**OWN, **(asked or {})}
    workers, batch = int(str(settings["workers"])), int(str(settings["batch_size"]))
    rate = workers / LOAD_S
    first_s = LOAD_S * batch + START_S
    gained_s = (workers + 1) / 2 * max(0.0, LOAD_S * batch / workers - OWN_S * batch)
    restart_s = max(0.0, (LOAD_S * batch if settings["persistent_workers"] else first_s) - gained_s)
    restart_s += VALIDATION_S if sees_end else 0.0
    of_epoch = samples * batch if by == "iterations" else samples
    run_s = None if epochs is None else ONCE_S + epochs * samples / rate + (epochs - 1) * restart_s
    told = {
        "effective_settings": settings,
        "effective_batch": batch,
        "samples_per_epoch": of_epoch,
        "epoch_bound_by": by,
        "worker_cost": WorkerCost(batch_s=LOAD_S * batch, cpu_fraction=0.9, batches=100, delivering=workers, cv=0.05),
        "training_cost": TrainingCost(batch_s=OWN_S * batch, cv=0.05),
        "first_batch_s": first_s,
        "epoch_restart_s": restart_s if sees_end else None,
        "samples_per_s_whole_run": None if run_s is None or epochs is None else epochs * samples / run_s,
        "projected": Projection(epoch_s=of_epoch / rate + restart_s, run_s=run_s),
    }
    return a_trial(number, rate, asked=dict(asked or {}), settings=settings, measured={**told, **measured})


def rates(*records: TrialRecord, asked: Mapping[str, Scalar]) -> tuple[float, float, float]:
    model = fit_model(records, cores=32)
    assert model is not None
    found = model.predict(asked)
    assert found is not None
    return (found.samples_per_s, *found.samples_per_s_ci95)


def whole(workers: int, *, restart_s: float, samples: int = 200) -> float:
    total = EPOCHS * samples
    return total / (ONCE_S + total * LOAD_S / workers + (EPOCHS - 1) * restart_s)


def test_workers_that_stay_save_their_start_in_every_epoch() -> None:
    middle, low, high = rates(trial(1), asked={"persistent_workers": True})
    assert middle == pytest.approx(whole(2, restart_s=LOAD_S - 1.5 * 0.05), rel=0.06)
    anew = rates(trial(1), asked={})[0]
    assert anew == pytest.approx(whole(2, restart_s=START_S + LOAD_S - 1.5 * 0.05), rel=0.03)
    assert low > anew * 0.95
    assert high > middle


def test_workers_come_up_side_by_side() -> None:
    middle, _, _ = rates(trial(1), trial(2, {"workers": 3}), asked={"workers": 4})
    # The last round of four workers that are as fast as the training comes for nothing less.
    assert middle == pytest.approx(whole(4, restart_s=START_S + LOAD_S), rel=0.06)


def test_a_validation_that_was_seen_is_paid_by_other_settings_too() -> None:
    seen = rates(trial(1, sees_end=True, samples=40), asked={"workers": 3})[0]
    unseen = rates(trial(1, samples=40), asked={"workers": 3})[0]
    assert seen < 0.6 * unseen


def test_a_validation_that_a_trial_would_not_come_to_is_in_no_rate() -> None:
    """Of the trials with a batch of two the epoch is over within the window, and half as many steps long."""
    records = (trial(1, samples=160), trial(2, {"batch_size": 2}, samples=160, sees_end=True))
    with_end = rates(*records, asked={"batch_size": 2, "workers": 3})[0]
    without = rates(*records, asked={"batch_size": 1, "workers": 3})[0]
    assert with_end < 0.8 * without


def test_where_the_number_of_epochs_is_not_known_an_epoch_is_predicted() -> None:
    found = fit_model([trial(1, epochs=None)], cores=32)
    assert found is not None
    assert found.ranked_by == "samples_per_s_epoch"
    predicted = found.predict({"persistent_workers": True})
    assert predicted is not None
    assert predicted.samples_per_s == pytest.approx(200 / (200 * LOAD_S / 2 + LOAD_S - 1.5 * 0.05), rel=0.06)


def test_an_epoch_bounded_by_iterations_has_more_samples_with_a_larger_batch() -> None:
    """The run is as many samples and as many restarts, an epoch is longer."""
    found = fit_model([trial(1, by="iterations", epochs=None)], cores=32)
    assert found is not None
    twice = found.predict({"batch_size": 2})
    assert twice is not None
    assert twice.samples_per_s == pytest.approx(400 / (400 * LOAD_S / 2 + START_S + 2 * LOAD_S - 1.5 * 0.1), rel=0.06)


def test_epochs_over_before_they_are_steady_are_predicted_as_whole_ones() -> None:
    """Their rate has the restarts in it already."""
    samples = 40
    in_rate = samples / (samples * LOAD_S / 2 + START_S + LOAD_S - 1.5 * 0.05)
    told = {
        "samples_per_s": in_rate,
        "samples_per_s_ci95": (0.97 * in_rate, 1.03 * in_rate),
        "samples_per_s_whole_run": in_rate,
        "projected": Projection(epoch_s=samples / in_rate, run_s=EPOCHS * samples / in_rate),
        "restarts_in_rate": True,
        "rate_from": "epochs",
        "training_cost": None,
        "compute_samples_per_s": 1 / OWN_S,
    }
    middle, low, high = rates(trial(1, samples=samples, **told), asked={"persistent_workers": True})
    truth = samples / (samples * LOAD_S / 2 + LOAD_S - 1.5 * 0.05)
    assert middle == pytest.approx(truth, rel=0.12)
    assert low < truth < high
