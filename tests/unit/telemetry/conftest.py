"""A /proc of files, to be filled by a test."""

from __future__ import annotations

from pathlib import Path

import pytest

MIB = 1024 * 1024


class FakeProc:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("self/cgroup", "")
        self.write("self/mountinfo", "")
        self.machine(0)
        self.write("meminfo", "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:    8388608 kB\n")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def machine(self, busy_ticks: int, idle_ticks: int = 0) -> None:
        """Eighths in every kind of work: user nice system idle iowait irq softirq steal guest."""
        b = busy_ticks // 4
        user = busy_ticks - 3 * b
        self.write("stat", f"cpu  {user} 0 {b} {idle_ticks} 77 0 {b} {b} 0 0\ncpu0 1 2 3\n")

    def process(
        self, pid: int, *, ppid: int = 1, name: str = "python", state: str = "S", ticks: int = 0, children: int = 0
    ) -> None:
        fields = [state, ppid, 0, 0, 0, 0, 0, 0, 0, 0, 0, ticks, 0, children, 0, 20, 0, 1, 0, 99]
        self.write(f"{pid}/stat", f"{pid} ({name}) {' '.join(map(str, fields))}\n")
        self.write(f"{pid}/statm", "1000 256 10 1 0 100 0\n")

    def shares(self, pid: int, *, anonymous_kib: int, shared_kib: int) -> None:
        rows = {"Rss": 99999, "Pss": 88888, "Pss_Anon": anonymous_kib, "Pss_File": 7777, "Pss_Shmem": shared_kib}
        text = "".join(f"{key}:      {value} kB\n" for key, value in rows.items())
        self.write(f"{pid}/smaps_rollup", "55e0-7ffd ---p 00000000 00:00 0      [rollup]\n" + text)

    def group(self, line: str, mount: str, files: dict[str, int | str]) -> None:
        """One line of /proc/self/cgroup, one of mountinfo, and the files of that group."""
        with open(self.root / "self/cgroup", "a") as file:
            file.write(line + "\n")
        with open(self.root / "self/mountinfo", "a") as file:
            file.write(mount + "\n")
        for path, value in files.items():
            self.write(path, f"{value}\n")


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path / "proc")
