"""The exit code of a command that ran one trial."""

from dataclasses import replace

import pytest

from support.records import a_record
from vtune.cli import exits
from vtune.domain.trial import TrialStatus


@pytest.mark.parametrize(
    ("status", "by_itself", "by_disk"),
    [
        (TrialStatus.COMPLETED, exits.DONE, exits.NOT_FEASIBLE),
        (TrialStatus.TOO_SHORT, exits.TRAINING_FAILED, exits.NOT_FEASIBLE),
        (TrialStatus.NOT_OBSERVED, exits.TRAINING_FAILED, exits.NOT_FEASIBLE),
        (TrialStatus.DIVERGED, exits.TRAINING_FAILED, exits.TRAINING_FAILED),
        (TrialStatus.OUT_OF_RAM, exits.NOT_FEASIBLE, exits.NOT_FEASIBLE),
        (TrialStatus.INTERRUPTED, exits.INTERRUPTED, exits.INTERRUPTED),
    ],
)
def test_a_trial_that_filled_its_disk_space_was_over_a_limit(status: TrialStatus, by_itself: int, by_disk: int) -> None:
    record = a_record(status=status)
    assert exits.exit_code_of_trial(replace(record, evidence={"ended_by": "itself"})) == by_itself
    assert exits.exit_code_of_trial(replace(record, evidence={"ended_by": "disk"})) == by_disk
