"""A simulated study whose slower settings end early, as a search would have it."""

from pathlib import Path

from support.choices import choose
from support.simulated import SimulatedStudy, simulated_experiment
from vtune.analysis.beaten import beat_of
from vtune.domain.trial import Proposal
from vtune.execution.engines.simulated.surfaces import SMALL_VOLUMES


def test_what_is_far_behind_the_leader_costs_less_time_and_changes_no_choice(tmp_path: Path) -> None:
    study = SimulatedStudy(SMALL_VOLUMES, simulated_experiment(SMALL_VOLUMES), tmp_path)
    own = study.measure(Proposal(settings={}, reason="the current settings", origin="search"), [])
    fast = study.measure(Proposal(settings={"workers": 12}, reason="more", origin="search"), [own])
    beat = beat_of(fast, "samples_per_s_whole_run", study.machine.cores)
    assert beat is not None
    slow = Proposal(settings={"workers": 1}, reason="less", origin="search")
    whole = study.measure(slow, [own, fast])
    early = study.measure(
        Proposal(settings=slow.settings, reason="less", origin="search", beat=beat), [own, fast, whole]
    )
    assert whole.beaten is None and early.beaten == beat
    assert 20 <= early.measurement.steps_measured < whole.measurement.steps_measured
    assert early.seconds < whole.seconds
    found = choose([own, fast, early], cores=study.machine.cores)
    assert found.best is not None and found.best.trial == fast.trial
    assert {one.trial: one.reason for one in found.lost}[early.trial] == "beaten"
    # The leader itself, once more with the same to reach, is measured to its end.
    again = study.measure(Proposal(settings=fast.settings, reason="more", origin="search", beat=beat), [own, fast])
    assert again.beaten is None
