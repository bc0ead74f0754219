"""A tree of processes whose memory is known. Each line on stdin is a stage; the answer names processes and bytes.

    base      one process
    shared    MIB of anonymous memory, then CHILDREN forked processes, which share it
    own       MIB in each child, touched; and MIB that all of them share by a mapping
    mapped    all children read the same file of FILE_MIB through a mapping of their own

What a stage adds is known to the byte; what an interpreter needs beside is not, so stages are compared with `base`.
"""

from __future__ import annotations

import json
import mmap
import os
import sys

CHILDREN, MIB, FILE_MIB = 3, 48, 192
BLOCK = 2**20


def main() -> None:
    folder = sys.argv[1]
    # A file that nobody can find is gone with its last process.
    path = os.path.join(folder, f"mapped-{os.getpid()}")
    with open(path, "w+b") as file:
        os.unlink(path)
        for _ in range(FILE_MIB):
            file.write(os.urandom(BLOCK))
        file.flush()
        os.fsync(file.fileno())
        run(file.fileno())


def run(mapped: int) -> None:
    tell("base", [])
    sys.stdin.readline()
    shared = bytearray(os.urandom(BLOCK)) * MIB
    common = mmap.mmap(-1, MIB * BLOCK)
    orders: list[int] = []
    pids: list[int] = []
    answers = os.pipe()
    for _ in range(CHILDREN):
        reads, writes = os.pipe()
        pid = os.fork()
        if pid == 0:
            for other in (*orders, writes):
                os.close(other)
            be_child(reads, answers[1], common, mapped)
        os.close(reads)
        orders.append(writes)
        pids.append(pid)
    tell("shared", pids)
    for stage in ("own", "mapped"):
        sys.stdin.readline()
        for order in orders:
            os.write(order, stage[:1].encode())
        for _ in pids:
            os.read(answers[0], 1)
        tell(stage, pids)
    sys.stdin.readline()
    for order in orders:
        os.close(order)
    for pid in pids:
        os.waitpid(pid, 0)
    del shared


def be_child(orders: int, answers: int, common: mmap.mmap, mapped: int) -> None:
    held: list[object] = []
    while order := os.read(orders, 1):
        if order == b"o":
            held.append(bytearray(os.urandom(BLOCK)) * MIB)
            common.seek(0)
            common.write(bytes(len(common)))
        else:
            view = mmap.mmap(mapped, FILE_MIB * BLOCK, prot=mmap.PROT_READ)
            held.append((view, sum(view[:: mmap.PAGESIZE])))
        os.write(answers, b"x")
    os._exit(0)


def tell(stage: str, children: list[int]) -> None:
    known = {"base": 0, "shared": MIB, "own": MIB * (2 + CHILDREN), "mapped": MIB * (2 + CHILDREN)}[stage]
    answer = {
        "stage": stage,
        "pids": [os.getpid(), *children],
        "tree_bytes": known * BLOCK,
        "child_own_bytes": 2 * MIB * BLOCK,
        "file_bytes": FILE_MIB * BLOCK,
    }
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
