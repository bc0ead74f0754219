"""What this process has to tell: hot records kept in memory until a write is worth it, and rare facts at once.

Nothing here may disturb the training: a disk that is full switches the recording off, without a word. In a full run,
which lasts days, records are counted and not kept, and facts that come again and again are told ever more seldom.
"""

from __future__ import annotations

import atexit
import os
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from _vtune_hooks.append_file import AppendFile
from _vtune_hooks.counts import Counts

LOADED, DELIVERED, BACKWARD, STEP, DEVICE_STEP, STAGE = 1, 2, 3, 4, 5, 6
# Counted in a full run, never recorded.
SAVED, PASS = 8, 9
MAIN_THREAD, NESTED, GRADIENTS = 1, 2, 4
# Of a stage's record.
PEAK_KNOWN = 2

RECORD = struct.Struct("<BBHIqdddII")
HEADER = struct.pack("<8sII", b"VTUNEREC", 1, RECORD.size)
# One write each fifth of a second is too rare to be felt, and often enough for a parent that looks every half second.
FLUSH_EVERY_S = 0.2
COUNT_EVERY_S = 1.0
# Of each name, in a full run: so many at once, then one a minute, with the minute doubled after each further so many.
FACTS_AT_ONCE, FACTS_APART_S = 100, 60.0

_pack = RECORD.pack
_now = time.monotonic


class Process:
    """The state of the recording in one process; made anew in a fork's child."""

    def __init__(self, folder: str, *, silent: bool, light: bool = False) -> None:
        pid = os.getpid()
        self.folder = folder
        # Inside a loader's worker: nothing but the batches that it loads is recorded.
        self.silent = silent
        self.off = not folder
        # In a full run.
        self.light = light
        self.write_every_s = COUNT_EVERY_S if light else FLUSH_EVERY_S
        self.told: dict[str, tuple[int, float]] = {}
        self.counts = Counts(os.path.join(folder, f"counts-{pid}.bin")) if light else None
        self.main_thread = threading.main_thread().ident
        self.pending: list[bytes] = []
        # Counted when the next of those above are written.
        self.beside: list[bytes] = []
        self.flushed_s = 0.0
        self.flushing = threading.Lock()
        self.greeted = False
        self.problems: set[str] = set()
        self.records = AppendFile(os.path.join(folder, f"steps-{pid}.bin"), header=HEADER)
        self.facts = AppendFile(os.path.join(folder, f"steps-{pid}.jsonl"))
        self.ends_noticed = False


here = Process(os.environ.get("VTUNE_TRIAL", ""), silent=False, light=bool(os.environ.get("VTUNE_LAUNCH")))
# What else must not be carried over a fork: a child tells its facts in a file of its own.
in_each_child: list[Callable[[], None]] = []
# What is only known, or only worth telling, when the process is about to leave.
before_the_end: list[Callable[[], None]] = []
# Where hello waits for something to tell.
after_the_hello: list[Callable[[], None]] = []


def record(
    kind: int, flags: int, source: int, group: int, index: int, a: float, b: float, c: float, n1: int, n2: int
) -> None:
    """`b` is now: it also decides when to write."""
    process = here
    # A list of finished records: appending and taking the first n are safe between threads without a lock.
    process.pending.append(_pack(kind, flags, source, group, index, a, b, c, n1, n2))
    if b - process.flushed_s >= process.write_every_s:
        flush()


def count_with_the_next(kind: int, source: int, a: float, b: float) -> None:
    """No sign of life that is worth a write: the first batch, which is one, would have to wait for the next."""
    flags = MAIN_THREAD if is_main_thread() else 0
    here.beside.append(_pack(kind, flags, source, 0, 0, a, b, 0.0, 0, 0))


def flush(*, wait: bool = False) -> None:
    process = here
    if not process.pending:
        return  # and the next record is written at once: a training that hangs after its first has told it
    process.flushed_s = _now()
    # Never wait by default: a signal handler of the training's own may have interrupted this very function.
    if not process.flushing.acquire(timeout=1.0 if wait else 0.0):
        return
    try:
        if not process.silent:
            say_hello()
        _notice_the_end_of_a_multiprocessing_child()
        count = len(process.pending)
        text = b"".join(process.pending[:count])
        del process.pending[:count]
        if process.counts is not None:
            count = len(process.beside)
            text = b"".join(process.beside[:count]) + text
            del process.beside[:count]
            process.counts.add(RECORD.iter_unpack(text))
            process.counts.write(process.flushed_s)
        elif not process.off:
            process.records.append(text)
    except Exception:
        process.off = True
    finally:
        process.flushing.release()


def fact(name: str, /, **fields: Any) -> None:
    process = here
    if process.off or process.silent:
        return
    now = _now()
    if name != "hello":
        say_hello()
        _notice_the_end_of_a_multiprocessing_child()
        if now - process.flushed_s >= process.write_every_s:
            flush()
        if process.light and not _is_worth_a_line(name, now):
            return
    _write_fact(process, name, now, fields)


def fact_of_a_worker(name: str, /, **fields: Any) -> None:
    """The only kind that a loader's worker tells."""
    if not here.off:
        _write_fact(here, name, _now(), fields)


def _write_fact(process: Process, name: str, now: float, fields: dict[str, Any]) -> None:
    try:
        import json

        line = json.dumps({"t": now, "fact": name, **fields}, default=repr)
        process.facts.append(line.encode() + b"\n")
    except Exception:
        # A run of days outlives a disk that is full for a while.
        process.off = not process.light


def fact_of_worker(name: str, /, **fields: Any) -> None:
    """Beside the batches that a loader's worker records: without a hello, for it is no training."""
    process = here
    if process.off or process.light:
        return
    try:
        import json

        line = json.dumps({"t": _now(), "fact": name, **fields}, default=repr)
        process.facts.append(line.encode() + b"\n")
    except Exception:
        process.off = True


def _is_worth_a_line(name: str, now: float) -> bool:
    told, last_s = here.told.get(name, (0, 0.0))
    if told >= FACTS_AT_ONCE and now - last_s < FACTS_APART_S * 2.0 ** (told // FACTS_AT_ONCE - 1):
        return False
    here.told[name] = told + 1, now
    return True


def problem(text: str) -> None:
    """A hook that could not be placed or failed: told once, never raised."""
    if text not in here.problems and len(here.problems) < 50:
        here.problems.add(text)
        fact("problem", text=text)


def say_hello() -> None:
    process = here
    if process.greeted:
        return
    process.greeted = True
    torch = sys.modules.get("torch")
    fact(
        "hello",
        pid=os.getpid(),
        ppid=os.getppid(),
        argv=list(getattr(sys, "argv", ())),
        executable=sys.executable,
        python=sys.version.split()[0],
        torch=str(getattr(torch, "__version__", None)),
        rank=_number_in_environment("RANK"),
        world_size=_number_in_environment("WORLD_SIZE"),
    )
    for begin in after_the_hello:
        begin()


def is_main_thread() -> bool:
    return threading.get_ident() == here.main_thread


def become_loader_worker() -> None:
    here.silent = True
    here.pending.clear()


def _number_in_environment(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else None


def _notice_the_end_of_a_multiprocessing_child() -> None:
    # Forked children of multiprocessing leave by os._exit: atexit does not run there, their finalizers do.
    multiprocessing = sys.modules.get("multiprocessing.process")
    if here.ends_noticed or multiprocessing is None or multiprocessing.parent_process() is None:
        return
    from multiprocessing.util import Finalize

    here.ends_noticed = True
    Finalize(None, _flush_at_exit, exitpriority=-1)


def last_words() -> None:
    for tell in before_the_end:
        try:
            tell()
        except Exception as error:
            problem(f"the last words: {error!r}")
    flush(wait=True)


def _flush_at_exit() -> None:
    last_words()
    if here.greeted:
        fact("left")  # nothing is missing


def _start_afresh_after_fork() -> None:
    global here
    parent = here
    parent.records.forget()
    parent.facts.forget()
    if parent.counts is not None:
        parent.counts.forget()
    here = Process(parent.folder, silent=parent.silent, light=parent.light)
    for forget in in_each_child:
        forget()


atexit.register(_flush_at_exit)
os.register_at_fork(after_in_child=_start_afresh_after_fork)
