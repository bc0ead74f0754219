"""RSS and proportional sizes against trees whose memory is known, and volumes that only look like memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vtune.telemetry.host import HostSampler

MIB = 1024 * 1024
# What an interpreter needs for itself: some 6 MiB of its own, and as much of mapped code.
PYTHON = 6 * MIB
PYTHON_CODE = 7 * MIB
# argv: MiB of the leader's own, workers, MiB of each worker's own, MiB of a segment in /dev/shm, volume or "", its MiB.
TREE = """
import mmap, os, sys, time
MIB = 1024 * 1024
own, workers, more, shared = map(int, sys.argv[1:5])
volume, volume_mib = sys.argv[5], int(sys.argv[6])
data = bytearray(os.urandom(MIB)) * own
name = f"/dev/shm/vt-test-{os.getpid()}"
segment = None
if shared:
    descriptor = os.open(name, os.O_RDWR | os.O_CREAT)
    os.ftruncate(descriptor, shared * MIB)
    segment = mmap.mmap(descriptor, shared * MIB)
    os.close(descriptor)
    os.unlink(name)
    for at in range(0, shared * MIB, 4096): segment[at] = 1
ready, done = os.pipe()
children = []
for _ in range(workers):
    pid = os.fork()
    if pid == 0:
        mine = bytearray(os.urandom(MIB)) * more
        total = sum(data[::4096]) + (sum(segment[::4096]) if segment else 0)
        if volume:
            with open(volume, "rb") as file:
                mapped = mmap.mmap(file.fileno(), volume_mib * MIB, prot=mmap.PROT_READ)
            total += sum(mapped[::4096])
        os.write(done, b"x")
        time.sleep(1000)
    children.append(pid)
for _ in children: os.read(ready, 1)
print(os.getpid(), *children, flush=True)
time.sleep(1000)
"""


@pytest.fixture
def tree() -> Iterator[Callable[..., list[int]]]:
    started = []

    def run(
        *, own: int, workers: int, more: int, shared: int = 0, volume: Path | None = None, mib: int = 0
    ) -> list[int]:
        arguments = [own, workers, more, shared, volume or "", mib]
        process = subprocess.Popen(
            [sys.executable, "-c", TREE, *map(str, arguments)],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout is not None
        return [int(word) for word in process.stdout.readline().split()]

    yield run
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def a_volume(folder: Path, mib: int) -> Path:
    """Of real pages, on the disk and then in the page cache."""
    path = folder / "volume.raw"
    block = os.urandom(8 * MIB)
    with open(path, "wb") as file:
        for _ in range(mib // 8):
            file.write(block)
    return path


def test_pages_shared_by_fork_and_a_shared_segment_count_once(tree):
    pids = tree(own=120, workers=4, more=30, shared=80)
    sample = HostSampler(lambda: pids).sample(0.0, True)
    assert sample.ram_bytes == pytest.approx((120 + 4 * 30 + 80) * MIB + PYTHON, rel=0.05)
    leader, *workers = sample.processes
    assert leader.rss_bytes == pytest.approx((120 + 80) * MIB + PYTHON + PYTHON_CODE, rel=0.05)
    assert len(workers) == 4
    for worker in workers:
        assert worker.rss_bytes == pytest.approx((120 + 30 + 80) * MIB + PYTHON + PYTHON_CODE, rel=0.05)


@pytest.mark.parametrize("mib", [200, pytest.param(2048, marks=pytest.mark.slow)])
def test_a_mapped_volume_is_page_cache_however_many_workers_read_it(tree, tmp_path, mib):
    if os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize < 2 * mib * MIB:
        pytest.skip("no room on the disk")
    volume = a_volume(tmp_path, mib)
    try:
        pids = tree(own=60, workers=4, more=20, volume=volume, mib=mib)
        sample = HostSampler(lambda: pids).sample(0.0, True)
    finally:
        volume.unlink()
    # Each worker holds all of it, and says so in its resident size; the tree's memory is that of its own pages.
    for worker in sample.processes[1:]:
        assert worker.rss_bytes > mib * MIB
    assert sample.ram_bytes == pytest.approx((60 + 4 * 20) * MIB + PYTHON + 4 * 0.5 * MIB, rel=0.05)
    assert sample.page_cache_bytes is not None and sample.page_cache_bytes > mib * MIB
