"""How the stop file ends a training from inside."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

STEP = 4
Start = Callable[..., Any]


def stop(started: Any, at: int = 0) -> None:
    (started.folder / "stop.part").write_text(str(at))
    (started.folder / "stop.part").rename(started.folder / "stop")


def test_a_training_ends_cleanly_after_the_named_step(start: Start) -> None:
    started = start("endless.py", "workers")
    started.wait_for('"optimizer"')
    stop(started, at=200)
    run = started.wait()
    assert run.exit_code == 0
    assert run.stdout.splitlines() == ["caught <class 'SystemExit'>"]
    assert run.stderr == ""
    (end,) = run.facts("end")
    assert (end["reason"], end["step"]) == ("stop", 200)
    steps = [step for step in run.records(STEP) if step.source == 0]
    assert [step.index for step in steps] == list(range(201))
    assert steps[-1].b <= end["t"]


@pytest.mark.slow
def test_an_exit_that_is_swallowed_is_raised_again_and_then_enforced(start: Start) -> None:
    started = start("endless.py", "swallow")
    started.wait_for('"optimizer"')
    stop(started)
    run = started.wait()
    assert run.exit_code == 0
    assert run.stdout.splitlines() == ["caught <class 'SystemExit'>"] * 3
    assert len(run.facts("end")) == 1


@pytest.mark.slow
def test_with_an_optimizer_for_each_parameter_the_training_still_ends(start: Start) -> None:
    started = start("optimizer_in_backward.py")
    started.wait_for('"optimizer": 3')
    stop(started)
    run = started.wait()
    assert (run.exit_code, run.stdout, run.stderr) == (0, "", "")
    assert len(run.facts("end")) == 1


@pytest.mark.slow
def test_all_ranks_of_torchrun_end_after_the_same_step(start: Start) -> None:
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    started = start("ranks.py", command=torchrun)
    started.wait_for('"optimizer"', '"rank": 1')
    started.wait_for('"optimizer"')
    stop(started, at=3000)
    run = started.wait()
    assert run.exit_code == 0, run.stderr
    assert [end["step"] for end in run.facts("end")] == [3000, 3000]
    ranks = {hello["in"]: (hello["rank"], hello["world_size"]) for hello in run.facts("hello")}
    assert sorted(ranks[end["in"]] for end in run.facts("end")) == [(0, 2), (1, 2)]
