"""Predictions against measurements, checked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.studies import a_failure, a_trial
from vtune.analysis.search.foretold import at_most, foretold
from vtune.domain.prediction import Prediction
from vtune.domain.record import TrialRecord
from vtune.domain.trial import RaceLeg, TrialStatus


def told(trial: int, measured: float, predicted: float, **fields: object) -> TrialRecord:
    """Predicted to a tenth either way."""
    prediction = Prediction(
        samples_per_s=predicted, samples_per_s_ci95=(predicted * 0.9, predicted * 1.1),
        ram_bytes=1000, ram_ci95=(900, 1100),
    )  # fmt: skip
    record = a_trial(trial, measured, whole=False, measured={"ram_peak_bytes": 1050})
    return replace(record, predicted=prediction, **fields)


def test_the_chance_of_many_predictions_is_a_number_like_any_other() -> None:
    assert at_most(4, 6, 0.95) == pytest.approx(0.0328, abs=1e-4)
    assert 0.0 <= at_most(4700, 5000, 0.95) <= 1.0


def test_it_counts_what_came_inside_and_by_how_much_it_was_off() -> None:
    records = [a_trial(1, 10.0), told(2, 21.0, 20.0), told(3, 30.0, 40.0), told(4, 44.0, 40.0)]
    found = foretold(records, "samples_per_s")
    assert [one.trial for one in found.trials] == [2, 3, 4]
    # 1.05, 0.75 and 1.1 of what was predicted; the last lies on the end of its interval.
    assert [one.ratio for one in found.trials] == pytest.approx([1.05, 0.75, 1.1])
    assert [one.inside for one in found.trials] == [True, False, True]
    assert found.rates == (2, 3) and found.ram == (3, 3) and found.vram == (0, 0)
    assert found.off == pytest.approx(1.1)


def test_a_model_is_wrong_where_so_few_inside_are_no_bad_luck() -> None:
    # 0.05, 2 × 0.95 × 0.05 + 0.05², 0.05².
    assert [at_most(0, 1, 0.95), at_most(1, 2, 0.95), at_most(0, 2, 0.95)] == pytest.approx([0.05, 0.0975, 0.0025])
    one_off, two_off = [told(2, 30.0, 40.0)], [told(2, 30.0, 40.0), told(3, 30.0, 40.0)]
    assert not foretold(one_off, "samples_per_s").wrong
    assert foretold(two_off, "samples_per_s").wrong
    good = [told(number, 20.0, 20.0) for number in range(4, 24)]
    assert not foretold([*two_off, *good], "samples_per_s").wrong
    assert not foretold([], None).wrong and foretold([], None).off is None


def test_a_failure_has_no_rate_to_compare_and_a_race_or_what_was_interrupted_is_not_foretold() -> None:
    cut = told(4, 20.0, 20.0, status=TrialStatus.INTERRUPTED)
    failed = replace(a_failure(2, TrialStatus.OUT_OF_RAM), predicted=told(1, 1.0, 20.0).predicted)
    leg = told(3, 20.0, 20.0, race=RaceLeg(id="r", round=1, contestant=1, contestants=2, rounds=8))
    found = foretold([failed, leg, cut], "samples_per_s")
    assert [(one.trial, one.samples_per_s, one.inside) for one in found.trials] == [(2, None, None)]
    assert found.rates == (0, 0) and not found.wrong
