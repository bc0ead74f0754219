"""What processes read and how long they wait for a core, against processes whose work is known."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import pairwise

import psutil
import pytest

from vtune.telemetry.host import HostSampler

MIB = 1024 * 1024
# Reads a file of 32 MiB, dropped from the page cache before; then again, from the cache; then mapped and dropped.
READER = """
import mmap, os, sys
path = sys.argv[1]
def drop():
    descriptor = os.open(path, os.O_RDWR)
    os.fdatasync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
def read():
    with open(path, "rb", buffering=0) as file:
        while file.read(2**20): pass
def touch():
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    return sum(mapped[::4096])
drop()
for work in (lambda: None, read, read, lambda: (drop(), touch())):
    work()
    print("done", flush=True)
    sys.stdin.readline()
"""
BUSY = "print('ready', flush=True)\nwhile True: pass"
# A shell that starts short programs one after the other: none lives long enough to be listed.
SHORT = (
    "import subprocess, sys\nprint('ready', flush=True)\nwhile True: subprocess.run([sys.executable, '-S', '-c', ''])"
)


@pytest.fixture
def start():
    started = []

    def run(code: str, *arguments: str, core: int | None = None) -> subprocess.Popen[str]:
        before = os.sched_getaffinity(0)
        if core is not None:
            os.sched_setaffinity(0, {core})
        try:
            started.append(
                subprocess.Popen(
                    [sys.executable, "-c", code, *arguments],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
                )
            )  # fmt: skip
        finally:
            os.sched_setaffinity(0, before)
        return started[-1]

    yield run
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_cold_and_warm_reads_and_page_ins_are_told_apart(start, tmp_path):
    path = tmp_path / "volume.raw"
    path.write_bytes(os.urandom(32 * MIB))
    reader = start(READER, str(path))
    watch = HostSampler(lambda: [reader.pid])
    seen = []
    for _ in range(4):
        assert reader.stdout.readline() == "done\n"
        (process,) = watch.sample(time.monotonic(), False).processes
        seen.append((process.requested_bytes, process.read_bytes))
        reader.stdin.write("\n"), reader.stdin.flush()
    if None in (number for pair in seen for number in pair):
        pytest.skip("this kernel does not count the bytes of a process")
    requested, read = ([b - a for a, b in pairwise(kind)] for kind in zip(*seen, strict=True))
    if read[0] == 0:
        pytest.skip("the test's folder is not on a device, or its page cache cannot be dropped")
    cold, warm, mapped = zip(requested, read, strict=True)
    assert cold == (pytest.approx(32 * MIB, rel=0.02), pytest.approx(32 * MIB, rel=0.05))
    assert warm == (pytest.approx(32 * MIB, rel=0.02), 0)
    assert mapped[0] < MIB and mapped[1] == pytest.approx(32 * MIB, rel=0.05)


@pytest.mark.timing
def test_two_processes_on_one_core_wait_half_of_the_time_for_it(start):
    core = min(os.sched_getaffinity(0))
    pair = [start(BUSY, core=core) for _ in range(2)]
    for process in pair:
        process.stdout.readline()
    watch = HostSampler(lambda: [process.pid for process in pair])
    before = watch.sample(time.monotonic(), False)
    time.sleep(1.0)
    after = watch.sample(time.monotonic(), False)
    if before.processes[0].queued_s is None:
        pytest.skip("this kernel does not count the waiting")
    for first, last in zip(before.processes, after.processes, strict=True):
        share = (last.queued_s - first.queued_s) / (after.t_s - before.t_s)
        assert share > 0.4
        assert (last.cpu_s - first.cpu_s) / (after.t_s - before.t_s) + share == pytest.approx(1.0, abs=0.1)


@pytest.mark.timing
def test_programs_too_short_to_be_listed_are_not_neighbours(start):
    shell = start(SHORT)
    shell.stdout.readline()
    ours, nobody = HostSampler(lambda: [shell.pid]), HostSampler(tuple)
    begun = [(watch.sample(time.monotonic(), False), spent(shell.pid)) for watch in (ours, nobody)][-1]
    time.sleep(1.0)
    others = ours.sample(time.monotonic(), False).others_cores
    everybody = nobody.sample(time.monotonic(), False)
    theirs = (spent(shell.pid) - begun[1]) / (everybody.t_s - begun[0].t_s)
    assert theirs > 0.1
    # Whatever else this machine does is in both.
    assert everybody.others_cores - others == pytest.approx(theirs, abs=0.15)


def spent(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system + times.children_user + times.children_system
