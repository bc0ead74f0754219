"""Trials beside other programs: what they may have lost, and what is still shown."""

import math
from dataclasses import replace

import pytest

from support.choices import choose
from support.studies import a_trial
from vtune.analysis.comparable import lost_of
from vtune.analysis.compare import lost_to_others
from vtune.domain.choice import Choice
from vtune.domain.machine_use import ProcessUse
from vtune.domain.record import TrialRecord

BASELINE = a_trial(1, 10.0)
FOUR = {"workers": 4}


def reasons(choice: Choice) -> dict[int, str]:
    return {lost.trial: lost.reason for lost in choice.lost}


def best(choice: Choice) -> int | None:
    return choice.best.trial if choice.best else None


def test_on_a_full_machine_whatever_others_had_may_have_been_wanted() -> None:
    assert math.exp(lost_to_others(0.69, full=True)) == pytest.approx(1 / 0.31)
    assert math.exp(lost_to_others(1.0, full=True)) == pytest.approx(20) and lost_to_others(0.0, full=True) == 0
    # 0.62 of 2 cores were the training's own, 1.38 others'; on 4 cores there was room for both.
    busy = a_trial(2, 5.1, asked=FOUR, measured={"others_cores": 1.38, "tree_cores": 0.62})
    full, roomy = (choose([BASELINE, busy], cores=cores) for cores in (2.0, 4.0))
    assert reasons(full) == {2: "tie"} and reasons(roomy) == {2: "slower"}
    assert any("1.4 of 2 cores" in line and "3.2× as high" in line for line in full.remarks)
    # Of a disturbed baseline nothing is known to be a gain, and a winner in spite of its neighbours remains one.
    slow = a_trial(1, 5.1, measured={"others_cores": 1.38, "tree_cores": 0.62})
    assert best(choose([slow, a_trial(2, 10.0, asked=FOUR)], cores=2.0)) == 1
    won = a_trial(2, 11.5, asked=FOUR, measured={"others_cores": 1.38, "tree_cores": 0.62})
    assert best(choose([BASELINE, won], cores=2.0)) == 2


def beside_others(*processes: ProcessUse, tree_cores: float) -> TrialRecord:
    return a_trial(1, 10.0, measured={"others_cores": 1.8, "tree_cores": tree_cores, "processes": processes})


def test_what_neighbours_took_is_no_more_than_the_training_stood_in_line_and_was_slowed() -> None:
    """On full cores, one that only waits loses a few percent at most; one that computes may have lost much."""
    waits = beside_others(
        ProcessUse(role="main", cpu_fraction=0.034, queued_fraction=0.009),
        ProcessUse(role="worker 0", cpu_fraction=0.010, queued_fraction=0.004),
        tree_cores=0.106,
    )
    computes = beside_others(
        ProcessUse(role="main", cpu_fraction=0.5, queued_fraction=0.45),
        ProcessUse(role="worker 0", cpu_fraction=0.5, queued_fraction=0.45),
        tree_cores=0.2,
    )
    assert 0.01 < lost_of(waits, 2) < 0.08
    assert lost_of(computes, 2) > 2
    # Without the counts of one of them, all that may have been taken counts.
    unknown = replace(waits.measurement, processes=(*waits.measurement.processes, ProcessUse(role="worker 1")))
    assert lost_of(replace(waits, measurement=unknown), 2) > 2
