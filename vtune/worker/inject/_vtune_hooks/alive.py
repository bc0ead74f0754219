"""For a process that falls silent or fails: its stacks, on a signal that nobody else uses, and the error that ended it.

Nothing of either reaches the training's own output, and no hook of Python's for errors is replaced.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from types import TracebackType

from _vtune_hooks import recorder
from _vtune_hooks.frames import UNSEEN

# Real-time signals near the end: C libraries take the first ones for themselves, programs that use any count up from
# there, and valgrind has the last.
CANDIDATES = range(signal.SIGRTMAX - 3, signal.SIGRTMAX - 13, -1)
STACKS = "stacks.txt"
MOST_CHARS = 2000

_registered = [False]


def begin() -> None:
    """Once a process. A fork's child keeps handler and file; what it starts by exec has neither."""
    process = recorder.here
    if _registered[0] or process.off or process.silent:
        return
    _registered[0] = True
    try:
        import faulthandler

        signum = _free_signal()
        if signum is None:
            return
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(os.path.join(process.folder, STACKS), flags, 0o666)
        faulthandler.register(signum, file=descriptor, all_threads=True, chain=False)
        recorder.fact("stacks", signal=signum, descriptor=descriptor)
    except Exception as error:
        recorder.problem(f"stacks cannot be told: {error!r}")


def _free_signal() -> int | None:
    """One that does what it does by default: C code may have handlers that Python does not know of."""
    taken = 0
    with open("/proc/self/status", "rb", buffering=0) as file:
        for line in file.read(16384).splitlines():
            if line.startswith((b"SigBlk:", b"SigIgn:", b"SigCgt:")):
                taken |= int(line.split()[1], 16)
    for signum in CANDIDATES:
        if not taken >> (signum - 1) & 1 and signal.getsignal(signum) is signal.SIG_DFL:
            return int(signum)
    return None


def _tell_what_ended_it() -> None:
    """Python keeps the error that nobody caught: the process is about to leave because of it."""
    process = recorder.here
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if not isinstance(error, BaseException) or process.silent or not process.greeted:
        return
    kind = type(error)
    name = (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )
    text = ""
    with contextlib.suppress(Exception):
        text = str(error)
    recorder.fact("failed", type=name, text=text[:MOST_CHARS], where=_where(error.__traceback__), lost=_lost_children())


def _lost_children() -> list[tuple[int, int]]:
    """Processes of multiprocessing's that did not end well, as (pid, exit code): of a worker that died while its batch
    was handed over, torch's own error tells nothing."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    lost = []
    for child in list(getattr(multiprocessing, "_dangling", ())):
        with contextlib.suppress(Exception):
            if child.pid is not None and child.exitcode not in (None, 0, -signal.SIGTERM):
                lost.append((child.pid, child.exitcode))
    return lost


def _where(traceback: TracebackType | None) -> str | None:
    """The innermost place in the training's own code."""
    own = last = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        file = code.co_filename
        if file != UNSEEN and not file.startswith("<frozen "):
            last = f"{file}:{traceback.tb_lineno} in {code.co_name}"
            if not _is_library(file):
                own = last
        traceback = traceback.tb_next
    return own or last


def _is_library(file: str) -> bool:
    return file.startswith((os.path.dirname(os.__file__) + os.sep, os.path.dirname(__file__) + os.sep)) or (
        f"{os.sep}site-packages{os.sep}" in file or f"{os.sep}dist-packages{os.sep}" in file
    )


recorder.before_the_end.append(_tell_what_ended_it)
