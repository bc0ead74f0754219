"""What `vtune watch` says of a full run that vtune launched: as its own files tell, with its guard or without."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from support.cli import quiet_env, vtune
from support.launches import Study, measured
from vtune.domain.watching import Watched
from vtune.execution.watch_find import find_training
from vtune.execution.watching import Asked, Watching

Make = Callable[..., Study]


def seen(study: Study, named: str = "demo", seconds: float = 5.0) -> Watched:
    found = find_training(named, study.paths.root.parent)
    assert found.study is not None and found.study.root.samefile(study.paths.root)
    with Watching(found.pid, Asked()) as watching:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            watching.look()
            time.sleep(0.5)
        return watching.picture()


def slowly_loading(a_study: Make) -> Study:
    """Its two workers take 100 ms for a batch of two, and a step 10 ms: four fifths are waiting. It saves too seldom
    for a pause in each look."""
    return a_study(
        measured(1, 20.0), measured(2, 40.0, workers=2), steps=3000, load_s=0.05, step_s=0.01, save_every=1000
    )


@pytest.mark.slow
def test_a_launch_is_told_with_its_promise_and_without_its_killed_guard_as_unguarded(a_study: Make) -> None:
    study = slowly_loading(a_study)
    started = study.start("--trial", "2")
    study.wait_for_steps(10)
    before = seen(study)
    launch = before.launch
    assert launch is not None
    assert (launch.study, launch.launch, launch.attempt, launch.trial) == ("demo", 1, 1, 2)
    assert launch.settings == {"workers": 2} and launch.promised_samples_per_s == 40.0
    assert (launch.guard_pid, launch.guard_lives) == (started.pid, True)
    assert before.verdict.wait_measured and (before.verdict.wait_share or 0) > 0.5
    assert before.verdict.kind == "starved"
    assert before.pid in study.living() and launch.supervisor_pid not in (None, before.pid)

    started.kill()
    started.communicate(timeout=10)
    after = seen(study)
    assert after.launch is not None and after.pid == before.pid
    assert (after.launch.guard_pid, after.launch.guard_lives) == (started.pid, False)
    assert after.launch.steps > launch.steps
    # The state that it left is not what is achieved now.
    assert after.launch.achieved_by == "looks"
    assert 10 < (after.launch.achieved_samples_per_s or 0) < 45
    assert after.verdict.wait_measured
    os.kill(after.launch.supervisor_pid or 0, signal.SIGTERM)
    wait_until(lambda: not study.living())
    assert "saved after step" in study.of_launch().attempt(1).stdout.read_text()


@pytest.mark.slow
def test_the_command_tells_of_a_detached_launch_by_the_number_of_its_guard_and_of_its_end(a_study: Make) -> None:
    study = a_study(steps=3000)
    told = study.launch("--detach", "--json").json
    study.wait_for_steps(10)
    said = vtune("watch", str(told["guard_pid"]), "--json", cwd=study.folder)
    assert said.code == 0, said.stderr
    launch = said.json["launch"]
    assert said.json["pid"] == told["pid"]
    assert (launch["guard_pid"], launch["guard_lives"], launch["steps_at_end"]) == (told["guard_pid"], True, None)
    assert launch["achieved_by"] == "guard" and launch["achieved_samples_per_s"] > 0

    os.kill(told["guard_pid"], signal.SIGKILL)
    watched = subprocess.Popen(
        [sys.executable, "-m", "vtune", "watch", "demo"],
        cwd=study.folder, env=quiet_env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert watched.stdout is not None
    line = watched.stdout.readline()
    assert "launch 1 of demo · step" in line and "no guard lives" in line
    os.kill(launch["supervisor_pid"], signal.SIGTERM)
    rest, _ = watched.communicate(timeout=20)
    assert watched.returncode == 0 and "launch    launch 1 of study demo, with the settings of trial 1" in rest
    wait_until(lambda: not study.living())
    said = vtune("watch", "demo", "--json", cwd=study.folder)
    assert said.code == 2 and "launch 1 went on after its guard was killed" in said.json["hint"]


def wait_until(holds: Callable[[], bool], timeout: float = 30.0) -> None:
    until = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < until, "it never came to pass"
        time.sleep(0.05)
