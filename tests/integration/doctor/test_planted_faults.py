"""A planted fault turns its own cell red, saying what was expected and what was seen; the others stay as they are."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from vtune import api
from vtune.domain.events import TelemetrySample
from vtune.domain.selftest import CellResult
from vtune.selftest.session import run_selftest
from vtune.telemetry.host import HostSampler
from vtune.telemetry.machine import this_machine

pytestmark = [pytest.mark.slow, pytest.mark.timing]

# Every monotonic second of the training lasts for 1.25: its rates would look 25 % better than they are.
SLOW_CLOCK = """
import time
real = time.monotonic
time.monotonic = lambda: real() * 0.8
"""
# The second process that is forked is the second worker: what it records goes nowhere, as on a disk that refuses it.
UNSEEN_WORKER = """
forked = []
def lose_the_second():
    if len(forked) == 2:
        os.symlink(os.devnull, os.path.join(os.environ["VTUNE_TRIAL"], f"steps-{os.getpid()}.bin"))
os.register_at_fork(before=lambda: forked.append(1), after_in_child=lose_the_second)
"""


def statuses(results: Path, *names: str, **more: object) -> dict[str, CellResult]:
    survey = api.doctor(results=results, python=sys.executable).survey
    done = run_selftest(
        survey, this_machine(), results=results, inject=api.INJECT, only=lambda cell: cell.name in names, **more
    )
    return {cell.cell: cell for cell in done.cells}


def test_a_slow_clock_in_the_training_is_red_and_the_rates_are_not_judged(
    tmp_path: Path, plant: Callable[[str], None]
) -> None:
    plant(SLOW_CLOCK)
    cells = statuses(tmp_path / "results", "clocks", "rate_4", "memory")
    assert {name: cell.status for name, cell in cells.items()} == {
        "clocks": "failed", "rate_4": "not_judged", "memory": "passed",
    }  # fmt: skip
    assert "the training's clock ran at 0.80" in cells["clocks"].sentence
    assert "expected 1 within 0.5%" in cells["clocks"].sentence


def test_a_worker_that_is_not_seen_is_red_and_named(tmp_path: Path, plant: Callable[[str], None]) -> None:
    plant(UNSEEN_WORKER)
    cells = statuses(tmp_path / "results", "clocks", "rate_4", "workers")
    assert {name: cell.status for name, cell in cells.items()} == {
        "clocks": "passed", "rate_4": "passed", "workers": "failed",
    }  # fmt: skip
    assert "batches of worker 1 that the training used, seen 0" in cells["workers"].sentence


class CountsPagesTwice(HostSampler):
    """Reads a /proc in which each process owns whatever it shares: what a sum of resident sizes would tell."""

    def __init__(self, pids: Callable[[], Sequence[int]], own_pids: Sequence[int] = ()) -> None:
        self.mirror = Path(tempfile.mkdtemp(prefix="vt-mirror-"))
        super().__init__(pids, own_pids, proc=self.mirror)
        self._named = pids

    def sample(self, now_s: float, with_pss: bool, *, needed: bool = False) -> TelemetrySample:
        # Written over, as /proc is: whoever keeps a file open reads what it says now.
        for pid in self._named():
            self._copy(pid)
        for name in ("stat", "meminfo"):
            (self.mirror / name).write_bytes(Path("/proc", name).read_bytes())
        return super().sample(now_s, with_pss, needed=needed)

    def _copy(self, pid: int) -> None:
        real, copy = Path(f"/proc/{pid}"), self.mirror / str(pid)
        copy.mkdir(exist_ok=True)
        for name in ("stat", "statm", "io", "schedstat"):
            (copy / name).write_bytes((real / name).read_bytes())
        lines = (real / "smaps_rollup").read_text().splitlines()
        sizes = {line.split(":")[0]: line.split()[1] for line in lines[1:]}
        sizes["Pss_Anon"] = sizes["Anonymous"]
        (copy / "smaps_rollup").write_text("\n".join([lines[0], *(f"{k}: {v} kB" for k, v in sizes.items())]) + "\n")


@pytest.fixture
def no_mirrors() -> Iterator[None]:
    yield
    for folder in Path(tempfile.gettempdir()).glob("vt-mirror-*"):
        shutil.rmtree(folder)


def test_memory_that_is_counted_twice_is_red(tmp_path: Path, no_mirrors: None) -> None:
    cells = statuses(tmp_path / "results", "memory", "mapped_file", sampler=CountsPagesTwice)
    assert {name: cell.status for name, cell in cells.items()} == {"memory": "failed", "mapped_file": "passed"}
    assert "expected 240 MiB of anonymous memory in the tree, seen 3" in cells["memory"].sentence


def test_neighbours_that_burn_all_cores_turn_nothing_red_without_being_named(tmp_path: Path) -> None:
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        cells = statuses(tmp_path / "results", "clocks", "memory", "mapped_file", "rate_4", "workers")
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    assert max(cell.others_cores or 0 for cell in cells.values()) > 0.3
    for cell in cells.values():
        assert cell.status in ("passed", "not_judged") or "disturbed by others" in cell.sentence
        assert cell.status != "failed" or cell.repeated
