"""What a launch is refused for: what was measured no longer stands, or there is no room for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from support.records import a_gpu_record
from support.studies import a_failure, a_trial
from support.told_driver import UUID, told_driver
from vtune.domain.trial import TrialStatus
from vtune.launcher.checks import NoRoom, Stale, check_room, check_stale
from vtune.launcher.plan import PlannedLaunch
from vtune.telemetry.machine import this_machine

Plan = Callable[..., PlannedLaunch]
GIB, MORE_THAN_THERE_IS = 2**30, 2**60


def test_settings_that_ran_out_of_memory_since_their_trial_no_longer_stand(plan: Plan) -> None:
    settings = {"workers": 4}
    failures = [
        a_failure(2, asked=settings),
        a_failure(3, TrialStatus.OUT_OF_RAM, "RAM grew to 9 GiB", asked=settings),
        a_failure(4, TrialStatus.OUT_OF_RAM, "RAM grew to 12 GiB", asked={"workers": 8}),
    ]
    with pytest.raises(Stale, match=r"for this run: the same settings failed since, in trial 3: RAM grew to 9 GiB$"):
        check_stale(plan(a_trial(1, 20.0, asked=settings), *failures), this_machine())


@pytest.mark.parametrize(
    ("measured", "lacks"),
    [
        ({"shm_needed_bytes": MORE_THAN_THERE_IS}, "of /dev/shm"),
        ({"disk_bytes_per_epoch": MORE_THAN_THERE_IS}, "its checkpoints come to"),
    ],
)
def test_what_needs_more_than_is_free_is_refused(plan: Plan, measured: dict[str, Any], lacks: str) -> None:
    needs = {"ram_peak_bytes": 2**20, "shm_needed_bytes": 2**20, **measured}
    with pytest.raises(NoRoom, match=lacks):
        check_room(plan(a_trial(1, 20.0, measured=needs)), this_machine())


def test_what_needs_more_than_its_gpu_has_left_is_refused(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = replace(this_machine(), gpus=("NVIDIA A100",))
    told_driver(monkeypatch, total_bytes=80 * GIB).used_bytes = 60 * GIB
    [gpu] = a_gpu_record().measurement.gpus
    needs = {"ram_peak_bytes": 2**20, "gpus": (replace(gpu, uuid=UUID, vram_peak_bytes=30 * GIB),)}
    with pytest.raises(NoRoom, match="it needs 30 GiB on GPU 0, 20 GiB are free"):
        check_room(plan(a_trial(1, 20.0, measured=needs)), machine)
