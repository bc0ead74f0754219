from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vtune.execution.watchdog_reading import GroupsAround, TreeReading, lag_of_a_process

KIB = 1024
PAGE = os.sysconf("SC_PAGE_SIZE")
MEMINFO = "MemTotal: 4000 kB\nMemAvailable:    3000 kB\nCached: 7 kB\nShmem:   500 kB\n"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    folder = tmp_path / "proc"
    folder.mkdir()
    (folder / "meminfo").write_text(MEMINFO)
    return folder


@pytest.fixture
def shm(tmp_path: Path) -> Path:
    folder = tmp_path / "shm"
    folder.mkdir()
    return folder


def process(proc: Path, pid: int, *, anonymous: int, shared: int = 0, statm: str = "900 100 30 1 0 50 0") -> None:
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "statm").write_text(statm + "\n")
    (proc / str(pid) / "smaps_rollup").write_text(
        f"0-1 ---p 00000000 00:00 0 [rollup]\nPss: 9 kB\nPss_Anon: {anonymous} kB\nPss_Shmem: {shared} kB\n"
    )


def zombie(proc: Path, pid: int) -> None:
    """The kernel says ESRCH where this has no file; of the living file that stays it says zeros."""
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "statm").write_text("0 0 0 0 0 0 0\n")


def test_of_the_machine_it_tells_what_is_available_and_what_is_shared(proc: Path, shm: Path) -> None:
    assert TreeReading(str(proc), str(shm)).machine() == (3000 * KIB, 500 * KIB)


def test_anonymous_memory_is_told_of_each_that_still_lives(proc: Path, shm: Path) -> None:
    process(proc, 10, anonymous=5)
    reading = TreeReading(str(proc), str(shm))
    assert reading.anonymous_bytes([10, 11]) == [70 * PAGE]
    (proc / "10" / "statm").write_text("900 200 30 1 0 50 0\n")
    assert reading.anonymous_bytes([10]) == [170 * PAGE]


def test_each_page_counts_once_however_many_hold_it(proc: Path, shm: Path) -> None:
    process(proc, 10, anonymous=300, shared=20)
    process(proc, 11, anonymous=200, shared=30)
    assert TreeReading(str(proc), str(shm)).exact_bytes([10, 11]) == (550 * KIB, 2 * 70 * PAGE)


def test_the_dead_hold_nothing_and_say_nothing_against_the_kernel(proc: Path, shm: Path) -> None:
    process(proc, 10, anonymous=300)
    zombie(proc, 11)
    assert TreeReading(str(proc), str(shm)).exact_bytes([10, 11, 12]) == (300 * KIB, 70 * PAGE)


def test_a_kernel_that_cannot_tell_pages_apart_gives_no_exact_reading(proc: Path, shm: Path) -> None:
    process(proc, 10, anonymous=300)
    reading = TreeReading(str(proc), str(shm))
    (proc / "10" / "smaps_rollup").write_text("rollup\nPss: 9 kB\n")
    assert reading.exact_bytes([10]) is None, "before Linux 5.9"
    (proc / "10" / "smaps_rollup").unlink()
    assert reading.exact_bytes([10]) is None, "before Linux 4.14"


def test_a_file_that_came_up_since_the_start_and_that_nobody_else_uses_counts(proc: Path, shm: Path) -> None:
    process(proc, 10, anonymous=300, shared=20)
    (shm / "before").write_bytes(bytes(64 * KIB))
    reading = TreeReading(str(proc), str(shm))
    (shm / "data").write_bytes(bytes(64 * KIB))
    assert reading.exact_bytes([10]) == ((300 + 64) * KIB, 70 * PAGE)


@pytest.fixture
def process_that() -> Iterator[Callable[..., int]]:
    """Small processes that did something and wait, by their pid: a fork would share this one's pages."""
    started: list[subprocess.Popen[bytes]] = []

    def start(does: str = "", *arguments: str) -> int:
        code = f"import os, sys\n{does}\nprint(flush=True)\nsys.stdin.read()"
        command = [sys.executable, "-I", "-S", "-c", code, *arguments]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None and process.stdout.readline() == b"\n"
        return process.pid

    yield start
    for process in started:
        process.communicate(timeout=10)


def test_a_real_zombie_in_the_tree_leaves_the_reading_exact() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    try:
        exact = TreeReading().exact_bytes([os.getpid(), pid])
        assert exact is not None and exact[0] > 2**20
    finally:
        os.waitpid(pid, 0)


def test_segments_in_dev_shm_are_the_trees_also_when_their_name_is_gone(
    process_that: Callable[..., int], shm: Path
) -> None:
    """As torch's loaders hold a batch that nobody has taken yet: opened, unlinked, and mapped by nobody."""
    reading = TreeReading(shm_path=str(shm))
    puts = """
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
os.unlink(sys.argv[1])
for _ in range(32):
    os.write(descriptor, bytes(2**20))
"""
    ours, other = process_that(puts, str(shm / "batch")), process_that()
    assert reading.held_in_shm_bytes([ours]) == 32 * 2**20
    assert reading.held_in_shm_bytes([other]) == 0
    ours_exact, others_exact = reading.exact_bytes([ours]), reading.exact_bytes([other])
    assert ours_exact is not None and others_exact is not None
    assert 28 * 2**20 < ours_exact[0] - others_exact[0] < 36 * 2**20


def test_files_of_memory_count_though_nobody_maps_them(process_that: Callable[..., int]) -> None:
    puts = "cache = os.memfd_create('cache')\nfor _ in range(32):\n    os.write(cache, bytes(2**20))"
    ours, other = process_that(puts), process_that()
    reading = TreeReading()
    ours_exact, others_exact = reading.exact_bytes([ours]), reading.exact_bytes([other])
    assert ours_exact is not None and others_exact is not None
    assert 28 * 2**20 < ours_exact[0] - others_exact[0] < 36 * 2**20
    assert reading.held_in_shm_bytes([ours]) == 0


def test_of_the_groups_around_the_one_that_leaves_least_counts_and_none_without_a_number_stops_it(
    tmp_path: Path,
) -> None:
    def group(name: str, used: str, stat: str, limit: int) -> tuple[str, str, str, int]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "memory.current").write_text(used)
        (tmp_path / name / "memory.stat").write_text(stat)
        return (str(tmp_path / name), "memory.current", "inactive_file", limit)

    tight = group("tight", "800\n", "anon 1\ninactive_file 50\n", 1000)
    wide = group("wide", "800\n", "anon 1\ninactive_file 50\n", 5000)
    odd = group("odd", "5\n", "inactive_file \n", 1000)
    gone = (str(tmp_path / "gone"), "memory.current", "inactive_file", 9)
    assert GroupsAround([wide, tight, gone]).available_bytes() == 250
    assert GroupsAround([odd]).available_bytes() in (None, 995)
    assert GroupsAround([]).available_bytes() is None


@pytest.mark.parametrize(
    ("release", "cores", "pages"),
    [
        ("6.18.44", 2, 64), ("6.2.0-generic", 2, 64), ("6.8.0-45-generic", 64, 8192), ("7.0.1", 2, 64),
        ("6.1.90", 2, None), ("5.15.0-101-generic", 8, None), ("odd", 8, None),
    ],
)  # fmt: skip
def test_cheap_numbers_lag_by_a_batch_a_core_where_the_kernel_has_such(
    release: str, cores: int, pages: int | None
) -> None:
    assert lag_of_a_process(release, cores) == (None if pages is None else pages * PAGE)
