"""RAM limits against real growth, with a control group of the trial's own and without one."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from vtune.execution.process_tree import process_of
from vtune.execution.ram_limits import RamLimits, ram_limits
from vtune.execution.sweep import sweep_stale
from vtune.journal.files import dump_json
from vtune.telemetry.cgroup import MemoryGroups, PlaceForGroups

MIB = 2**20
GIB = 2**30
PACE = 500e6
needs_group = pytest.mark.skipif(
    not isinstance(MemoryGroups().place_for_trials(), PlaceForGroups), reason="no memory group can be made here"
)
BY = [pytest.param("group", marks=needs_group), "watchdog"]

# Grows at so many bytes a second, and tells of each process how far it came: the truth that the limit is held against.
GROW = """
import mmap, os, sys, time
PACE, CHUNK = float(sys.argv[1]), 4 << 20
def grow(keep, pace=PACE):
    begun, n, held = time.monotonic(), 0, []
    while True:
        held.append(keep(n))
        n += CHUNK
        os.write(1, b"%d %d\\n" % (os.getpid(), n))
        time.sleep(max(0.0, begun + n / pace - time.monotonic()))
def memory(n): return bytearray(b"x") * CHUNK
def in_shm(n):
    # The one that it grows in, as a data set that is put there file by file.
    with open("/dev/shm/" + sys.argv[2], "ab") as file: file.write(bytes(CHUNK))
"""
MAIN = GROW + "grow(memory)"
SHM = GROW + "grow(in_shm)"
FOUR = (
    GROW
    + """
shared = bytearray(b"y") * (300 << 20)
for _ in range(4):
    if os.fork() == 0: grow(memory, PACE / 4)
os.write(1, b"%d %d\\n" % (os.getpid(), len(shared)))
time.sleep(1000)
"""
)
LOADER = (
    GROW
    + """
import torch
class Leaks(torch.utils.data.Dataset):
    def __len__(self): return 10**6
    def __getitem__(self, index): grow(memory)
next(iter(torch.utils.data.DataLoader(Leaks(), num_workers=1)))
"""
)
# Four processes that share what one alone holds: the sum of what they seem to hold is five times as much.
SHARES = """
import os, sys, time
shared = bytearray(b"y") * (int(sys.argv[1]) << 20)
for _ in range(4):
    if os.fork() == 0:
        for _ in range(30): sum(shared[::4096]); time.sleep(0.1)
        os._exit(0)
for _ in range(4): os.wait()
"""


@pytest.fixture
def limited(trials, monkeypatch):
    """Starts a training under a RAM limit; its trial, its folder and its group's path, None without one."""

    def start(code: str, *arguments: str, by: str = "group", limit: int | None = GIB, **other):
        limits = ram_limits(limit)
        if by == "watchdog":
            limits = replace(limits, group=None, wall_bytes=None)
        limits = replace(limits, **other)
        spec = trials.spec(sys.executable, "-c", code, *arguments)
        folder = trials.folder(spec)
        dump_json(folder / "limits.json", limits)
        return trials.start(spec, folder), folder, _path(limits, spec.token)

    return start


def _path(limits: RamLimits, token: str) -> Path | None:
    return Path(limits.group.parent) / f"vtune-{token}" if limits.group is not None else None


def _grown_to(folder: Path) -> int:
    last: dict[str, int] = {}
    for line in (folder / "stdout.log").read_text().split("\n")[:-1]:
        pid, held = line.split()
        last[pid] = int(held)
    return sum(last.values())


@pytest.mark.slow
@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("code", [MAIN, FOUR, LOADER, SHM], ids=["main", "four-workers", "loader-worker", "dev-shm"])
def test_growth_of_500_mb_a_second_is_stopped_at_its_limit(limited, finish, by, code) -> None:
    name = f"limits-{os.getpid()}"
    try:
        trial, folder, path = limited(code, str(PACE), name, by=by)
        outcome = finish(trial)
    finally:
        Path("/dev/shm", name).unlink(missing_ok=True)
    assert (outcome.ended_by, outcome.signal) == ("limit", signal.SIGKILL)
    assert outcome.over is not None and outcome.over.what == "ram"
    assert outcome.ram_guard.by == (outcome.group.kind if by == "group" else "watchdog")
    grown = _grown_to(folder)
    assert 0.7 * GIB < grown < 1.15 * GIB
    assert GIB < outcome.over.used_bytes < 1.15 * GIB
    if by == "group":
        assert outcome.group.peak_bytes < 1.15 * GIB
        assert not path.exists()


@pytest.mark.slow
@pytest.mark.parametrize("by", BY)
def test_a_tree_that_shares_its_memory_is_not_ended_for_the_sum(limited, finish, by) -> None:
    trial, _, _ = limited(SHARES, "150", by=by, limit=400 * MIB)
    outcome = finish(trial)
    assert (outcome.ended_by, outcome.exit_code, outcome.over) == ("itself", 0, None)


@needs_group
def test_a_burst_between_two_looks_meets_the_kernels_wall(limited, finish) -> None:
    # All of it touched by one call, in a fraction of the time between two looks.
    trial, _, path = limited("bytearray(2 << 30)[::4096]; b'x' * (2 << 30)", limit=256 * MIB)
    outcome = finish(trial)
    assert outcome.signal == signal.SIGKILL
    assert outcome.group.peak_bytes <= outcome.group.limit_bytes < 300 * MIB
    assert outcome.over is not None or outcome.group.oom_kills
    assert not path.exists()


@needs_group
def test_a_worker_that_the_kernel_killed_takes_the_trial_along(limited, finish) -> None:
    code = "import os, time\nif os.fork() == 0: b'x' * (2 << 30)\ntime.sleep(1000)"
    trial, _, _ = limited(code, limit=None, ram_bytes=None, wall_bytes=200 * MIB)
    outcome = finish(trial)
    assert (outcome.ended_by, outcome.over.what, outcome.group.oom_kills) == ("limit", "kernel", 1)
    assert outcome.seconds < 20.0


@needs_group
@pytest.mark.slow
def test_a_training_that_reads_and_writes_much_is_not_ended_for_the_page_cache(limited, finish, tmp_path) -> None:
    code = """
import sys
block = bytes(8 << 20)
with open(sys.argv[1], "wb") as file:
    for _ in range(80): file.write(block)
for _ in range(3):
    with open(sys.argv[1], "rb") as file:
        while file.read(8 << 20): pass
"""
    data = tmp_path / "data"
    trial, _, _ = limited(code, str(data), limit=128 * MIB)
    outcome = finish(trial)
    assert data.stat().st_size == 640 * MIB
    data.unlink()
    assert (outcome.ended_by, outcome.exit_code, outcome.over) == ("itself", 0, None)
    assert outcome.group.oom_kills == 0 and outcome.group.at_limit
    assert outcome.ram_guard.peak_bytes < 128 * MIB


def test_a_group_that_cannot_be_made_leaves_the_watchdog(limited, finish, tmp_path) -> None:
    place = PlaceForGroups(kind="cgroup v1", parent=str(tmp_path))
    trial, _, _ = limited("pass", group=place)
    outcome = finish(trial)
    assert (outcome.exit_code, outcome.group, outcome.ram_guard.by) == (0, None, "watchdog")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("vtune-")]


WAIT = "import time; print('ready', flush=True); time.sleep(1000)"


@needs_group
def test_the_group_holds_the_trial_and_nobody_else_and_is_gone_after_it(limited, finish, printed) -> None:
    code = "import subprocess, sys\nsubprocess.Popen(['sleep', '1000'], env={}, start_new_session=True)\n" + WAIT
    trial, folder, path = limited(code)
    printed(folder)
    assert {int(pid) for pid in (path / "cgroup.procs").read_text().split()} == {*trial.pids()}
    trial.kill("interrupt")
    finish(trial)
    assert not path.exists()


@needs_group
def test_when_its_supervisor_is_killed_the_group_is_swept(limited, finish, printed) -> None:
    trial, folder, path = limited(WAIT)
    printed(folder)
    os.kill(trial.own_pids[0], signal.SIGKILL)
    assert finish(trial).ended_by == "lost"
    assert not path.exists()


@needs_group
def test_when_vtune_and_its_supervisor_are_killed_the_next_vtune_removes_the_group(
    limited, printed, trials, wait_for
) -> None:
    trial, folder, path = limited("import os\nif os.fork() == 0: os.setsid()\n" + WAIT)
    printed(folder)
    # Nobody looks at this trial any more: as far as it goes, vtune is dead.
    os.kill(trial.own_pids[0], signal.SIGKILL)
    os.waitpid(trial.own_pids[0], 0)
    assert path.exists()
    assert sweep_stale(trials.root / "trials") == [folder]
    wait_for(lambda: not path.exists())


@pytest.mark.slow
@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("when", ["at-its-start", "at-a-look"])
def test_a_defect_of_the_watchdog_does_not_cost_the_trial(limited, finish, tmp_path, by, when) -> None:
    # A limit that is no number is a defect that the first reading, or the first look, meets.
    (tmp_path / "use").write_text("5\n")
    (tmp_path / "memory.stat").write_text("cache 1\n")
    around = {"groups_around": ((str(tmp_path), "use", "cache", "none"),)}
    odd = around if when == "at-its-start" else {"ram_bytes": "none"}
    trial, folder, path = limited("import time; time.sleep(1); print('done')", by=by, **odd)
    outcome = finish(trial)
    assert (outcome.ended_by, outcome.exit_code, outcome.over) == ("itself", 0, None)
    assert "TypeError" in outcome.ram_guard.failed
    assert (folder / "stdout.log").read_text() == "done\n"
    assert (folder / "supervisor.log").read_text().count("Traceback") == 1
    assert path is None or not path.exists()


@needs_group
def test_where_the_kernel_was_there_before_the_watchdog_the_limit_is_named_all_the_same(
    limited, finish, printed, wait_for, tmp_path
) -> None:
    code = """
import os, sys, time
print("ready", flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.01)
pid = os.fork()
if pid == 0: b'x' * (2 << 30)
os.waitpid(pid, 0)
os._exit(1)
"""
    trial, folder, _ = limited(code, str(tmp_path / "go"), limit=256 * MIB)
    printed(folder)
    (supervisor,), leader = trial.own_pids, trial.leader_pid
    os.kill(supervisor, signal.SIGSTOP)
    (tmp_path / "go").touch()
    wait_for(lambda: not process_of(leader).living)
    os.kill(supervisor, signal.SIGCONT)
    outcome = finish(trial)
    assert (outcome.ended_by, outcome.exit_code, outcome.group.oom_kills) == ("limit", 1, 1)
    assert (outcome.over.what, outcome.over.limit_bytes) == ("kernel", 256 * MIB)


@pytest.mark.slow
def test_looking_costs_less_than_a_hundredth_of_a_core(limited, printed) -> None:
    trial, folder, _ = limited(
        SHARES.replace("range(30)", "range(300)").replace("import os", "print('ready', flush=True)\nimport os"),
        "20",
        by="watchdog",
        limit=8 * GIB,
    )
    printed(folder)
    (supervisor,) = trial.own_pids

    def used_s() -> float:
        fields = Path(f"/proc/{supervisor}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before_s = used_s()
    time.sleep(4.0)
    # Ticks of 10 ms: four of them in four seconds.
    assert used_s() - before_s <= 0.04 + 0.02
    trial.kill("interrupt")
