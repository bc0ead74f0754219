"""The trial's processes: memory, processor time, waiting for a core, and what they read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vtune.domain.events import ProcessSample
from vtune.telemetry.mounts import Mounts
from vtune.telemetry.proc_files import ProcFiles

TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Stat:
    ppid: int
    name: str
    zombie: bool
    cpu_s: float
    # Of the children it has waited for: without it, a process that ended would take its seconds along.
    children_cpu_s: float
    # The kernel's letter: R runs, S sleeps, D waits for a device.
    state: str = ""


class Processes:
    """Each number fails alone."""

    def __init__(self, files: ProcFiles) -> None:
        self._files = files
        self._mounts = Mounts(files)

    def stats(self, pids: Sequence[int]) -> dict[int, Stat]:
        """Of those that are still there, each once."""
        return {pid: stat for pid in dict.fromkeys(pids) if (stat := self.stat(pid)) is not None}

    def stat(self, pid: int) -> Stat | None:
        line = self._files.of_process(pid, "stat")
        # The name stands in parentheses and may itself hold spaces and parentheses.
        opened, closed = line.find(b"("), line.rfind(b")")
        fields = line[closed + 2 :].split(None, 16)
        if len(fields) < 15:  # gone
            return None
        return Stat(
            int(fields[1]),
            line[opened + 1 : closed].decode("utf-8", errors="replace"),
            fields[0] in b"ZX",
            (int(fields[11]) + int(fields[12])) * TICK_S,
            (int(fields[13]) + int(fields[14])) * TICK_S,
            fields[0].decode(),
        )

    def look(self, stats: Mapping[int, Stat], now_s: float) -> tuple[tuple[ProcessSample, ...], int]:
        """The living ones, and how many anonymous bytes they hold, pages that they share counted for each."""
        self._mounts.look(stats, now_s)
        samples, anonymous = [], 0
        for pid, stat in stats.items():
            pages = self._files.of_process(pid, "statm").split(None, 3)
            if stat.zombie or len(pages) < 3:
                continue
            of_no_file = (int(pages[1]) - int(pages[2])) * _PAGE_BYTES
            anonymous += of_no_file
            requested, read = self._bytes_read(pid)
            samples.append(
                ProcessSample(
                    pid=pid,
                    ppid=stat.ppid,
                    name=stat.name,
                    rss_bytes=int(pages[1]) * _PAGE_BYTES,
                    cpu_s=stat.cpu_s,
                    anon_bytes=of_no_file,
                    queued_s=self._queued_s(pid),
                    requested_bytes=requested,
                    read_bytes=read if self._mounts.read_bytes_count(pid) else None,
                )
            )
        return tuple(samples), anonymous

    def _queued_s(self, pid: int) -> float | None:
        """Of the main thread: a loader worker makes its batches in it, a training waits for everything in it. The sum
        over all threads is no share of anybody's time, and costs a directory and a file a thread."""
        fields = self._files.of_process(pid, "schedstat").split()
        # A kernel that does not count writes three zeros; who runs was put on a core at least once.
        if len(fields) < 3 or fields[2] == b"0":
            return None
        return int(fields[1]) * 1e-9

    def _bytes_read(self, pid: int) -> tuple[int | None, int | None]:
        words = self._files.of_process(pid, "io").split()
        entries = dict(zip(words[::2], words[1::2], strict=False))
        requested, read = entries.get(b"rchar:"), entries.get(b"read_bytes:")
        return None if requested is None else int(requested), None if read is None else int(read)
