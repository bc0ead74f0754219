from __future__ import annotations

from pathlib import Path

import pytest

from support.trial_writer import PID, TrialWriter, replay_loader
from vtune.analysis.measure import Observed, measure
from vtune.analysis.roles import find_roles
from vtune.domain.experiment import PlannedRun
from vtune.domain.record import Measurement
from vtune.journal.step_log import StepLog


def measured(tmp_path: Path, *shapes: tuple[int, ...]) -> Measurement:
    writer = TrialWriter(tmp_path)
    replay_loader(writer, steps=60, workers=1, prefetch=2, load_s=0.1, compute_s=0.5)
    for shape in shapes:
        writer.fact("shape", loader=0, shape=shape)
    # Another loader's, and another process's: not the training's.
    writer.fact("shape", loader=7, shape=(1, 1, 96, 96, 96))
    writer.fact("shape", PID + 1, loader=0, shape=(1, 1, 96, 96, 96))
    log = StepLog(writer.paths)
    log.refresh()
    observed = Observed(
        roles=find_roles(log.steps, log.delivered, log.facts), loaded=log.loaded, delivered=log.delivered,
        facts=log.facts, telemetry=(), started_s=-2.0,
    )  # fmt: skip
    return measure(observed, PlannedRun(), None)


def test_volumes_of_one_size_are_counted_in_voxels_whatever_the_last_batch_holds(tmp_path: Path) -> None:
    found = measured(tmp_path, (2, 3, 16, 32, 64), (1, 3, 16, 32, 64))
    assert found.samples_per_s is not None
    assert found.voxels_per_s == pytest.approx(found.samples_per_s * 16 * 32 * 64)


def test_volumes_of_several_sizes_have_no_known_number_of_voxels(tmp_path: Path) -> None:
    found = measured(tmp_path, (2, 1, 16, 32, 64), (2, 1, 16, 48, 64))
    assert found.voxels_per_s is None and "vary" in found.unknown["voxels_per_s"]


@pytest.mark.parametrize("shapes", [(), ((2, 3, 224, 224),), ((2, 1, 16, 32, 64), (2, 8))])
def test_what_is_not_a_volume_has_no_voxels(tmp_path: Path, shapes: tuple[tuple[int, ...], ...]) -> None:
    assert measured(tmp_path, *shapes).voxels_per_s is None


def test_several_patches_by_sample_count_each(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    writer.begin_pass(workers=0, length=400)
    writer.fact("shape", loader=0, shape=(8, 1, 10, 10, 10))
    for j in range(60):
        writer.record(2, flags=5, index=j, a=j, b=j + 0.5, n1=8, n2=2)
        writer.step(j + 1.0)
    log = StepLog(writer.paths)
    log.refresh()
    observed = Observed(
        roles=find_roles(log.steps, log.delivered, log.facts), loaded=(), delivered=log.delivered, facts=log.facts,
        telemetry=(), started_s=0.0,
    )  # fmt: skip
    found = measure(observed, PlannedRun(), None)
    assert found.samples_per_s == pytest.approx(2.0) and found.voxels_per_s == pytest.approx(8000.0)
