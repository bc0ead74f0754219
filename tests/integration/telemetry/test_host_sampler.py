"""The sampler against processes whose memory and work are known."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from vtune.telemetry.host import HostSampler

MIB = 1024 * 1024
# 100 MiB of its own, 60 MiB shared with two forked children through an anonymous mapping, 40 MiB in each child.
TREE = """
import mmap, os, time
MIB = 1024 * 1024
shared = mmap.mmap(-1, 60 * MIB)
shared.write(bytes(60 * MIB))
own = bytearray(os.urandom(MIB)) * 100
ready, done = os.pipe()
children = []
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        more = bytearray(os.urandom(MIB)) * 40
        total = sum(shared[::4096])
        os.write(done, b"x")
        time.sleep(1000)
    children.append(pid)
for _ in children:
    os.read(ready, 1)
print(os.getpid(), *children, flush=True)
time.sleep(1000)
"""
BUSY = "print('ready', flush=True)\nwhile True: pass"


@pytest.fixture
def start():
    started = []

    def run(code: str) -> subprocess.Popen[str]:
        started.append(
            subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
        )
        return started[-1]

    yield run
    for process in started:
        os.killpg(process.pid, 9)
        process.communicate()


def test_memory_of_a_known_tree_is_right_within_five_percent(start):
    process = start(TREE)
    pids = [int(word) for word in process.stdout.readline().split()]
    sample = HostSampler(lambda: pids).sample(0.0, True)
    # What an interpreter needs beside: some 5 MiB in the parent, little more in the children.
    assert sample.ram_bytes == pytest.approx((100 + 60 + 2 * 40) * MIB + 6 * MIB, rel=0.05)
    leader, *children = sample.processes
    assert leader.rss_bytes == pytest.approx((100 + 60) * MIB + 12 * MIB, rel=0.05)
    for child in children:
        assert child.ppid == leader.pid
        assert child.rss_bytes == pytest.approx((100 + 60 + 40) * MIB + 8 * MIB, rel=0.05)


def test_a_busy_neighbour_is_seen_and_the_trials_own_work_is_not_one(start):
    ours, theirs = start(BUSY), start(BUSY)
    ours.stdout.readline(), theirs.stdout.readline()
    apart = HostSampler(lambda: [ours.pid])
    together = HostSampler(lambda: [ours.pid, theirs.pid])
    begun_s, before_s = time.monotonic(), cpu_s(theirs.pid)
    apart.sample(begun_s, False), together.sample(begun_s, False)
    time.sleep(1.0)
    others = apart.sample(time.monotonic(), False).others_cores
    rest = together.sample(time.monotonic(), False).others_cores
    used = (cpu_s(theirs.pid) - before_s) / (time.monotonic() - begun_s)
    # Whatever else this machine does is in both, and a busy machine gives the neighbour less than a core.
    assert used > 0.02
    assert others - rest == pytest.approx(used, rel=0.3, abs=0.05)


def cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system
