"""Starting what is measured, under a time limit and the trap's own limits, and leaving nothing of it behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

HERE = Path(__file__).resolve().parent
LOOK_EVERY_S = 0.1
# Reading the memory of a tree takes it some ten milliseconds a process.
WEIGH_EVERY_S = 0.4
# A program that owns processes of its own ends them within this time of Ctrl-C.
INTERRUPT_S = 15.0
SET_CHILD_SUBREAPER = 36
# mount and exec in one shell: the small /dev/shm is seen by this child and its own, and is gone with them.
IN_SMALL_SHM = 'mount -t tmpfs -o size="$0" tmpfs /dev/shm && exec "$@"'


@dataclass(frozen=True, kw_only=True)
class Ended:
    code: int
    stdout: str
    stderr: str
    seconds: float
    # Why it was ended from here: "time" or "ram".
    cut: str | None
    ram_peak_bytes: int | None

    @property
    def last_words(self) -> str:
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        return lines[-1][:300] if lines else f"exit code {self.code}, it said nothing"


def adopt_orphans() -> None:
    """Whatever a child leaves behind becomes this process's own, and is found there."""
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1)


def run_child(
    command: Sequence[str | Path],
    *,
    cap_s: float,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    ram_limit_bytes: int | None = None,
    shm_bytes: int | None = None,
) -> Ended:
    words = [str(word) for word in command]
    if shm_bytes is not None:
        words = ["unshare", "--mount", "sh", "-c", IN_SMALL_SHM, str(shm_bytes), *words]
    full = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1", **(env or {})}
    # Not each launch its own compiled files beside the trainings.
    full["PYTHONDONTWRITEBYTECODE"] = "1"
    begun = time.monotonic()
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        known = {child.pid for child in psutil.Process().children()}
        process = subprocess.Popen(
            words, env=full, cwd=cwd, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
        )
        try:
            cut, peak = _watch(process, until=begun + cap_s, ram_limit_bytes=ram_limit_bytes)
            # What it took; ending what is left is not its time.
            seconds = time.monotonic() - begun
        finally:
            _end(process, known)
        stdout.seek(0)
        stderr.seek(0)
        return Ended(
            code=process.returncode,
            stdout=stdout.read(),
            stderr=stderr.read(),
            seconds=seconds,
            cut=cut,
            ram_peak_bytes=peak,
        )


def _watch(
    process: subprocess.Popen[bytes], *, until: float, ram_limit_bytes: int | None
) -> tuple[str | None, int | None]:
    """Until it has ended, or why it has to be; and the most memory that its tree was seen to hold."""
    peak: int | None = None
    weighed_at = 0.0
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LOOK_EVERY_S)
            return None, peak
        now = time.monotonic()
        if now > until:
            return "time", peak
        if ram_limit_bytes is not None and now > weighed_at + WEIGH_EVERY_S:
            weighed_at = now
            peak = max(peak or 0, tree_bytes(process.pid))
            if peak > ram_limit_bytes:
                return "ram", peak


def tree_bytes(pid: int) -> int:
    """Anonymous and shared memory of a process and its descendants; what is mapped twice counts once."""
    try:
        processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    total = 0
    for process in processes:
        with contextlib.suppress(OSError, ValueError):
            text = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii")
            for line in text.splitlines():
                if line.startswith(("Pss_Anon:", "Pss_Shmem:")):
                    total += int(line.split()[1]) * 1024
    return total


def _end(process: subprocess.Popen[bytes], known: set[int]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(INTERRUPT_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    # Sessions of their own that outlived it, now adopted: those that are ending get a moment.
    patience = time.monotonic() + INTERRUPT_S
    while (left := _left(known)) and time.monotonic() < patience + INTERRUPT_S:
        if time.monotonic() > patience:
            for stray in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    stray.kill()
        psutil.wait_procs(left, timeout=LOOK_EVERY_S)


def _left(known: set[int]) -> list[psutil.Process]:
    """A neighbour was there before, and what it starts is its own."""
    left: list[psutil.Process] = []
    for child in psutil.Process().children():
        if child.pid not in known:
            with contextlib.suppress(psutil.NoSuchProcess):
                left += [child, *child.children(recursive=True)]
    return left


def can_shrink_shm() -> bool:
    """A small /dev/shm of one's own needs a mount, and a mount needs root."""
    try:
        tried = subprocess.run(
            ["unshare", "--mount", "sh", "-c", IN_SMALL_SHM, "1048576", "true"],
            capture_output=True, timeout=10, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tried.returncode == 0


def vtune_env(beside_neighbour: bool) -> dict[str, str]:
    """The trap with a neighbour asks which settings are chosen in spite of it; vtune by itself would wait."""
    ignored = {"VTUNE_OTHER_PROGRAMS": "ignore"} if beside_neighbour else {}
    return {"PYTHONPATH": str(HERE.parents[1]), **ignored}


@contextlib.contextmanager
def neighbour(wanted: bool) -> Iterator[None]:
    """Somebody else's work, coming and going, as long as this lasts."""
    if not wanted:
        yield
        return
    process = subprocess.Popen(
        [sys.executable, str(HERE / "neighbour.py")],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def forget_files(folder: Path) -> None:
    """Out of the page cache, so that each reader begins with a cold disk."""
    for path in sorted(folder.glob("*.bin")):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
