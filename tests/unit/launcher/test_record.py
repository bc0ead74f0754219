"""An attempt of a full run as a line of the journal: with its own rates, in samples of its own batch."""

from __future__ import annotations

from support.studies import a_trial
from vtune.domain.launch import Achieved
from vtune.domain.trial import TrialOutcome, TrialStatus
from vtune.execution.launch_ended import Ended
from vtune.execution.launch_guard import AttemptEnd
from vtune.launcher.record import record_of

DONE = Ended(status=TrialStatus.COMPLETED, detail=None)


def end_of(**achieved: float | int | bool | None) -> AttemptEnd:
    outcome = TrialOutcome(ended_by="itself", exit_code=0, signal=None, seconds=90.0)
    return AttemptEnd(outcome=outcome, verdict=None, achieved=Achieved(**achieved), saved_at_step=None)


def test_it_has_the_rates_and_the_batch_that_ran_and_not_the_trials() -> None:
    trial = a_trial(4, 20.0, batch=2, measured={"effective_settings": {"workers": 1, "accumulate_steps": 1}})
    end = end_of(steps=300, samples_per_s=60.0, samples_per_s_whole=55.0, ram_peak_bytes=2**30)
    record = record_of(
        trial, {"accumulate_steps": 3}, end, DONE, launch=7, batch=6, number=5, evidence={"data": "as it was"}
    )
    measured = record.measurement
    assert (record.origin, record.trial, record.asked) == ("launch", 5, {"accumulate_steps": 3})
    assert (measured.samples_per_s, measured.samples_per_s_whole_run, measured.effective_batch) == (60.0, 55.0, 6)
    assert measured.effective_settings == {"workers": 1, "accumulate_steps": 3}
    assert (record.seconds, measured.ram_peak_bytes, record.evidence) == (90.0, 2**30, {"data": "as it was"})


def test_without_counters_it_has_no_rate() -> None:
    record = record_of(a_trial(4, 20.0), {}, end_of(counters_gone=True), DONE, launch=7, batch=2, number=5, evidence={})
    assert record.measurement.samples_per_s is None and not record.measurement.steady
    assert "an unknown number of steps" in record.diagnosis.verdict
