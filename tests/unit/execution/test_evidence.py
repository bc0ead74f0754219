"""What the kernel says of kills for memory, and the stacks that processes tell of themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from vtune.execution.evidence import KernelWitness
from vtune.execution.evidence_stacks import threads_in
from vtune.execution.shm import pids_told

BEFORE = "6,1,1,-;Memory cgroup out of memory: Killed process 70 (python) total-vm:1kB\n"
OF_GROUP = "3,2,2,-;Memory cgroup out of memory: Killed process 77 (pt_data_worker) total-vm:9kB, anon-rss:1kB, UID:0\n"
OF_MACHINE = "3,3,3,-;Out of memory: Killed process 78 (python) total-vm:9kB, anon-rss:1kB, UID:0\n"
OURS, CONTAINERS = "pid:[4026531836]", "pid:[4026532999]"
# As faulthandler writes it: the main thread last.
DUMP = """Thread 0x00007f9aa20696c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait

Current thread 0x00007f9ac7232b80 (most recent call first):
  File "/home/me/a folder/data.py", line 41 in __getitem__
  File "<frozen importlib._bootstrap of vtune>", line 47 in _worker_loop
  File "/home/me/train.py", line 13 in <module>
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    (tmp_path / "vmstat").write_text("nr_free_pages 12\noom_kill 4\noom_kill_other 9\n")
    (tmp_path / "kmsg").write_text(BEFORE)
    in_namespace(tmp_path, OURS)
    return tmp_path


def in_namespace(machine: Path, namespace: str) -> None:
    (machine / "self" / "ns").mkdir(parents=True, exist_ok=True)
    (machine / "self" / "ns" / "pid").unlink(missing_ok=True)
    (machine / "self" / "ns" / "pid").symlink_to(namespace)


def test_in_a_container_the_logs_numbers_are_those_of_others(machine: Path) -> None:
    in_namespace(machine, CONTAINERS)
    with KernelWitness(machine / "kmsg", machine) as kernel:
        with open(machine / "kmsg", "a") as log:
            log.write(OF_MACHINE)
        assert kernel.kills_of({78}) == ()


def test_only_kills_of_the_trials_processes_since_its_start_are_told(machine: Path) -> None:
    with KernelWitness(machine / "kmsg", machine) as kernel:
        with open(machine / "kmsg", "a") as log:
            log.write(OF_GROUP)
        (killed,) = kernel.kills_of({70, 77, 78})
        assert (killed.pid, killed.of_group) == (77, True) and killed.words.startswith("Memory cgroup out of memory")
        with open(machine / "kmsg", "a") as log:
            log.write(OF_MACHINE)
        assert kernel.kills_of({70, 77}) == ()


def test_a_kill_of_the_whole_machine_is_told_apart_from_one_of_a_group(machine: Path) -> None:
    with KernelWitness(machine / "kmsg", machine) as kernel:
        with open(machine / "kmsg", "a") as log:
            log.write(OF_MACHINE)
        assert [kill.of_group for kill in kernel.kills_of({78})] == [False]


def test_the_machines_count_is_of_what_happened_meanwhile(machine: Path) -> None:
    with KernelWitness(machine / "kmsg", machine) as kernel:
        assert kernel.kills_of_machine() == 0
        (machine / "vmstat").write_text("oom_kill 6\n")
        assert kernel.kills_of_machine() == 2


@pytest.mark.parametrize(("namespace", "left"), [(OURS, 0), (CONTAINERS, 1)])
def test_a_kill_that_the_log_lays_at_anothers_door_is_no_evidence_where_its_numbers_are_ours(
    machine: Path, namespace: str, left: int
) -> None:
    in_namespace(machine, namespace)
    with KernelWitness(machine / "kmsg", machine) as kernel:
        with open(machine / "kmsg", "a") as log:
            log.write(OF_MACHINE)
        (machine / "vmstat").write_text("oom_kill 5\n")
        assert kernel.kills_of({77}) == () and kernel.kills_of_machine() == left


def test_a_log_that_may_not_be_read_and_a_kernel_without_a_count_leave_it_unknown(tmp_path: Path) -> None:
    with KernelWitness(tmp_path / "kmsg", tmp_path) as kernel:
        assert kernel.kills_of({77}) == () and kernel.kills_of_machine() is None


def test_stacks_are_read_by_thread_without_our_own_frames_and_the_main_thread_last() -> None:
    other, main = threads_in(DUMP)
    assert [(frame.file, frame.line, frame.function) for frame in main] == [
        ("/home/me/a folder/data.py", 41, "__getitem__"),
        ("/home/me/train.py", 13, "<module>"),
    ]
    assert other[0].function == "wait"
    assert threads_in("") == []


def test_a_stack_of_c_code_is_no_thread() -> None:
    text = DUMP + "\nCurrent thread's C stack trace (most recent call first):\n  Binary file libc.so\n"
    assert len(threads_in(text)) == 2


def test_workers_are_named_by_the_trials_files_although_nobody_saw_them_live(tmp_path: Path) -> None:
    (tmp_path / "steps-70.jsonl").write_text('{"fact": "pass", "worker_pids": [77, null, 78], "pass": 0}\n')
    (tmp_path / "steps-79.bin").write_bytes(b"")
    (tmp_path / "stderr.log").write_text('"worker_pids": [1]')
    assert pids_told(str(tmp_path)) == {70, 77, 78, 79}
    assert pids_told(str(tmp_path / "nowhere")) == set()
