"""A training that does its worst to the files around it, ended at any moment: afterwards they are as they were."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.files_as_they_were import differences, manifest
from support.hostile_training import populate
from support.protected import HOSTILE, INJECT, write_protection
from vtune.execution.sweep import supervisor_lives, sweep_stale
from vtune.journal.paths import TrialPaths
from vtune.journal.trial_files import read_outcome

PARENT = """
import json, sys, time
from pathlib import Path
from vtune.domain.trial import TrialSpec
from vtune.execution.engines.local import LocalEngine
folder = Path(sys.argv[2])
spec = TrialSpec(**json.loads((folder / "spec.json").read_text()))
with LocalEngine(Path(sys.argv[1])).start(spec, folder) as trial:
    print("ready", trial.own_pids[0], flush=True)
    while trial.poll() is None:
        time.sleep(0.05)
"""


@pytest.fixture
def place(trials, tmp_path: Path) -> SimpleNamespace:
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    work.mkdir()
    elsewhere.mkdir()
    populate(work, elsewhere)
    trials.inject = INJECT
    before = manifest(work, elsewhere)

    def prepare(*arguments: str):
        spec = trials.spec(sys.executable, str(HOSTILE), *arguments, cwd=work)
        folder = trials.folder(spec)
        write_protection(folder, work, elsewhere)
        return spec, folder

    def start(*arguments: str):
        spec, folder = prepare(*arguments)
        return trials.start(spec, folder), folder

    return SimpleNamespace(
        prepare=prepare,
        start=start,
        changes=lambda: differences(before, manifest(work, elsewhere)),
    )


def changed(place: SimpleNamespace, wait_for) -> None:
    wait_for(lambda: len(place.changes()) > 5)


def assert_as_before(place: SimpleNamespace, folder: Path) -> None:
    assert place.changes() == []
    assert not (folder / "kept").exists()
    assert not (folder / "not-restored.json").exists()


@pytest.mark.parametrize("seed", range(6))
def test_a_training_that_ends_by_itself(place, finish, seed):
    trial, folder = place.start(str(seed), "--changes", "60")
    outcome = finish(trial)
    assert (outcome.ended_by, outcome.exit_code, outcome.defect) == ("itself", 0, None)
    assert "done" in (folder / "stdout.log").read_text()
    assert (folder / "written.json").stat().st_size > 100
    assert_as_before(place, folder)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
@pytest.mark.parametrize("seed", [20, 21])
def test_a_training_that_saves_with_torch(place, finish, seed):
    trial, folder = place.start(str(seed), "--changes", "50", "--torch")
    outcome = finish(trial)
    assert (outcome.exit_code, (folder / "stdout.log").read_text()) == (0, "ready\ndone\n")
    assert_as_before(place, folder)


@pytest.mark.parametrize("seed", [30, 31, 32])
def test_a_killed_training(place, finish, wait_for, seed):
    trial, folder = place.start(str(seed), "--processes", "3", "--pause", "0.002")
    changed(place, wait_for)
    time.sleep(random.Random(seed).uniform(0, 0.3))
    for pid in trial.pids():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert finish(trial).signal == signal.SIGKILL
    assert_as_before(place, folder)


@pytest.mark.parametrize("seed", [40, 41])
def test_a_killed_supervisor(place, finish, wait_for, seed):
    trial, folder = place.start(str(seed), "--processes", "2", "--pause", "0.002")
    changed(place, wait_for)
    os.kill(trial.own_pids[0], signal.SIGKILL)
    assert finish(trial).ended_by == "lost"
    assert_as_before(place, folder)


@pytest.mark.parametrize("seed", [50, 51, 52])
def test_a_supervisor_that_is_killed_while_it_puts_files_back(place, finish, wait_for, seed):
    trial, folder = place.start(str(seed), "--changes", "80")
    wait_for(lambda: (folder / "written.json").exists())
    with contextlib.suppress(ProcessLookupError):
        os.kill(trial.own_pids[0], signal.SIGKILL)
    finish(trial)
    assert_as_before(place, folder)


@pytest.mark.parametrize("seed", [60, 61])
def test_a_killed_vtune_and_a_killed_supervisor(place, trials, wait_for, seed):
    _, folder = place.prepare(str(seed), "--processes", "2", "--pause", "0.002")
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(INJECT), str(folder)], stdout=subprocess.PIPE, text=True, cwd=trials.root
    )
    try:
        supervisor = int(process.stdout.readline().split()[1])
        changed(place, wait_for)
        os.kill(process.pid, signal.SIGSTOP)  # it must not sweep
        os.kill(supervisor, signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    assert not supervisor_lives(folder)
    assert sweep_stale(trials.root / "trials") == [folder]
    assert read_outcome(TrialPaths(folder)).ended_by == "lost"
    assert_as_before(place, folder)
