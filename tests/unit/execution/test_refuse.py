from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.support.records import a_record
from vtune.domain.experiment import Experiment, Workload
from vtune.domain.trial import Proposal, TrialStatus
from vtune.execution.refuse import refusal_of, refused_record
from vtune.journal.records import record_from_json, record_to_json

MIB = 2**20
EXPERIMENT = Experiment(study="s", workload=Workload(command=("python", "train.py"), cwd=Path("/")))
PROPOSAL = Proposal(settings={"workers": 16}, reason="--set", origin="probe")


def history() -> list:
    record = a_record()
    return [replace(record, measurement=replace(record.measurement, batch_bytes=10 * MIB), asked={})]


def test_a_trial_without_room_has_a_record_that_says_what_would_fit_and_is_kept_like_any_other() -> None:
    refusal = refusal_of(EXPERIMENT, PROPOSAL, history(), shm_free_bytes=64 * MIB)
    assert refusal is not None
    record = refused_record(EXPERIMENT, PROPOSAL, 2, refusal)
    assert record.status is TrialStatus.REFUSED and record.trial == 2 and record.asked == {"workers": 16}
    assert "it was not started" in (record.detail or "") and "would fit" in record.diagnosis.next[0]
    assert record.measurement.samples_per_s is None and record.measurement.shm_needed_bytes == refusal.needed_bytes
    assert record_from_json(record_to_json(record)) == record


def test_a_trial_with_room_is_not_refused() -> None:
    assert refusal_of(EXPERIMENT, PROPOSAL, history(), shm_free_bytes=2**40) is None
