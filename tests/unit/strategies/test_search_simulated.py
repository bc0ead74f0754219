"""Searches over simulated trainings with noise, against the truth of long runs."""

import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from support.choices import choose
from support.simulated import SimulatedStudy, limited, simulated_experiment
from vtune.domain.effects import Scalar
from vtune.domain.experiment import KnobBinding, Window
from vtune.execution.engines.simulated.surface import Surface
from vtune.execution.engines.simulated.surfaces import (
    FOUR_CORES,
    LITTLE_RAM,
    SHARED_MACHINE,
    SHORT_EPOCHS,
    SMALL_VOLUMES,
    misspecified,
)
from vtune.execution.engines.simulated.truth import true_whole_run_rate
from vtune.strategies.search import Search

LIMITS = limited(ram=0.6, vram=0.95)
# The best of all settings that fit: workers, times the own batch, in advance, persistent.
BEST: tuple[tuple[Surface, Mapping[str, Scalar]], ...] = (
    (SMALL_VOLUMES, {"workers": 12, "batch_size": 8, "persistent_workers": True}),
    (FOUR_CORES, {"workers": 6, "batch_size": 32, "persistent_workers": True}),
    (SHORT_EPOCHS, {"workers": 16, "batch_size": 8, "persistent_workers": True}),
)


def truth(surface: Surface, settings: Mapping[str, Scalar]) -> float:
    return true_whole_run_rate(surface, settings, batches=400)


def found_after(surface: Surface, seed: int, root: Path, *, trials: int) -> list[Mapping[str, Scalar]]:
    """What a user would be told is best, after each trial."""
    experiment = simulated_experiment(
        surface, limits=LIMITS, window=Window(trial_time_s=1e6, startup_time_s=1e6),
        knobs=(KnobBinding(name="batch_size"),),
    )  # fmt: skip
    study = SimulatedStudy(surface, experiment, root, launch_seed=seed)
    search = Search(experiment=experiment, machine=study.machine, trials=trials, confirm=False)
    history = study.run(search)
    best = [
        choose(
            history[: at + 1], limits=LIMITS, ram_total_bytes=study.machine.ram_bytes, cores=study.machine.cores
        ).best
        for at in range(len(history))
    ]
    return [(one.asked or {}) if one is not None else {} for one in best]


@pytest.mark.slow
@pytest.mark.parametrize(("surface", "best"), BEST, ids=lambda one: getattr(one, "name", ""))
def test_six_trials_come_close_to_the_best_of_all(surface: Surface, best: Mapping[str, Scalar], tmp_path: Path) -> None:
    noisy = replace(surface, noise=SHARED_MACHINE)
    most = truth(surface, best)
    regrets = sorted(
        1 - truth(surface, found_after(noisy, seed, tmp_path / str(seed), trials=6)[-1]) / most for seed in range(3)
    )
    assert regrets[1] < 0.03 and regrets[2] < 0.08


@pytest.mark.slow
def test_with_effects_that_no_model_knows_it_comes_close_all_the_same(tmp_path: Path) -> None:
    surface = misspecified(replace(LITTLE_RAM, noise=SHARED_MACHINE))
    found = found_after(surface, 0, tmp_path, trials=16)
    quiet = misspecified(LITTLE_RAM)
    grid = itertools.product((2, 4), (2, 4, 8), (2, 4, 8), (False, True))
    names = ("workers", "batch_size", "prefetch_factor", "persistent_workers")
    most = max(truth(quiet, dict(zip(names, values, strict=True))) for values in grid)
    assert truth(quiet, found[-1]) > 0.9 * most
