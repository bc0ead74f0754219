"""A complete record, for tests that change one thing in it."""

from __future__ import annotations

from dataclasses import replace

from vtune.domain.advice import Advice
from vtune.domain.machine_use import GpuUse, ProcessUse, StageTime
from vtune.domain.record import Diagnosis, Measurement, Projection, StepTimes, TrialRecord
from vtune.domain.trial import TrialStatus


def a_record(*, trial: int = 1, status: TrialStatus = TrialStatus.COMPLETED) -> TrialRecord:
    return TrialRecord(
        trial=trial,
        origin="probe",
        settings={"workers": 2, "batch_size": 2},
        reason="the current settings",
        status=status,
        detail=None,
        seconds=34.1,
        measurement=Measurement(
            samples_per_s=12.31,
            samples_per_s_ci95=(11.9, 12.7),
            steps_measured=60,
            steady=True,
            step_time_s=StepTimes(p10=0.15, p50=0.16, p90=0.19, p99=0.31, mean=0.165),
            data_wait_fraction=0.83,
            compute_samples_per_s=71.0,
            loader_samples_per_s=12.4,
            startup_s=2.0,
            first_batch_s=3.1,
            samples_per_s_whole_run=12.1,
            ram_peak_bytes=3 * 2**30,
            shm_peak_bytes=2**20,
            workers_rss_bytes=(7 * 2**28, 7 * 2**28),
            effective_batch=2,
            samples_per_epoch=4000,
            epoch_bound_by="iterations",
            projected=Projection(epoch_s=325.0, run_s=10400.0, cost=10.6),
            effective_settings={"workers": 2, "batch_size": 2},
        ),
        diagnosis=Diagnosis(
            bottleneck="data",
            verdict="data-bound",
            why=("because",),
            advice=(Advice("try --set workers=4", asks={"workers": 4}),),
            headroom=5.8,
        ),
    )


def a_gpu_record(*, trial: int = 1) -> TrialRecord:
    """As from a machine with a device: every instrument has told something."""
    record = a_record(trial=trial)
    gpu = GpuUse(
        index=0, uuid="GPU-1", name="NVIDIA A100-SXM4-80GB", util_mean=17.2, vram_peak_bytes=72_155_000_000,
        vram_from="driver", vram_total_bytes=85_899_345_920, power_w_mean=91.0, throttled={"heat": 0.25},
        unknown={"energy_j": "Not Supported"},
    )  # fmt: skip
    measurement = replace(
        record.measurement,
        gpus=(gpu,),
        vram_peak_bytes=72_155_000_000,
        vram_allocated_peak_bytes=60_000_000_000,
        vram_reserved_peak_bytes=70_000_000_000,
        alloc_retries=0,
        device_step_s=0.028,
        device_gap_s=0.137,
        stages=(StageTime(stage="forward", host_s=0.002, device_s=0.01, peak_bytes=60_000_000_000),),
        processes=(ProcessUse(role="main", cpu_fraction=0.4), ProcessUse(role="worker 0", files_per_sample=1.5)),
        transfer_fraction=0.01,
        host_fraction=0.02,
        cold_fraction=0.9,
        cache="cold",
        precision={"autocast": "bfloat16"},
    )
    return replace(record, measurement=measurement)
