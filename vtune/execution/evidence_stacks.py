"""Where the processes of a silent trial are: their own stacks, on a signal that they named, and the kernel's word."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from vtune.domain.events import Fact, ProcessStack, StackFrame
from vtune.execution.process_tree import process_of, send
from vtune.journal.files import dump_json
from vtune.journal.paths import TrialPaths
from vtune.telemetry.proc_text import PROC, text_of

# A process that can answer does so within milliseconds, and writes a line at a time.
ANSWER_S = 0.5
SETTLED_S = 0.1
# Of a training with dozens of workers, all stuck in the kernel.
PATIENCE_S = 10.0
MOST_PROCESSES = 80
# Long enough to tell a process that computes from one that waits.
BUSY_OVER_S = 0.3
TICKS_PER_S = os.sysconf("SC_CLK_TCK")

FRAME = re.compile(r'^\s+File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)$')
OUR_FRAMES = "<frozen importlib._bootstrap of vtune>"


def take_stacks(folder: TrialPaths, pids: Sequence[int], facts: Sequence[Fact]) -> Sequence[ProcessStack]:
    """Into the folder. Only processes that said so, and their forked children, are sent anything."""
    begun_s = time.monotonic()
    ways = {
        fact.pid: (signum, descriptor)
        for fact in facts
        if isinstance(signum := fact.data.get("signal"), int)
        and isinstance(descriptor := fact.data.get("descriptor"), int)
    }
    ticks_before = {pid: _ticks(pid) for pid in pids[:MOST_PROCESSES]}
    states = {pid: (_state(pid), _waits_in(pid)) for pid in ticks_before}
    answers = {}
    for pid in ticks_before:
        if time.monotonic() - begun_s < PATIENCE_S:
            answers[pid] = threads_in(_ask(folder.stacks_text, pid, ways))
    time.sleep(max(0.0, BUSY_OVER_S - (time.monotonic() - begun_s)))
    seconds = time.monotonic() - begun_s
    found = []
    for pid, before in ticks_before.items():
        process, after = process_of(pid), _ticks(pid)
        if process is None or not process.living:
            continue
        *others, main = answers.get(pid) or [()]
        state, waits_in = states[pid]
        # On a busy machine one that computes has to wait for its core, too.
        state = "R" if _state(pid) == "R" and state == "S" else state
        found.append(
            ProcessStack(
                pid=pid,
                ppid=process.ppid,
                name=text_of(PROC / str(pid) / "comm").strip(),
                state=state,
                waits_in=waits_in,
                busy=None if before is None or after is None else (after - before) / TICKS_PER_S / seconds,
                frames=main,
                threads=tuple(others),
            )
        )
    with contextlib.suppress(OSError):
        dump_json(folder.stacks, found)
    return found


def threads_in(text: str) -> list[tuple[StackFrame, ...]]:
    """As faulthandler writes them: the main thread last."""
    threads: list[list[StackFrame]] = []
    for line in text.splitlines():
        if line.startswith(("Thread ", "Current thread ", "Stack (")) and "C stack" not in line:
            threads.append([])
        elif threads and (frame := FRAME.match(line)) and frame["file"] != OUR_FRAMES:
            threads[-1].append(
                StackFrame(file=frame["file"], line=int(frame["line"]), function=frame["function"].strip())
            )
    return [tuple(frames) for frames in threads]


def _ask(target: Path, pid: int, ways: Mapping[int, tuple[int, int]]) -> str:
    process = process_of(pid)
    way = _way_of(pid, ways)
    if process is None or way is None or not _would_answer(pid, way, target):
        return ""
    start = _size(target)
    send(process, way[0])
    sent_s = grown_s = time.monotonic()
    size = start
    while (now := time.monotonic()) - grown_s < (SETTLED_S if size > start else ANSWER_S) and now - sent_s < 2.0:
        time.sleep(0.01)
        if (current := _size(target)) > size:
            size, grown_s = current, now
    try:
        with open(target, "rb") as file:
            file.seek(start)
            return file.read(size - start).decode("utf-8", errors="replace")
    except OSError:
        return ""


def _way_of(pid: int, ways: Mapping[int, tuple[int, int]]) -> tuple[int, int] | None:
    """Its own, or that of the process which it was forked from."""
    seen: Collection[int] = set()
    while pid not in ways and pid not in seen:
        seen = {*seen, pid}
        process = process_of(pid)
        if process is None:
            return None
        pid = process.ppid
    return ways.get(pid)


def _would_answer(pid: int, way: tuple[int, int], target: Path) -> bool:
    """It has a handler for the signal, which would end it otherwise, and the handler's file is still ours."""
    signum, descriptor = way
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)", text_of(PROC / str(pid) / "status"), re.MULTILINE)
    if caught is None or not int(caught[1], 16) >> (signum - 1) & 1:
        return False
    try:
        return os.path.samestat(os.stat(PROC / str(pid) / "fd" / str(descriptor)), os.stat(target))
    except OSError:
        return False


def _state(pid: int) -> str:
    return text_of(PROC / str(pid) / "stat").rpartition(")")[2].strip()[:1]


def _ticks(pid: int) -> int | None:
    fields = text_of(PROC / str(pid) / "stat").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12]) if len(fields) > 12 else None


def _waits_in(pid: int) -> str | None:
    name = text_of(PROC / str(pid) / "wchan").strip()
    return name if name not in ("", "0") else None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
