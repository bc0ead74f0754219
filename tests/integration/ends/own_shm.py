"""Runs a program with a /dev/shm of its own: `own_shm.py SIZE PIDFILE LISTFILE COMMAND…`. Lists what is left in it."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys

NEW_MOUNTS, RECURSIVE_PRIVATE = 0x00020000, 0x4000 | 0x40000
CANNOT = 99


def main() -> int:
    size, pid_file, list_file, *command = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    for failed in (
        libc.unshare(NEW_MOUNTS),
        libc.mount(b"none", b"/", None, RECURSIVE_PRIVATE, None),
        libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, f"size={size}".encode()),
    ):
        if failed:
            return CANNOT
    program = subprocess.Popen(command)
    with open(f"{pid_file}.new", "w") as file:
        file.write(str(program.pid))
    os.replace(f"{pid_file}.new", pid_file)
    code = program.wait()
    with open(list_file, "w") as file:
        json.dump(os.listdir("/dev/shm"), file)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
