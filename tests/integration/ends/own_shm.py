"""Runs a program with a /dev/shm of its own: `own_shm.py SIZE PIDFILE LISTFILE COMMAND…`. Lists what is left in it.

Without a SIZE it may do without one, where the user may not mount.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys

NEW_MOUNTS, RECURSIVE_PRIVATE = 0x00020000, 0x4000 | 0x40000
CANNOT = 99
USUAL = "256m"


def main() -> int:
    size, pid_file, list_file, *command = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    # One after the other: a mount without namespaces of one's own would lie over everybody's.
    own = (
        libc.unshare(NEW_MOUNTS) == 0
        and libc.mount(b"none", b"/", None, RECURSIVE_PRIVATE, None) == 0
        and libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, f"size={size or USUAL}".encode()) == 0
    )
    if size and not own:
        return CANNOT
    program = subprocess.Popen(command)
    with open(f"{pid_file}.new", "w") as file:
        file.write(str(program.pid))
    os.replace(f"{pid_file}.new", pid_file)
    code = program.wait()
    with open(list_file, "w") as file:
        json.dump(os.listdir("/dev/shm") if own else [], file)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
