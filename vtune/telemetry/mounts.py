"""Whether the kernel's count of bytes read from a device tells all that a process got from storage.

It counts what the process itself asks of a block device, page-ins included. Behind FUSE it is the daemon that asks,
network file systems count in their own ways or not at all, and ZFS counts hits of its cache as reads.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from vtune.telemetry.mountinfo import mounts
from vtune.telemetry.proc_files import ProcFiles

# On a block device, or in memory for good: reading the latter is a hit indeed.
_COUNTED = frozenset((
    "bcachefs", "btrfs", "devtmpfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "hugetlbfs", "iso9660", "jfs",
    "nilfs2", "ntfs3", "overlay", "ramfs", "rootfs", "squashfs", "tmpfs", "udf", "vfat", "xfs",
))  # fmt: skip
# No data lie there.
_NO_STORAGE = frozenset((
    "autofs", "binder", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "cpuset", "debugfs", "devpts",
    "efivarfs", "fusectl", "fuse.gvfsd-fuse", "fuse.lxcfs", "fuse.portal", "mqueue", "nfsd", "nsfs", "proc", "pstore",
    "resctrl", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs", "tracefs",
))  # fmt: skip
# Code is read from storage, too, but it is not the data.
_CODE = (".py", ".pyc", ".so")
LOOK_EVERY_S = 1.0
# A process with thousands of open files is looked at in part.
_MOST_LINKS = 64


def counts_reads(filesystem: str) -> bool:
    """Of a file system that is not known here nobody knows: its counts are not believed."""
    return filesystem in _COUNTED


class Mounts:
    """A machine with nothing but counted mounts costs one look. On others it is told by the files that a process was
    seen to hold open: an uncounted one among them, or none at all, and what it read is unknown."""

    def __init__(self, files: ProcFiles) -> None:
        self._proc = files.root
        self._mounts = mounts(Path(files.root))
        self._all_counted = all(
            counts_reads(mount.filesystem) or mount.filesystem in _NO_STORAGE for mount in self._mounts
        )
        self._due_s = float("-inf")
        # By process: files seen open on a counted mount, and on another.
        self._seen: dict[int, tuple[int, int]] = {}

    def look(self, pids: Iterable[int], now_s: float) -> None:
        if self._all_counted or now_s < self._due_s:
            return
        self._due_s = now_s + LOOK_EVERY_S
        self._seen = {pid: self._look(pid) for pid in pids}

    def read_bytes_count(self, pid: int) -> bool:
        counted, others = self._seen.get(pid, (0, 0))
        return self._all_counted or (counted > 0 and others == 0)

    def _look(self, pid: int) -> tuple[int, int]:
        counted, others = self._seen.get(pid, (0, 0))
        folder = f"{self._proc}/{pid}/fd"
        try:
            numbers = os.listdir(folder)[:_MOST_LINKS]
        except OSError:
            return counted, others
        for number in numbers:
            try:
                path = os.readlink(f"{folder}/{number}")
                # Logs are written to, not read; the link's own mode says what the file was opened for.
                if path.startswith("/") and not path.endswith(_CODE) and self._is_read(f"{folder}/{number}"):
                    kind = self._kind_of(path)
                    counted += counts_reads(kind)
                    others += not counts_reads(kind) and kind not in _NO_STORAGE
            except OSError:  # closed meanwhile
                continue
        return counted, others

    def _is_read(self, link: str) -> bool:
        return bool(os.lstat(link).st_mode & stat.S_IRUSR) and stat.S_ISREG(os.stat(link).st_mode)

    def _kind_of(self, path: str) -> str:
        """A later mount hides an earlier one at the same place."""
        below = [
            (len(one.top), one.filesystem)
            for one in self._mounts
            if path == one.top or path.startswith(one.top.rstrip("/") + "/")
        ]
        longest = max((length for length, _ in below), default=0)
        return next((kind for length, kind in reversed(below) if length == longest), "")
