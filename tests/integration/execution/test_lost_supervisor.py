"""Whoever is killed, vtune, its supervisor or both: nothing of the trial stays."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.snippets import CLEANER
from vtune.execution.sweep import supervisor_lives, sweep_stale
from vtune.journal.paths import TrialPaths
from vtune.journal.trial_files import read_outcome

# A leader and a child that does not die with it.
TREE = """
import subprocess, time
subprocess.Popen(["sleep", "1000"], start_new_session=True)
print("ready", flush=True)
time.sleep(1000)
"""
FORGETFUL = TREE.replace("start_new_session=True", "start_new_session=True, env={}")
CLEANER_THAT_STAYS = CLEANER + "time.sleep(1000)\n"

# vtune itself, reduced to its engine: argv is the inject folder and the trial's folder.
PARENT = """
import json, os, signal, sys, time
from pathlib import Path
from vtune.domain.trial import TrialSpec
from vtune.execution.engines.local import LocalEngine
folder = Path(sys.argv[2])
spec = TrialSpec(**json.loads((folder / "spec.json").read_text()))
with LocalEngine(Path(sys.argv[1])).start(spec, folder) as trial:
    {inside}
    print("ready", trial.own_pids[0], flush=True)
    while trial.poll() is None:
        time.sleep(0.05)
"""


@pytest.fixture
def parent(trials, printed):
    """A vtune in a process of its own that runs TREE; its Popen, the trial's folder, token and supervisor."""
    started, supervisors = [], []

    def start(inside: str = "pass", code: str = TREE):
        spec = trials.spec(sys.executable, "-c", code)
        folder = trials.folder(spec)
        command = [sys.executable, "-c", PARENT.format(inside=inside), str(trials.inject), str(folder)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        started.append(process)
        words = process.stdout.readline().split()
        supervisors.append(int(words[1]))
        printed(folder)
        return process, folder, spec.token, int(words[1])

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    for supervisor in supervisors:
        with contextlib.suppress(ProcessLookupError):
            os.kill(supervisor, signal.SIGCONT)  # a test that failed may have left it stopped


def test_when_its_supervisor_is_killed_a_trial_is_swept(trials, finish, printed, living):
    trial, folder, token = trials.python(TREE)
    printed(folder)
    assert len(living(token)) == 2
    os.kill(trial.own_pids[0], signal.SIGKILL)
    outcome = finish(trial)
    assert (outcome.ended_by, outcome.exit_code, outcome.stragglers) == ("lost", None, 1)
    assert living(token) == []
    assert read_outcome(TrialPaths(folder)) == outcome


def test_a_sweep_gives_those_time_who_clean_up_after_the_leader(trials, finish, printed):
    trial, folder, _ = trials.python(CLEANER_THAT_STAYS)
    printed(folder)
    os.kill(trial.own_pids[0], signal.SIGKILL)
    assert finish(trial).stragglers == 0
    assert (folder / "cleaned").exists()


def test_the_sweep_also_finds_what_was_seen_before_and_dropped_the_token(trials, finish, printed, wait_for):
    trial, folder, _ = trials.python(FORGETFUL)
    printed(folder)
    pids = wait_for(lambda: trial.pids() if len(trial.pids()) == 2 else None)
    os.kill(trial.own_pids[0], signal.SIGKILL)
    assert finish(trial).stragglers == 1
    assert not any(Path(f"/proc/{pid}/exe").exists() for pid in pids)


def test_a_supervisor_told_to_end_ends_its_trial(trials, finish, printed, living):
    trial, folder, token = trials.python(TREE)
    printed(folder)
    os.kill(trial.own_pids[0], signal.SIGTERM)
    outcome = finish(trial)
    assert (outcome.ended_by, outcome.signal) == ("interrupt", signal.SIGKILL)
    assert living(token) == []


def test_when_vtune_is_killed_nothing_is_left(parent, living, wait_for):
    process, folder, token, _ = parent()
    process.kill()
    outcome = wait_for(lambda: read_outcome(TrialPaths(folder)), 5.0)
    assert (outcome.ended_by, outcome.signal) == ("parent_lost", signal.SIGKILL)
    assert living(token) == []


def test_a_process_that_inherited_vtunes_end_of_the_pipe_does_not_keep_the_trial_alive(parent, living, wait_for):
    process, folder, token, _ = parent(inside="(os.fork() == 0) and (time.sleep(30), os._exit(0))")
    process.kill()
    assert wait_for(lambda: read_outcome(TrialPaths(folder)), 5.0).ended_by == "parent_lost"
    assert living(token) == []


def test_ctrl_c_twice_leaves_nothing_behind(parent, living):
    process, folder, token, supervisor = parent()
    os.kill(supervisor, signal.SIGSTOP)  # so that the end takes long enough to be interrupted
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    assert process.poll() is None
    os.kill(supervisor, signal.SIGCONT)
    _, words = process.communicate(timeout=10.0)
    assert "KeyboardInterrupt" in words
    assert living(token) == []
    assert read_outcome(TrialPaths(folder)).ended_by == "interrupt"


def test_ctrl_c_while_the_trial_is_being_started_leaves_nothing_behind(trials, living):
    for delay_s in (0.0, 0.003, 0.01, 0.02):
        spec = trials.spec(sys.executable, "-c", TREE)
        folder = trials.folder(spec, f"after-{delay_s}")
        code = PARENT.format(inside="pass").replace("with LocalEngine", "print('go', flush=True)\nwith LocalEngine")
        command = [sys.executable, "-c", code, str(trials.inject), str(folder)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout.readline() == "go\n"
        time.sleep(delay_s)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10.0)
        give_up_s = time.monotonic() + 5.0
        while time.monotonic() < give_up_s and (supervisor_lives(folder) or living(spec.token)):
            time.sleep(0.01)
        assert living(spec.token) == []


def test_what_a_killed_vtune_and_a_killed_supervisor_left_is_finished_later(parent, trials, living):
    process, folder, token, supervisor = parent()
    os.kill(process.pid, signal.SIGSTOP)  # it must not sweep
    os.kill(supervisor, signal.SIGKILL)
    process.kill()
    process.wait()
    assert len(living(token)) >= 1
    assert sweep_stale(trials.root / "trials") == [folder]
    assert living(token) == []
    outcome = read_outcome(TrialPaths(folder))
    assert (outcome.ended_by, outcome.exit_code) == ("lost", None)
    assert sweep_stale(trials.root / "trials") == []


def test_a_running_trial_of_a_living_supervisor_is_not_stale(trials, printed, living, monkeypatch):
    monkeypatch.setattr("vtune.execution.sweep.SUPERVISOR_PATIENCE_S", 0.1)
    _, folder, token = trials.python(TREE)
    printed(folder)
    assert supervisor_lives(folder)
    assert sweep_stale(trials.root / "trials") == []
    assert len(living(token)) == 2
