from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from vtune.execution import process_tree
from vtune.execution.process_tree import (
    Process,
    carriers,
    descendants,
    process_of,
    processes,
    send,
    tree_below,
    trial_processes,
)


def process(pid: int, ppid: int, living: bool = True) -> Process:
    return Process(pid, ppid, started_ticks=pid, living=living)


@pytest.fixture
def sleeper():
    child = subprocess.Popen(["sleep", "1000"], env={"VTUNE_TOKEN": "secret-1"})
    yield child
    child.kill()
    child.wait()


def test_descendants_reach_every_generation_and_leave_out_the_root_and_strangers():
    table = {p.pid: p for p in (process(1, 0), process(10, 1), process(11, 10), process(12, 11), process(20, 1))}
    assert sorted(descendants([10], table)) == [11, 12]


def test_a_loop_in_a_listing_that_changed_under_the_reader_ends():
    table = {p.pid: p for p in (process(10, 11), process(11, 10))}
    assert sorted(descendants([10], table)) == [10, 11]


# One child is left as a zombie, another one is started by a thread.
FAMILY = """
import os, subprocess, sys, threading
ended = subprocess.Popen(["true"])
os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
thread = threading.Thread(target=lambda: subprocess.run([sys.executable, "-c", "print('up', flush=True); input()"]))
thread.start()
"""


def test_a_tree_is_found_by_its_parents_whichever_thread_started_it_zombies_too(monkeypatch):
    with subprocess.Popen([sys.executable, "-c", FAMILY], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        try:
            assert parent.stdout.readline() == b"up\n"
            found = tree_below(parent.pid)
            assert sorted(one.living for one in found.values()) == [False, True]
            assert {one.ppid for one in found.values()} == {parent.pid}
            monkeypatch.setattr(process_tree.os.path, "exists", lambda path: False)
            assert sorted(tree_below(parent.pid)) == sorted(found)
        finally:
            parent.kill()
            for one in found.values():
                send(one, signal.SIGKILL)


def test_a_name_with_parentheses_and_spaces_does_not_shift_the_fields(tmp_path: Path):
    program = tmp_path / "a) R 1 (b"
    program.symlink_to("/bin/sleep")
    child = subprocess.Popen([program, "1000"])
    try:
        found = process_of(child.pid)
        assert found is not None
        assert (found.ppid, found.living) == (os.getpid(), True)
    finally:
        child.kill()
        child.wait()


def test_a_zombie_does_not_live():
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    found = process_of(child.pid)
    assert found is not None and not found.living
    child.wait()
    assert process_of(child.pid) is None


def test_only_the_exact_token_is_carried(sleeper):
    table = processes()
    assert list(carriers("secret-1", table)) == [sleeper.pid]
    for other in ("secret", "ecret-1", "secret-12"):
        assert not carriers(other, table)


def test_whoever_carries_the_token_belongs_to_the_trial_with_all_below_it_but_never_the_caller(monkeypatch):
    code = (
        "import subprocess, time; subprocess.Popen(['sleep', '9'], env={}); print('ready', flush=True); time.sleep(9)"
    )
    env = {"VTUNE_TOKEN": "secret-2"}
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=env, start_new_session=True)
    try:
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        assert len(trial_processes("secret-2", [])) == 2
        assert os.getpid() not in [p.pid for p in trial_processes("secret-2", [os.getppid()])]
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def test_a_signal_is_not_sent_to_a_later_process_of_the_same_number(sleeper):
    now = process_of(sleeper.pid)
    assert now is not None
    send(Process(now.pid, now.ppid, now.started_ticks - 1, True), signal.SIGKILL)
    with pytest.raises(subprocess.TimeoutExpired):
        sleeper.wait(0.05)
    send(now, signal.SIGKILL)
    assert sleeper.wait(5.0) == -signal.SIGKILL
    send(now, signal.SIGKILL)  # gone: nothing to do
