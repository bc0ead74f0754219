"""What a trial's tree holds and what the machine has left, by numbers that are cheap enough to read all the time.

Loaded by the supervisor, like process_tree.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Collection, Iterator, Sequence

from vtune.execution import shm

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MOST_KEPT = 256


def lag_of_a_process(release: str, cores: int) -> int | None:
    """Of one process; None where the kernel sets no bound."""
    numbers = release.split(".")[:2]
    if len(numbers) < 2 or not all(number.isdigit() for number in numbers) or [int(n) for n in numbers] < [6, 2]:
        return None
    return max(32, 2 * cores) * cores * _PAGE_BYTES


_LAG_BYTES = lag_of_a_process(os.uname().release, os.cpu_count() or 1)


class TreeReading:
    def __init__(self, proc: str = "/proc", shm_path: str = shm.SHM) -> None:
        self._proc, self._shm_path = proc, shm_path
        self._files: dict[int, int] = {}
        self._meminfo = os.open(f"{proc}/meminfo", os.O_RDONLY | os.O_CLOEXEC)
        self._segments_before = _names(shm_path)

    def anonymous_bytes(self, pids: Collection[int]) -> list[int]:
        """Of each. Their sum is never less than what they hold together: pages that forked processes share count for
        each."""
        for gone in self._files.keys() - pids:
            os.close(self._files.pop(gone))
        return self._anonymous(pids)

    def _anonymous(self, pids: Collection[int]) -> list[int]:
        found = []
        for pid in pids:
            pages = self._statm(pid).split(None, 3)
            if len(pages) >= 3:
                found.append((int(pages[1]) - int(pages[2])) * _PAGE_BYTES)
        return found

    def _statm(self, pid: int) -> bytes:
        """Its file is kept open: a reading costs a fifth of opening, reading and closing."""
        try:
            if pid in self._files:
                return os.pread(self._files[pid], 128, 0)
            descriptor = os.open(f"{self._proc}/{pid}/statm", os.O_RDONLY | os.O_CLOEXEC)
            if len(self._files) < _MOST_KEPT:
                self._files[pid] = descriptor
                return os.pread(descriptor, 128, 0)
            try:
                return os.pread(descriptor, 128, 0)
            finally:
                os.close(descriptor)
        except OSError:  # gone
            return b""

    def machine(self) -> tuple[int | None, int | None]:
        """What is available, and what is shared memory, of whomever."""
        text = os.pread(self._meminfo, 8192, 0)
        return _kib(text, b"\nMemAvailable:"), _kib(text, b"\nShmem:")

    def lag_bytes(self, processes: int) -> int:
        """How far the sum of so many `statm` may be from the truth. Since Linux 6.2 each core counts up to a batch of
        pages for itself (`percpu_counter_batch`); before, threads count, whose number is not asked for: unbounded."""
        return processes * _LAG_BYTES if _LAG_BYTES is not None else sys.maxsize

    def exact_bytes(self, pids: Sequence[int]) -> tuple[int, int] | None:
        """Each page once, however many processes hold it, and what was put into /dev/shm and is mapped by nobody.
        Beside it the sum of `anonymous_bytes` as of this reading: each process is asked for both at one time, since
        the tree may grow while the others are read."""
        anonymous = shared = cheap = 0
        for pid in pids:
            try:
                with open(f"{self._proc}/{pid}/smaps_rollup", "rb", buffering=0) as file:
                    text = file.readall()
            except (FileNotFoundError, ProcessLookupError):
                if self._is_of_a_living(pid):
                    return None  # a kernel without this file
                continue
            except OSError:
                return None  # another user's: the sum would be too small
            if not text:
                continue
            private, common = _kib(text, b"\nPss_Anon:"), _kib(text, b"\nPss_Shmem:")
            if private is None or common is None:
                return None  # before Linux 5.9
            anonymous, shared = anonymous + private, shared + common
            cheap += sum(self._anonymous([pid]))
        unnamed = self._unnamed_bytes(pids)
        named = self._new_segments_bytes(pids) if shared < unnamed + self._new_at_most() else 0
        return anonymous + max(shared, unnamed + named), cheap

    def _is_of_a_living(self, pid: int) -> bool:
        """Of a zombie, which holds nothing any more, there are zeros."""
        try:
            with open(f"{self._proc}/{pid}/statm", "rb", buffering=0) as file:
                return bool(file.read(128).strip(b"0 \n"))
        except OSError:
            return False

    def held_in_shm_bytes(self, pids: Collection[int]) -> int:
        """Of /dev/shm: what the tree has opened or mapped, under a name or none, and what it left there."""
        by_inode: dict[int, int] = {}
        for pid in pids:
            for inode, size in self._opened_in_shm(pid):
                by_inode[inode] = max(size, by_inode.get(inode, 0))
        return max(sum(by_inode.values()), self._new_segments_bytes([*pids]))

    def _unnamed_bytes(self, pids: Collection[int]) -> int:
        """A loader's batch on its way is a descriptor without a name, mapped by nobody; so is what a program keeps in
        files of memory."""
        found = {inode: size for pid in pids for inode, size, is_named in self._descriptors(pid) if not is_named}
        # Their numbers are of another file system than those of /dev/shm.
        files = {inode: size for pid in pids for inode, size, _ in self._descriptors(pid, "/memfd:")}
        return sum(found.values()) + sum(files.values())

    def _descriptors(self, pid: int, begin: str | None = None) -> Iterator[tuple[int, int, bool]]:
        """Of /dev/shm, or of what else begins so: inode, size, whether it still has a name."""
        begin = begin or self._shm_path + "/"
        with contextlib.suppress(OSError):
            for name in os.listdir(f"{self._proc}/{pid}/fd"):
                path = f"{self._proc}/{pid}/fd/{name}"
                with contextlib.suppress(OSError):
                    if os.readlink(path).startswith(begin):
                        status = os.stat(path)
                        yield status.st_ino, status.st_blocks * 512, status.st_nlink > 0

    def _opened_in_shm(self, pid: int) -> Iterator[tuple[int, int]]:
        here = os.fsencode(self._shm_path) + b"/"
        yield from ((inode, size) for inode, size, _ in self._descriptors(pid))
        with contextlib.suppress(OSError), open(f"{self._proc}/{pid}/maps", "rb") as file:
            for line in file:
                if here in line:
                    begin, _, end = line.split(None, 1)[0].partition(b"-")
                    yield int(line.split(None, 5)[4]), int(end, 16) - int(begin, 16)

    def shm_left_bytes(self) -> int | None:
        try:
            status = os.statvfs(self._shm_path)
        except OSError:
            return None
        return status.f_bavail * status.f_frsize

    def shm_bytes(self) -> int | None:
        try:
            status = os.statvfs(self._shm_path)
        except OSError:
            return None
        return status.f_blocks * status.f_frsize

    def _new_at_most(self) -> int:
        return sum(self._sizes(_names(self._shm_path) - self._segments_before).values())

    def _new_segments_bytes(self, pids: Sequence[int]) -> int:
        """Of those that appeared since the start: what nobody outside the tree uses. A file that was written and closed
        shows in no process, and takes memory all the same."""
        new = _names(self._shm_path) - self._segments_before
        ours = shm.claim(new, users=pids, namesakes=pids)
        if new - ours:
            others = {int(name) for name in os.listdir(self._proc) if name.isdigit()} - {*pids}
            ours |= new - shm.claim(new, users=others, namesakes=others)
        return sum(self._sizes(ours).values())

    def _sizes(self, names: Collection[str]) -> dict[str, int]:
        """Of those that belong to this user; folders (joblib) with what is in them."""
        sizes, me = {}, os.geteuid()
        for name in names:
            path = os.path.join(self._shm_path, name)
            with contextlib.suppress(OSError):
                status = os.lstat(path)
                if status.st_uid != me:
                    continue
                sizes[name] = status.st_blocks * 512
                for folder, _, files in os.walk(path):
                    for file in files:
                        with contextlib.suppress(OSError):
                            sizes[name] += os.lstat(os.path.join(folder, file)).st_blocks * 512
        return sizes


class GroupsAround:
    """Of the groups that limit this process: what the tightest leaves, page cache counted as free."""

    def __init__(self, groups: Sequence[tuple[str, str, str, int]]) -> None:
        # Folder, name of the file with the use, name of the entry with the cache, limit.
        self._groups = groups

    def available_bytes(self) -> int | None:
        left = []
        for folder, use, cache, limit in self._groups:
            try:
                with open(f"{folder}/{use}", "rb", buffering=0) as file:
                    used = int(file.read(64))
                with open(f"{folder}/memory.stat", "rb", buffering=0) as file:
                    text = b"\n" + file.read(16384)
            except (OSError, ValueError):
                continue
            found = _word_after(text, b"\n" + cache.encode() + b" ")
            left.append(max(0, limit - used + (int(found) if found.isdigit() else 0)))
        return min(left, default=None)


def _names(folder: str) -> set[str]:
    try:
        return set(os.listdir(folder))
    except OSError:
        return set()


def _word_after(text: bytes, key: bytes) -> bytes:
    at = text.find(key)
    return text[at + len(key) :].partition(b"\n")[0].strip() if at >= 0 else b""


def _kib(text: bytes, key: bytes) -> int | None:
    at = text.find(key)
    return int(text[at + len(key) : at + len(key) + 24].split(None, 1)[0]) * 1024 if at >= 0 else None
