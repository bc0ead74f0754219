"""A complete record, for tests that change one thing in it."""

from __future__ import annotations

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
            bottleneck="data", verdict="data-bound", why=("because",), next=("try --set workers=4",), headroom=5.8
        ),
    )
