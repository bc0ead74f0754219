"""The model as a strategy asks it: from made-up records whose costs are known."""

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from support.studies import EPOCHS, SAMPLES, a_failure, a_trial
from vtune.analysis.model.fit import fit_model
from vtune.analysis.model.missed import missed
from vtune.analysis.model.predict import Model
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Limit, Limits
from vtune.domain.record import Ceiling, Projection, Rung, TrainingCost, TrialRecord, WorkerCost
from vtune.domain.trial import TrialStatus

OWN: dict[str, Scalar] = {
    "workers": 1, "prefetch_factor": 2, "batch_size": 1, "persistent_workers": False, "pin_memory": False,
    "in_order": True,
}  # fmt: skip
# Seconds of a sample in a worker, and of a batch in the training: as much at any size as for each sample.
LOAD_S, FIXED_S, SAMPLE_S = 0.16, 0.01, 0.01
ONCE_S = 5.0


def trial(
    number: int,
    asked: Mapping[str, Scalar] | None = None,
    *,
    luck: float = 1.0,
    load_s: float = LOAD_S,
    **measured: Any,
) -> TrialRecord:
    """Of a loader whose samples take turns on as many cores as it wants."""
    settings = {**OWN, **(asked or {})}
    workers, batch = int(str(settings["workers"])), int(str(settings["batch_size"]))
    own_s = FIXED_S + SAMPLE_S * batch
    loaded_s = load_s * batch
    rate = luck * (min(workers / loaded_s, 1 / own_s) if workers else 1 / (loaded_s + own_s)) * batch
    told = {
        "effective_settings": {**settings, "prefetch_factor": settings["prefetch_factor"] if workers else None},
        "effective_batch": batch * int(str(settings.get("accumulate_steps", 1))),
        "rate_from": "twin",
        "worker_cost": WorkerCost(batch_s=loaded_s, cpu_fraction=0.9, batches=100, delivering=workers, cv=0.05)
        if workers
        else None,
        "training_cost": TrainingCost(batch_s=own_s, cv=0.05, delivery_s=0.0),
        "loader_samples_per_s": max(workers, 1) / load_s,
        "first_batch_s": loaded_s,
        "samples_per_s_whole_run": EPOCHS * SAMPLES / (ONCE_S + EPOCHS * SAMPLES / rate),
        "projected": Projection(epoch_s=SAMPLES / rate, run_s=ONCE_S + EPOCHS * SAMPLES / rate),
    }
    return a_trial(number, rate, asked=dict(asked or {}), settings=settings, measured={**told, **measured})


def model(*records: TrialRecord, cores: float | None = 32) -> Model:
    found = fit_model(records, cores=cores)
    assert found is not None
    return found


def rate_of(found: Model, asked: Mapping[str, Scalar]) -> tuple[float, float, float]:
    predicted = found.predict(asked)
    assert predicted is not None
    return (predicted.samples_per_s, *predicted.samples_per_s_ci95)


def test_one_trial_tells_what_more_workers_would_bring() -> None:
    found = model(trial(1))
    middle, low, high = rate_of(found, {"workers": 4})
    assert middle == pytest.approx(4 / LOAD_S, rel=0.1)
    assert low < 4 / LOAD_S < high


def test_a_second_trial_makes_it_surer() -> None:
    one, two = model(trial(1)), model(trial(1), trial(2, {"workers": 4}))
    (_, low, high), (_, surer_low, surer_high) = (rate_of(found, {"workers": 6}) for found in (one, two))
    assert math.log(surer_high / surer_low) < 0.5 * math.log(high / low)


def test_the_trainings_own_time_is_where_more_workers_end() -> None:
    middle, _, high = rate_of(model(trial(1)), {"workers": 24})
    assert middle == pytest.approx(1 / (FIXED_S + SAMPLE_S), rel=0.06)
    assert high < 1.2 * 1 / (FIXED_S + SAMPLE_S)


def test_batches_that_lie_ready_are_there_sooner_than_those_that_were_waited_for() -> None:
    own_s, late_s = FIXED_S + SAMPLE_S, 0.005
    slow = TrainingCost(batch_s=own_s, cv=0.05, delivery_s=late_s)
    middle, _, _ = rate_of(model(trial(1, training_cost=slow, data_wait_fraction=0.9)), {"workers": 24})
    assert 1.05 / (own_s + late_s) < middle < 1 / own_s


def test_workers_do_not_help_a_training_that_never_waits() -> None:
    found = model(trial(1, {}, load_s=0.002))
    gain = found.gain({"workers": 8}, over={})
    assert gain is not None
    assert gain.ci95 is not None
    assert gain.value == pytest.approx(1.0, abs=0.03)
    assert gain.ci95[1] < 1.12


def test_cores_bound_what_workers_bring() -> None:
    full = rate_of(model(trial(1), cores=2), {"workers": 16})
    free = rate_of(model(trial(1), cores=None), {"workers": 16})
    assert full[0] < 0.4 * free[0]
    assert full[2] < free[0]


def test_a_larger_batch_that_nobody_tried_may_win_much_or_nothing() -> None:
    fed = model(trial(1, {"workers": 16}))
    _, low, high = rate_of(fed, {"workers": 16, "batch_size": 4})
    # Between a step that takes as long as before and one that takes four times as long, data allowing.
    assert low < 1.15 * 1 / (FIXED_S + SAMPLE_S)
    assert high > 1.5 * 1 / (FIXED_S + SAMPLE_S)


def test_two_batch_sizes_tell_a_third() -> None:
    found = model(trial(1, {"workers": 16}), trial(2, {"workers": 16, "batch_size": 2}))
    middle, low, high = rate_of(found, {"workers": 32, "batch_size": 4})
    truth = 4 / (FIXED_S + 4 * SAMPLE_S)
    assert middle == pytest.approx(truth, rel=0.08)
    assert low < truth < high


def test_a_ladder_fed_from_memory_tells_other_batch_sizes() -> None:
    ladder = tuple(
        Rung(batch_size=size, fits=True, steps=10, samples_per_s=size / (FIXED_S + SAMPLE_S * size))
        for size in (1, 2, 4, 8)
    )
    blind = model(trial(1, {"workers": 16}))
    found = model(
        trial(1, {"workers": 16}), trial(2, {"workers": 16}, ceiling=Ceiling(ladder=ladder), samples_per_s=None)
    )
    asked = {"workers": 32, "batch_size": 8}
    truth = 8 / (FIXED_S + 8 * SAMPLE_S)
    middle, low, high = rate_of(found, asked)
    assert middle == pytest.approx(truth, rel=0.08)
    _, blind_low, blind_high = rate_of(blind, asked)
    assert math.log(high / low) < 0.5 * math.log(blind_high / blind_low)


def test_what_was_measured_is_predicted_as_it_was_measured() -> None:
    """A setting that the law gets wrong by a third."""
    records = (trial(1), trial(2, {"workers": 4}), trial(3, {"workers": 8}, luck=0.67))
    measured = records[2].measurement.samples_per_s_whole_run
    assert measured is not None
    middle, low, high = rate_of(model(*records), {"workers": 8})
    assert middle == pytest.approx(measured, rel=0.08)
    assert low < measured < high


def test_surprises_make_what_was_not_measured_less_sure() -> None:
    calm = model(trial(1), trial(2, {"workers": 4}), trial(3, {"workers": 2}))
    surprised = model(trial(1), trial(2, {"workers": 4}), trial(3, {"workers": 2}, luck=0.7))
    (_, low, high), (_, wide_low, wide_high) = (rate_of(one, {"workers": 3}) for one in (calm, surprised))
    assert math.log(wide_high / wide_low) > 1.3 * math.log(high / low)


def test_other_filters_are_not_predicted_before_one_trial_had_them() -> None:
    records = (trial(1), trial(2, {"workers": 4}))
    assert model(*records).predict({"filters": 16}) is None
    assert model(*records).gain({"filters": 16}, over={}) is None
    assert model(*records).surely_too_big({"filters": 16}, Limits(ram=Limit(bytes=1, text="1B"))) is None
    halved = replace(
        trial(3, {"filters": 16}, luck=1.0),
        measurement=replace(
            trial(3).measurement, training_cost=TrainingCost(batch_s=(FIXED_S + SAMPLE_S) / 2, cv=0.05)
        ),
    )
    found = model(*records, halved)
    middle, low, high = rate_of(found, {"filters": 16, "workers": 32})
    assert middle == pytest.approx(2 * 1 / (FIXED_S + SAMPLE_S), rel=0.15)
    assert low < middle < high


def test_records_without_what_they_ran_with_make_no_model() -> None:
    assert fit_model([], cores=4) is None
    assert fit_model([a_failure(1, TrialStatus.CRASHED)], cores=4) is None
    assert fit_model([trial(1, effective_settings={})], cores=4) is None


@pytest.mark.parametrize(
    "unknown",
    [
        {"worker_cost": None, "training_cost": None, "loader_samples_per_s": None, "rate_from": "batch_means"},
        {"samples_per_s_ci95": None},
        {"projected": Projection(), "samples_per_s_whole_run": None, "samples_per_epoch": None},
        {"samples_per_s_whole_run": None},
        {"first_batch_s": None},
        {"worker_cost": WorkerCost(batch_s=LOAD_S, cpu_fraction=None)},
        {"training_cost": TrainingCost(batch_s=0.0)},
        {"ranks": 4, "effective_batch": 4},
        {"restarts_in_rate": True, "rate_from": "epochs", "training_cost": None},
    ],
    ids=lambda unknown: next(iter(unknown)),
)
def test_a_record_that_tells_little_still_makes_a_model(unknown: Mapping[str, Any]) -> None:
    found = model(trial(1, **unknown), trial(2, {"workers": 4}, **unknown))
    middle, low, high = rate_of(found, {"workers": 2})
    own, four = (rate_of(found, asked)[0] for asked in ({}, {"workers": 4}))
    assert 0 < low < middle < high < float("inf")
    assert own < middle < four


def test_a_baseline_without_workers_tells_what_workers_would_bring() -> None:
    found = model(trial(1, {"workers": 0}), trial(2, {"workers": 4, "prefetch_factor": 2}))
    middle, low, high = rate_of(found, {"workers": 2, "prefetch_factor": 2})
    assert low < 2 / LOAD_S < high
    assert middle == pytest.approx(2 / LOAD_S, rel=0.15)


def test_data_in_few_parts_keeps_few_workers_at_work() -> None:
    one_part = WorkerCost(batch_s=LOAD_S, cpu_fraction=0.9, batches=100, delivering=1, cv=0.05)
    found = model(trial(1), trial(2, {"workers": 4}, luck=0.25, worker_cost=one_part))
    assert rate_of(found, {"workers": 8})[0] == pytest.approx(1 / LOAD_S, rel=0.1)


def test_cold_and_warm_reading_are_not_mixed() -> None:
    cold = trial(1, cache="cold", load_s=1.0)
    warm = [trial(n, {"workers": n}, cache="warm") for n in (2, 3)]
    assert rate_of(model(cold, *warm), {"workers": 4})[0] == pytest.approx(4 / LOAD_S, rel=0.12)


def test_a_rate_that_lived_on_ready_batches_is_not_believed() -> None:
    flattered = trial(2, {"workers": 2, "prefetch_factor": 8}, luck=2.0, fed_from_stock=True)
    middle = rate_of(model(trial(1), flattered), {"workers": 2, "prefetch_factor": 8})[0]
    assert middle == pytest.approx(2 / LOAD_S, rel=0.12)


def test_the_same_records_make_the_same_predictions_in_any_company() -> None:
    records = (trial(1), trial(2, {"workers": 4, "batch_size": 2}))
    many = [{"workers": workers, "batch_size": batch} for workers in range(9) for batch in (1, 2, 4)]
    together = model(*records).predict_all(many)
    again = model(*records)
    for asked, found in zip(many, together, strict=True):
        alone = again.predict(asked)
        assert alone is not None
        assert found is not None
        assert alone.samples_per_s == pytest.approx(found.samples_per_s, rel=1e-9)


def test_what_both_share_cancels_in_a_gain() -> None:
    found = model(trial(1))
    gain = found.gain({"workers": 5}, over={"workers": 4})
    assert gain is not None
    assert gain.ci95 is not None
    (four, four_low, _), (five, _, five_high) = (rate_of(found, {"workers": w}) for w in (4, 5))
    assert gain.value == pytest.approx(five / four, rel=0.02)
    assert math.log(gain.ci95[1] / gain.ci95[0]) < 0.7 * math.log(five_high / four_low)
    same = found.gain({"workers": 4}, over={"workers": 4, "batch_size": 1})
    assert same is not None
    assert same.ci95 == (1.0, 1.0)


def test_beyond_what_was_measured_it_says_so() -> None:
    found = model(trial(1), trial(2, {"workers": 4}))
    inside, outside = found.predict({"workers": 2}), found.predict({"workers": 8, "batch_size": 4})
    assert inside is not None
    assert outside is not None
    assert inside.notes == ()
    assert outside.notes == ("batch size 4 is beyond what was measured", "8 workers: beyond what was measured")


def test_what_a_walk_missed_is_told_with_the_least_of_its_gain() -> None:
    best = trial(2, {"workers": 2})
    found = model(trial(1), best, trial(3, {"workers": 4}), trial(4, {"workers": 3}))
    told = missed(found, [{"workers": 5}, {"workers": 6}, {"workers": 1}], best)
    assert told is not None
    assert told.settings == {"workers": 6}
    assert told.gain == pytest.approx(3.0, rel=0.1)
    assert 1.03 < told.least_gain < told.gain


def test_the_best_of_many_predictions_is_held_to_an_interval_for_all_of_them() -> None:
    best = trial(2, {"workers": 2})
    found = model(trial(1), best, trial(3, {"workers": 4}), trial(4, {"workers": 3}))
    one = missed(found, [{"workers": 6}], best)
    others = [{"workers": 1, "prefetch_factor": prefetch} for prefetch in range(1, 41)]
    many = missed(found, [{"workers": 6}, *others], best)
    alone = found.gain({"workers": 6}, over={**best.settings, **best.measurement.effective_settings})
    assert one is not None and many is not None and alone is not None and alone.ci95 is not None
    assert one.least_gain == alone.ci95[0] and many.gain == one.gain
    # Of 41, all at once, 95 %: 3.23 standard deviations in place of 1.96.
    assert many.least_gain == pytest.approx(one.gain * (one.least_gain / one.gain) ** (3.228 / 1.96), rel=1e-3)
    assert 1 < many.least_gain < one.least_gain


def test_nothing_was_missed_where_even_the_middle_is_no_better() -> None:
    best = trial(2, {"workers": 6})
    found = model(trial(1), best)
    assert missed(found, [{"workers": 5}, {"workers": 6}, {"workers": 6, "prefetch_factor": 4}], best) is None


def test_what_does_not_fit_was_not_missed() -> None:
    best = trial(2, {"workers": 2})
    records = (trial(1), best, trial(3, {"workers": 4}))
    failed = replace(a_failure(4, TrialStatus.OUT_OF_RAM, asked={"workers": 4}), settings={**OWN, "workers": 4})
    assert missed(model(*records), [{"workers": 4}], best) is not None
    assert missed(model(*records[:2], failed), [{"workers": 4}, {"workers": 6}], best) is None


def test_a_thousand_predictions_take_no_time() -> None:
    records = [trial(n + 1, {"workers": n % 16, "batch_size": 1 + n % 5}) for n in range(40)]
    many: list[Mapping[str, Scalar]] = [
        {"workers": workers, "batch_size": batch, "prefetch_factor": prefetch}
        for workers in range(25)
        for batch in range(1, 11)
        for prefetch in (1, 2, 4, 8)
    ]
    begun_s = time.process_time()
    found = model(*records).predict_all(many)
    assert len(found) == 1000
    # A tenth of it on an idle machine: all cores of a busy one count together.
    assert time.process_time() - begun_s < 2.0
