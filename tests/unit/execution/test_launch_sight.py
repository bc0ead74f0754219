"""What the guard of a full run foresees: the training's files are written by hand, the driver's answers are told."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.counters import write_counts
from support.told_driver import told_driver
from support.trial_writer import TrialWriter
from vtune.execution.launch_sight import LaunchSight, MemoryLimits
from vtune.journal.paths import TrialPaths
from vtune.telemetry.gpus import GpuSampler

MIB, GIB = 2**20, 2**30
NO_PROCESSES = SimpleNamespace(own_pids=(), pids=lambda: ())


@pytest.fixture
def devices() -> GpuSampler:
    """Asks no driver before a test enters it."""
    return GpuSampler()


@pytest.fixture
def watch(tmp_path: Path, devices: GpuSampler) -> Iterator[LaunchSight]:
    with open(tmp_path / "telemetry.jsonl", "ab", buffering=0) as file:
        yield LaunchSight(TrialPaths(tmp_path), NO_PROCESSES, devices, file, 0.0)


@pytest.mark.parametrize("grows", ["shm", "vram"])
def test_memory_that_will_not_last_to_the_planned_end_is_foreseen_whichever_it_is(
    watch: LaunchSight, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grows: str
) -> None:
    training, held = TrialWriter(tmp_path), {"shm": GIB, "vram": GIB}
    monkeypatch.setattr(
        os, "statvfs", lambda path: SimpleNamespace(f_frsize=1, f_blocks=64 * GIB, f_bfree=64 * GIB - held["shm"])
    )
    limits = MemoryLimits(shm_bytes=2 * GIB, vram_bytes=2 * GIB, steps_at_end=100_000)
    for second in range(60):
        held[grows] += 10 * MIB
        write_counts(tmp_path, float(second), 10 * second)
        training.fact("memory", t=float(second), reserved=held["vram"])
        watch.look(float(second))
        if (found := watch.breach(limits, float(second))) is not None:
            break
    assert found is not None and (found.what, found.limit_bytes) == (grows, 2 * GIB)
    assert found.imminent and found.bytes_per_s == pytest.approx(10 * MIB, rel=0.1)
    # Half of the way from the start to the limit is seen first, and the rest is there to save.
    assert 45.0 < second < 60.0


def test_memory_that_fills_fast_is_looked_at_more_often_and_the_counters_are_not(
    watch: LaunchSight, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = GIB
    monkeypatch.setattr(
        os, "statvfs", lambda path: SimpleNamespace(f_frsize=1, f_blocks=64 * GIB, f_bfree=64 * GIB - held)
    )
    limits, looks = MemoryLimits(shm_bytes=2 * GIB), []
    for quarter in range(80):
        at_s = quarter / 4
        held += 10 * MIB if at_s >= 10 else 0
        write_counts(tmp_path, at_s, 10 + quarter)
        if watch.look(at_s):
            watch.breach(limits, at_s)
            looks.append((at_s, watch.progress.steps))
    assert [at_s for at_s, _ in looks if at_s < 10] == [float(second) for second in range(10)]
    assert [at_s for at_s, _ in looks if at_s >= 12] == [12 + quarter / 4 for quarter in range(32)]
    assert len({steps for at_s, steps in looks if at_s >= 12}) <= 9


def test_a_share_of_the_vram_is_a_limit_of_so_many_bytes_of_the_device(
    watch: LaunchSight, devices: GpuSampler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told_driver(monkeypatch, total_bytes=8 * GIB)
    TrialWriter(tmp_path).fact("memory", reserved=5 * GIB)
    with devices:
        watch.look(0.0)
    assert watch.over_vram(MemoryLimits(vram_share=0.5)) == (5 * GIB, 4 * GIB)
    assert watch.over_vram(MemoryLimits(vram_share=0.75)) is None
    assert watch.over_vram(MemoryLimits()) is None
