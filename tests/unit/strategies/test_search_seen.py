"""Which failures put a value under suspicion."""

from dataclasses import replace

from support.studies import a_failure
from vtune.domain.trial import TrialStatus
from vtune.strategies.search_seen import _is_suspicious


def test_a_trial_that_filled_its_disk_space_is_no_fault_of_its_settings() -> None:
    unseen = a_failure(2, TrialStatus.NOT_OBSERVED, asked={"workers": 4})
    assert _is_suspicious(unseen)
    assert not _is_suspicious(replace(unseen, evidence={"ended_by": "disk"}))
