"""Predictions of settings that were not tried, held against long simulated runs that share no formula with the model.

Few settings and surfaces; `benchmarks/truth/model.py` has all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from support.simulated import SimulatedStudy, simulated_experiment
from vtune.analysis.model.fit import fit_model
from vtune.analysis.model.predict import Model
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Limits
from vtune.domain.trial import Proposal, TrialStatus
from vtune.execution.engines.simulated.engine import machine_of
from vtune.execution.engines.simulated.surface import Surface
from vtune.execution.engines.simulated.surfaces import (
    DEVICE_BOUND,
    FOUR_CORES,
    LITTLE_RAM,
    SCROLLS,
    SMALL_VOLUMES,
    misspecified,
)
from vtune.execution.engines.simulated.truth import true_whole_run_rate

Settings = Mapping[str, Scalar]
# As the surface's own, or a multiple of its batch.
GRID: tuple[tuple[int, int, int], ...] = ((1, 2, 1), (4, 1, 2), (6, 2, 1), (8, 4, 4), (12, 2, 2), (4, 4, 4))


def settings_of(surface: Surface, workers: int, prefetch: int, times: int) -> Settings:
    own = surface.settings["batch_size"]
    assert isinstance(own, int)
    return {"workers": workers, "prefetch_factor": prefetch, "batch_size": times * own}


@dataclass(frozen=True)
class Held:
    # Predicted over true, as logarithms; and whether the truth is in the interval.
    errors: np.ndarray
    covered: np.ndarray
    truths: list[float]
    rates: list[float]


def fitted(surface: Surface, trials: Sequence[Settings], root: Path) -> Model:
    study = SimulatedStudy(surface, simulated_experiment(surface), root)
    records = []
    for asked in trials:
        reason = "the current settings" if not asked else "a trial"
        records.append(study.measure(Proposal(settings=asked, reason=reason, origin="probe"), records))
    assert all(record.status is TrialStatus.COMPLETED for record in records)
    model = fit_model(records, cores=machine_of(surface).cores, ram_total_bytes=machine_of(surface).ram_bytes)
    assert model is not None
    return model


def held_against_the_truth(surface: Surface, trials: Sequence[Settings], root: Path) -> Held:
    # A trial that is over before its first epoch has no way to tell of a validation.
    surface = replace(surface, validation_s=0.0)
    model = fitted(surface, trials, root)
    grid = [settings_of(surface, *point) for point in GRID]
    found = [one for one in model.predict_all(grid) if one is not None]
    truths = [true_whole_run_rate(surface, asked, batches=1500) for asked in grid]
    return Held(
        errors=np.log([one.samples_per_s / truth for one, truth in zip(found, truths, strict=True)]),
        covered=np.array(
            [
                low <= truth <= high
                for (low, high), truth in zip((o.samples_per_s_ci95 for o in found), truths, strict=True)
            ]
        ),
        truths=truths,
        rates=[one.samples_per_s for one in found],
    )


@pytest.mark.parametrize(
    "surface",
    [SMALL_VOLUMES, *(pytest.param(one, marks=pytest.mark.slow) for one in (SCROLLS, FOUR_CORES))],
    ids=lambda surface: surface.name,
)
def test_two_trials_tell_the_rates_of_others(surface: Surface, tmp_path: Path) -> None:
    held = held_against_the_truth(surface, [{}, settings_of(surface, 4, 2, 2)], tmp_path)
    assert np.median(np.abs(held.errors)) < 0.06
    assert np.abs(held.errors).max() < 0.35
    assert held.covered.sum() >= len(GRID) - 1
    pick = int(np.argmax(held.rates))
    assert held.truths[pick] > 0.9 * max(held.truths)


@pytest.mark.parametrize(
    "surface", [DEVICE_BOUND, pytest.param(LITTLE_RAM, marks=pytest.mark.slow)], ids=lambda surface: surface.name
)
def test_the_users_own_trial_alone_is_honest_about_the_rest(surface: Surface, tmp_path: Path) -> None:
    held = held_against_the_truth(surface, [{}], tmp_path)
    assert held.covered.sum() >= len(GRID) - 1


def test_where_no_model_is_right_the_interval_is_seldom_far_off(tmp_path: Path) -> None:
    surface = misspecified(SMALL_VOLUMES)
    held = held_against_the_truth(surface, [{}, settings_of(surface, 4, 2, 2), settings_of(surface, 8, 2, 2)], tmp_path)
    assert np.median(np.abs(held.errors)) < 0.12
    assert held.covered.sum() >= len(GRID) // 2


def test_a_device_that_a_batch_does_not_fit_on_is_known_from_two_others(tmp_path: Path) -> None:
    model = fitted(SMALL_VOLUMES, [{}, settings_of(SMALL_VOLUMES, 4, 2, 2)], tmp_path)
    assert model.surely_too_big({"batch_size": 8}, Limits()) is None  # 23 of 40 GiB
    assert not model.fits({"batch_size": 16}, Limits())  # 43
    assert model.surely_too_big({"batch_size": 32}, Limits()) is not None  # 83
