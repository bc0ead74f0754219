"""From what a training told of its device to the record's numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.trial_writer import PID, TrialWriter
from vtune.analysis.device import with_device
from vtune.analysis.measure import Observed, measure
from vtune.analysis.roles import Roles, find_roles
from vtune.analysis.window import step_windows
from vtune.domain.experiment import PlannedRun
from vtune.domain.machine_use import GpuUse
from vtune.domain.record import Measurement
from vtune.journal.step_log import StepLog

UUID = "00000000-0000-0000-0000-00000000000a"
GIB = 2**30
BEGIN, TRANSFER, FORWARD, LOSS, BACKWARD, STEP = range(6)


class DeviceWriter(TrialWriter):
    """Also what the hooks say of a device; a step lasts for a second."""

    def train(
        self, steps: int = 30, *, wait: float = 0.1, busy: float = 0.5, gap: float = 0.5, optimizer: int = 0
    ) -> None:
        self.hello()
        self.loader()
        self.begin_pass(workers=0)
        self.fact("device", device=0, type="cuda", uuid=UUID)
        for number in range(steps):
            self.deliver(number, number + wait, number)
            self.step(number + 1.0)
            self.device_step(number + 1, busy, gap, optimizer)

    def device_step(self, number: int, busy: float, gap: float, optimizer: int = 0, pid: int = PID) -> None:
        self.record(5, pid, index=number, a=busy, b=number + 0.5, c=gap, n1=optimizer)

    def sample(self, number: int, *marks: tuple[int, float, float], peak: int | None = None) -> None:
        for stage, host_s, device_s in marks:
            flags, low, high = (1, 0, 0) if peak is None else (3, peak & 0xFFFFFFFF, peak >> 32)
            self.record(6, PID, flags, 1, stage, number, host_s, number, device_s, low, high)


def log_of(writer: TrialWriter) -> StepLog:
    log = StepLog(writer.paths)
    log.refresh()
    return log


def numbers(writer: TrialWriter, *gpus: GpuUse) -> Measurement:
    log = log_of(writer)
    roles = find_roles(log.steps, log.delivered, log.facts)
    assert roles is not None
    return with_device(
        Measurement(gpus=gpus),
        device_steps=log.device_steps, stages=log.stages, facts=log.facts, roles=roles, regular=step_windows(roles)[2:],
    )  # fmt: skip


def gpu(util: float | None, **more: Any) -> GpuUse:
    return GpuUse(index=3, uuid=f"GPU-{UUID.upper()}", util_mean=util, **more)


def test_step_and_gap_are_means_of_the_window_alone(tmp_path: Path) -> None:
    writer = DeviceWriter(tmp_path)
    writer.train(10, busy=0.5, gap=0.25)
    writer.device_step(1, 99.0, 99.0)  # the warm-up
    writer.device_step(5, 99.0, 99.0, pid=PID + 1)
    writer.device_step(5, 99.0, 99.0, optimizer=1)
    found = numbers(writer)
    assert (found.device_step_s, found.device_gap_s) == (0.5, 0.25)


def test_a_step_whose_gap_is_unknown_still_counts_as_a_step(tmp_path: Path) -> None:
    writer = DeviceWriter(tmp_path)
    writer.train(10, busy=0.5, gap=-1.0)
    found = numbers(writer, gpu(50.0))
    assert (found.device_step_s, found.device_gap_s, found.host_fraction) == (0.5, None, None)


def test_the_steps_of_the_optimizer_that_ends_an_iteration_stand_for_the_primary_ones(tmp_path: Path) -> None:
    writer = DeviceWriter(tmp_path)
    writer.train(10, busy=0.5, gap=0.25, optimizer=1)
    assert numbers(writer).device_step_s == 0.5


@pytest.mark.parametrize(
    ("wait", "gap", "util", "host"),
    [
        # The device idles for 0.5 of each second, in 0.1 of which the training waited for its data.
        (0.1, 0.3, 50.0, 0.4),
        # The wait is longer than the gap: the device was still at work in its first part.
        (0.6, 0.5, 50.0, 0.0),
        (0.6, 0.2, 50.0, 0.3),
        # It idles less than what the events call a gap: kernels after the step were at work there.
        (0.0, 0.3, 90.0, 0.1),
        # Without the driver's word, only what lies between the steps is proven, and little is not worth saying.
        (0.1, 0.3, None, 0.2),
        (0.1, 0.12, None, None),
    ],
)
def test_idle_time_is_the_hosts_unless_the_training_waited_for_data(
    tmp_path: Path, wait: float, gap: float, util: float | None, host: float | None
) -> None:
    writer = DeviceWriter(tmp_path)
    writer.train(20, wait=wait, gap=gap, busy=1 - gap)
    assert numbers(writer, gpu(util)).host_fraction == (None if host is None else pytest.approx(host, abs=1e-6))


def test_the_way_of_a_batch_to_the_device_is_taken_out_of_the_hosts_share(tmp_path: Path) -> None:
    writer = DeviceWriter(tmp_path)
    writer.train(20, wait=0.1, gap=0.1, busy=0.9)
    marks = [
        (BEGIN, 5.1, 0.0),
        (TRANSFER, 5.2, 0.15),
        (FORWARD, 5.3, 0.4),
        (LOSS, 5.3, 0.5),
        (BACKWARD, 5.4, 0.8),
        (STEP, 5.9, 0.9),
    ]
    writer.sample(6, *marks, peak=5 * GIB)
    found = numbers(writer, gpu(60.0))
    assert found.transfer_fraction == pytest.approx(0.15)
    assert found.host_fraction == pytest.approx(0.4 - 0.1 - 0.15)
    assert [(s.stage, s.peak_bytes) for s in found.stages] == [
        (stage, 5 * GIB) for stage in ("transfer", "forward", "loss", "backward", "step")
    ]
    # More than the device idled at all: the copies ran beside kernels.
    assert numbers(writer, gpu(80.0)).transfer_fraction == pytest.approx(0.1)


@pytest.mark.parametrize(
    "gpus",
    [
        (),
        (gpu(None),),
        (gpu(40.0, others_util_mean=30.0),),
        (gpu(40.0, others_peak_bytes=4 * GIB),),
        (replace(gpu(40.0), uuid="GPU-another"),),
    ],
)
def test_a_utilization_that_is_not_the_trainings_alone_is_not_used(tmp_path: Path, gpus: tuple[GpuUse, ...]) -> None:
    writer = DeviceWriter(tmp_path)
    writer.train(20, wait=0.0, gap=0.01, busy=0.99)
    assert numbers(writer, *gpus).host_fraction is None
    assert numbers(writer, gpu(40.0, others_util_mean=0.5, others_peak_bytes=GIB)).host_fraction == pytest.approx(0.6)


def test_batches_that_come_from_another_thread_leave_the_hosts_share_unknown(tmp_path: Path) -> None:
    writer = DeviceWriter(tmp_path)
    writer.hello()
    writer.loader()
    writer.begin_pass(workers=0)
    for number in range(20):
        writer.deliver(number, number + 0.1, number, flags=4)
        writer.step(number + 1.0)
        writer.device_step(number + 1, 0.5, 0.5)
    found = numbers(writer, gpu(50.0))
    assert found.device_step_s == 0.5 and found.host_fraction is None


def test_the_micro_batches_of_a_step_are_added_up_and_the_wait_between_them_is_no_stage(tmp_path: Path) -> None:
    writer = DeviceWriter(tmp_path)
    writer.train(10)
    first = [
        (BEGIN, 5.0, 0.0),
        (TRANSFER, 5.01, 0.01),
        (FORWARD, 5.02, 0.03),
        (LOSS, 5.03, 0.04),
        (BACKWARD, 5.04, 0.09),
    ]
    again = [
        (BEGIN, 5.5, 0.5),
        (TRANSFER, 5.51, 0.51),
        (FORWARD, 5.52, 0.53),
        (LOSS, 5.53, 0.54),
        (BACKWARD, 5.54, 0.59),
        (STEP, 5.56, 0.60),
    ]
    writer.sample(6, *first, *again)
    writer.sample(7, *first)  # the training ended within it
    found = {one.stage: one for one in numbers(writer).stages}
    assert found["backward"].device_s == pytest.approx(0.10)
    assert found["transfer"].host_s == pytest.approx(0.02)
    assert sum(one.device_s or 0.0 for one in found.values()) == pytest.approx(0.19)


def test_without_a_device_stages_have_host_times_only(tmp_path: Path) -> None:
    writer = DeviceWriter(tmp_path)
    writer.train(10)
    for stage in range(6):
        writer.record(6, PID, 1, 0, stage, 6, 5.0 + stage / 10, 6.0, -1.0)
    assert next((one.stage, one.device_s, one.peak_bytes) for one in numbers(writer).stages) == ("prepare", None, None)
    assert numbers(writer).stages[1].host_s == pytest.approx(0.1)
    assert numbers(writer).transfer_fraction is None


def test_retries_of_the_warm_up_are_not_blamed_on_the_window(tmp_path: Path) -> None:
    writer = DeviceWriter(tmp_path)
    writer.train(20)
    for t, retries in ((0.5, 0), (1.9, 4), (3.0, 4), (9.0, 6), (20.0, 7)):
        writer.fact("memory", t=t, device=0, retries=retries, allocated_peak=GIB, reserved_peak=2 * GIB)
    assert numbers(writer).alloc_retries == 3


def test_the_largest_peak_of_one_process_on_one_device_counts_also_before_the_first_step(tmp_path: Path) -> None:
    writer = DeviceWriter(tmp_path)
    writer.fact("memory", device=0, allocated_peak=3 * GIB, reserved_peak=4 * GIB)
    writer.fact("memory", device=1, allocated_peak=2 * GIB, reserved_peak=5 * GIB)
    log = log_of(writer)
    observed = Observed(
        roles=None, loaded=(), delivered=(), facts=log.facts, telemetry=(), started_s=0.0, device_steps=(), stages=()
    )
    found = measure(observed, PlannedRun(), None)
    assert (found.vram_allocated_peak_bytes, found.vram_reserved_peak_bytes) == (3 * GIB, 5 * GIB)


def test_what_was_told_last_of_scaler_and_precision_stands_in_the_record(tmp_path: Path) -> None:
    writer = DeviceWriter(tmp_path)
    writer.train(10)
    found = numbers(writer)
    assert (found.skipped_steps, found.alloc_retries, found.precision) == (None, None, {})
    for skipped in (0, 2):
        writer.fact("scaler", skipped=skipped)
    writer.fact("precision", autocast=True, autocast_dtype="bfloat16", tf32_matmul=None, matmul="high")
    found = numbers(writer)
    assert found.skipped_steps == 2
    assert found.precision == {"autocast": True, "autocast_dtype": "bfloat16", "matmul": "high"}
    writer.fact("scaler", skipped=None)
    assert numbers(writer).skipped_steps is None


def test_no_device_leaves_everything_unknown(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    for number in range(5):
        writer.step(number + 1.0)
    log = log_of(writer)
    roles: Roles | None = find_roles(log.steps, log.delivered, log.facts)
    assert roles is not None
    before = Measurement()
    assert (
        with_device(before, device_steps=(), stages=(), facts=log.facts, roles=roles, regular=step_windows(roles))
        == before
    )
