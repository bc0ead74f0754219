"""What this kernel and this sandbox let a process see and do: it decides what a trial can measure."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from dataclasses import dataclass
from pathlib import Path

from vtune.telemetry.cgroup import PROC, MemoryGroups

# The number is the same on all architectures that came after the tables were unified.
_CACHESTAT = 451


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    release: str
    # Time that a process was ready to run and had no core.
    schedstat: bool
    # Each page of a tree counted once, page cache apart (Linux 5.9).
    pss_anon: bool
    # Bytes read, by process.
    process_io: bool
    # How much of a file lies in the page cache (Linux 6.5).
    cachestat: bool
    pidfd: bool
    # Who may attach to a process (0 to 3); None without that module.
    yama_ptrace_scope: int | None
    # /proc hides other users' processes: neighbours have no names.
    proc_hides_others: bool
    # Its own memory group could be made smaller groups in.
    memory_group_writable: bool


def kernel(proc: Path = PROC) -> Kernel:
    own = proc / "self"
    return Kernel(
        release=platform.release(),
        schedstat=len(_text(own / "schedstat").split()) == 3,
        pss_anon="Pss_Anon:" in _text(own / "smaps_rollup"),
        process_io="read_bytes:" in _text(own / "io"),
        cachestat=_has_cachestat(),
        pidfd=hasattr(os, "pidfd_open"),
        yama_ptrace_scope=_integer(proc / "sys/kernel/yama/ptrace_scope"),
        proc_hides_others="hidepid=" in _proc_options(proc) and "hidepid=0" not in _proc_options(proc),
        memory_group_writable=_memory_group_writable(proc),
    )


def _has_cachestat() -> bool:
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        # A descriptor that cannot be: a kernel that knows the call says so, another does not know the call.
        libc.syscall(_CACHESTAT, -1, 0, 0, 0)
    except (OSError, AttributeError):
        return False
    return ctypes.get_errno() == errno.EBADF


def _proc_options(proc: Path) -> str:
    for line in _text(proc / "self" / "mountinfo").splitlines():
        mount, _, kind = line.partition(" - ")
        if kind.startswith("proc "):
            return " ".join(mount.split()[5:]) + " " + kind
    return ""


def _memory_group_writable(proc: Path) -> bool:
    folder = MemoryGroups(proc).own_folder()
    return folder is not None and os.access(folder, os.W_OK)


def _integer(path: Path) -> int | None:
    try:
        return int(_text(path))
    except ValueError:
        return None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
