"""Plans walked over simulated trainings, against the truth of long runs: how much they win, and what they leave."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from search.trainings import ITS_LIMITS, REHEARSAL
from support.simulated import SimulatedStudy, simulated_experiment
from vtune.analysis.model.fit import fit_model
from vtune.analysis.rungs import ruled_out
from vtune.config.plan_file import load_plan
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment, Limit, Limits, Window
from vtune.domain.phases import AskedPhases, Walk
from vtune.domain.record import TrialRecord
from vtune.execution.engines.simulated.surface import SampleCost, StepCost, Surface
from vtune.execution.engines.simulated.surfaces import FOUR_CORES, ONE_LOCK, SCROLLS, SHORT_EPOCHS, SMALL_VOLUMES
from vtune.execution.engines.simulated.truth import true_whole_run_rate
from vtune.strategies.phases import Phases

BATCHES = 1500


def walked(
    surface: Surface, plan: str, tmp_path: Path, *, limits: Limits | None = None, **fields: Any
) -> tuple[Walk, list[TrialRecord], Experiment]:
    window = Window(trial_time_s=1e6, startup_time_s=1e6)
    experiment = simulated_experiment(surface, limits=limits, window=window)
    study = SimulatedStudy(surface, experiment, tmp_path)
    phases = Phases(AskedPhases(plan=load_plan(plan), **fields), experiment, study.machine)
    history = study.run(phases)
    return phases.walk(history), history, experiment


def truth(surface: Surface, settings: Mapping[str, Scalar]) -> float:
    return true_whole_run_rate(surface, settings, batches=BATCHES)


@pytest.mark.slow
def test_the_ladder_up_to_persistent_workers_makes_the_rehearsal_six_times_as_fast(tmp_path: Path) -> None:
    walk, history, _ = walked(REHEARSAL, "ladder", tmp_path, limits=ITS_LIMITS, up_to=4)
    assert walk.best is not None and ruled_out(walk.best, ITS_LIMITS, None) is None
    gain = truth(REHEARSAL, walk.settings) / truth(REHEARSAL, {})
    assert gain > 6
    # What is said of it is true of it.
    assert walk.baseline is not None
    rates = [one.measurement.samples_per_s_whole_run for one in (walk.best, walk.baseline)]
    assert rates[0] is not None and rates[1] is not None
    assert rates[0] / rates[1] == pytest.approx(gain, rel=0.1)
    assert len(history) <= 12


@pytest.mark.slow
def test_guided_comes_within_three_percent_of_brute_force_on_the_rehearsal(tmp_path: Path) -> None:
    walk, history, _ = walked(REHEARSAL, "guided", tmp_path, limits=ITS_LIMITS)
    # All that fits: 8 workers are over the limit of RAM, a batch of 4 is over that of the device.
    grid = itertools.product((1, 2, 4, 6), (1, 2), (1, 2, 4), (False, True))
    names = ("workers", "batch_size", "prefetch_factor", "persistent_workers")
    best = max(truth(REHEARSAL, dict(zip(names, values, strict=True))) for values in grid)
    assert truth(REHEARSAL, walk.settings) > 0.97 * best
    assert walk.best is not None and ruled_out(walk.best, ITS_LIMITS, None) is None
    # One of them is the best of the user's own effective batch, beside the winner's.
    assert len([record for record in history if record.race is None]) <= 11


# The best of some 50 to 100 settings under the limits, each by a long run.
BY_BRUTE_FORCE: tuple[tuple[Surface, Mapping[str, Scalar]], ...] = (
    (SCROLLS, {"workers": 12, "batch_size": 2, "prefetch_factor": 4}),
    (SMALL_VOLUMES, {"workers": 12, "batch_size": 8, "prefetch_factor": 2, "persistent_workers": True}),
    (FOUR_CORES, {"workers": 6, "batch_size": 32, "prefetch_factor": 2, "persistent_workers": True}),
    (SHORT_EPOCHS, {"workers": 16, "batch_size": 8, "prefetch_factor": 2, "persistent_workers": True}),
)


@pytest.mark.slow
@pytest.mark.parametrize(("surface", "best"), BY_BRUTE_FORCE, ids=lambda one: getattr(one, "name", ""))
def test_guided_finds_what_knobs_bring_together(surface: Surface, best: Mapping[str, Scalar], tmp_path: Path) -> None:
    """A batch that wins nothing while one worker feeds it, workers that only fit beside a smaller batch."""
    limits = Limits(ram=Limit(fraction=0.6, text="60%"), vram=Limit(fraction=0.95, text="95%"))
    walk, history, _ = walked(surface, "guided", tmp_path, limits=limits)
    assert truth(surface, walk.settings) > 0.95 * truth(surface, best)
    assert walk.best is not None and walk.best.trial in walk.trials
    assert sum(record.status.value.startswith("out_of") for record in history) <= 2


NOTHING_TO_GAIN = Surface(
    name="nothing-to-gain",
    seed=31,
    sample=SampleCost(cpu_s=0.004, cv=0.2, batch_bytes=1e5),
    step=StepCost(sample_s=0.02, cv=0.1),
    settings={"workers": 2, "prefetch_factor": 2, "batch_size": 4, "persistent_workers": False},
    samples_per_epoch=6000,
    epochs=20,
)


def test_nothing_to_gain_is_said_within_three_trials(tmp_path: Path) -> None:
    walk, history, _ = walked(NOTHING_TO_GAIN, "ladder", tmp_path, up_to=4)
    assert len(history) <= 3 and dict(walk.settings) == {} and walk.stage == "done"
    loading = [rung for outcome in walk.phases if outcome.phase.knob != "batch_size" for rung in outcome.rungs]
    assert {rung.state for rung in loading} == {"skipped"}
    assert "is to be had" in loading[0].why


@pytest.mark.slow
def test_a_lock_around_the_loading_is_no_reason_for_a_false_gain(tmp_path: Path) -> None:
    walk, _, _ = walked(ONE_LOCK, "ladder", tmp_path)
    assert dict(walk.settings) == {} and walk.best is not None and walk.best.asked == {}


@pytest.mark.slow
def test_each_rung_was_foretold_and_most_of_them_rightly(tmp_path: Path) -> None:
    _, history, _ = walked(SMALL_VOLUMES, "ladder", tmp_path, up_to=4, confirm=False)
    told = [record for record in history if record.predicted is not None]
    assert len(told) >= len(history) - 1
    inside = 0
    for record in told:
        measured, predicted = record.measurement.samples_per_s_whole_run, record.predicted
        assert measured is not None and predicted is not None
        inside += predicted.samples_per_s_ci95[0] <= measured <= predicted.samples_per_s_ci95[1]
    assert inside >= 0.6 * len(told)


@pytest.mark.slow
def test_options_are_predicted_from_what_the_phases_learnt(tmp_path: Path) -> None:
    walk, history, _ = walked(SCROLLS, "ladder", tmp_path, up_to=2, confirm=False)
    assert [option.option.name for option in walk.options] == ["A", "B", "C"]
    model = fit_model(history, cores=12, ram_total_bytes=SCROLLS.box.ram_bytes)
    assert model is not None
    for option in walk.options:
        assert option.predicted == model.predict(option.settings) and option.trial is None
        true = truth(SCROLLS, option.settings)
        assert option.predicted is not None and option.predicted.samples_per_s == pytest.approx(true, rel=0.15)
