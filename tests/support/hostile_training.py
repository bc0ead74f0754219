"""A training that does to the files around it whatever a training may do, in an order that its seed decides.

    hostile_training.py SEED [--out FOLDER] [--changes N] [--processes N] [--torch] [--pause SECONDS]

It works in its working folder, in the default output folder `checkpoints`, and in whatever links lead to. Run outside a
copy that somebody keeps whole, it destroys. It says `ready` before its first change and `done` after its last.
"""

from __future__ import annotations

import argparse
import contextlib
import mmap
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve()


def populate(folder: Path, elsewhere: Path) -> None:
    """What such a training finds: old checkpoints, logs, a tree of data, and a link to a folder on another path."""
    for name in ("checkpoints", "data/deep/deeper", "old_run/events", "empty"):
        (folder / name).mkdir(parents=True)
    (elsewhere / "shared").mkdir(parents=True)
    (folder / "shared").symlink_to(elsewhere / "shared")
    files = ("last.pt", "checkpoints/last.pt", "checkpoints/best.pt", "train.log", "metrics.csv", "shared/last.pt")
    deep = [f"data/{number}.npy" for number in range(4)] + ["data/deep/a.txt", "data/deep/deeper/b.txt"]
    for number, name in enumerate((*files, *deep, "old_run/config.yaml", "old_run/events/1.out")):
        (folder / name).write_bytes(f"old {name}\n".encode() * (1 + 97 * number))
    (folder / "latest").symlink_to("old_run")
    (folder / "latest.pt").symlink_to("checkpoints/last.pt")
    (folder / "dangling").symlink_to("nowhere")
    os.link(folder / "data/0.npy", folder / "data/same.npy")
    with (folder / "sparse.bin").open("wb") as file:
        file.truncate(2**22)
        file.seek(2**21)
        file.write(b"in the middle")
    (folder / "train.log").chmod(0o640)
    (folder / "metrics.csv").chmod(0o444)
    for number, path in enumerate(sorted([folder, *folder.rglob("*"), *elsewhere.rglob("*")], reverse=True)):
        os.utime(path, ns=(10**18, 10**18 + number * 1_234_567_891), follow_symlinks=False)


class Hostile:
    def __init__(self, seed: int, *, out: str, with_torch: bool) -> None:
        self.random = random.Random(seed)
        self.out = out
        self.changes = [
            self.overwrite, self.append, self.truncate, self.change_in_place, self.map_and_write, self.save_aside,
            self.rename, self.rename_a_folder, self.move, self.delete, self.delete_all_below, self.make_folders,
            self.write_through_a_link, self.by_descriptor, self.make_links, self.touch, self.close_up, self.database,
            self.exchange, self.copy_over, self.make_temporary,
        ]  # fmt: skip
        if with_torch:
            self.changes += [self.save_with_torch] * 6

    def step(self) -> None:
        # As in any training, some of it fails: the folder is gone, the name is taken.
        with contextlib.suppress(OSError, ValueError, RuntimeError, shutil.Error, sqlite3.Error):
            self.random.choice(self.changes)()

    def some(self, *, folders: bool = False, deepest: int = 4) -> str:
        found = []
        for top, below, files in os.walk(".", followlinks=self.random.random() < 0.3):
            if top.count("/") < deepest:
                found += [os.path.join(top, name) for name in (below if folders else files)]
        return self.random.choice(sorted(found)) if found else os.path.join(self.out, "last.pt")

    def fresh(self) -> str:
        folder = self.random.choice((".", self.out, os.path.dirname(self.some())))
        return os.path.join(folder, f"new-{self.random.randrange(6)}")

    def bytes(self) -> bytes:
        return self.random.randbytes(self.random.randrange(1, 9000))

    def overwrite(self) -> None:
        with open(self.some(), "wb") as file:
            file.write(self.bytes())

    def append(self) -> None:
        with open(self.some(), "ab", buffering=0) as file:
            file.write(self.bytes())

    def truncate(self) -> None:
        os.truncate(self.some(), self.random.randrange(50))

    def change_in_place(self) -> None:
        with open(self.some(), "r+b") as file:
            file.seek(self.random.randrange(20))
            file.write(b"changed")

    def map_and_write(self) -> None:
        with open(self.some(), "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[: min(9, len(mapped))] = b"in memory"[: len(mapped)]

    def save_aside(self) -> None:
        path = self.random.choice((self.some(), self.fresh()))
        Path(path + ".tmp").write_bytes(self.bytes())
        os.replace(path + ".tmp", path)

    def rename(self) -> None:
        os.rename(self.some(), self.random.choice((self.some(), self.fresh())))

    def rename_a_folder(self) -> None:
        os.rename(self.some(folders=True), self.fresh())

    def move(self) -> None:
        shutil.move(self.some(folders=self.random.random() < 0.5), self.some(folders=True))

    def delete(self) -> None:
        self.random.choice((os.remove, os.unlink, lambda path: Path(path).unlink()))(self.some())

    def delete_all_below(self) -> None:
        shutil.rmtree(self.some(folders=True))

    def make_folders(self) -> None:
        folder = os.path.join(self.fresh(), "a", "b")
        os.makedirs(folder, exist_ok=True)
        Path(folder, "c.txt").write_text("new")

    def write_through_a_link(self) -> None:
        Path(self.random.choice(("latest.pt", "latest/config.yaml", "shared/last.pt", "dangling"))).write_bytes(
            b"by it"
        )

    def by_descriptor(self) -> None:
        folder = os.open(os.path.dirname(self.some()) or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            name = self.random.choice((*os.listdir(folder), "new-by-descriptor"))
            descriptor = os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=folder)
            os.write(descriptor, self.bytes())
            os.close(descriptor)
            self.random.choice((
                lambda: os.rename(name, "new-name", src_dir_fd=folder, dst_dir_fd=folder),
                lambda: os.unlink(name, dir_fd=folder),
                lambda: os.mkdir("new-folder", dir_fd=folder),
                lambda: os.utime(name, dir_fd=folder),
            ))()  # fmt: skip
        finally:
            os.close(folder)

    def make_links(self) -> None:
        path = self.some()
        with contextlib.suppress(FileExistsError):
            os.symlink(os.path.abspath(path), self.fresh())
        fresh = self.fresh()
        os.link(path, fresh)
        Path(fresh).write_bytes(b"by its other name")

    def touch(self) -> None:
        path = self.random.choice((self.some(), self.some(folders=True)))
        os.utime(path, (1, 2))
        os.chmod(path, self.random.choice((0o600, 0o644, 0o755, 0o700)))

    def close_up(self) -> None:
        os.chmod(self.some(folders=True), 0o555)

    def database(self) -> None:
        with contextlib.closing(sqlite3.connect(os.path.join(self.out, "runs.db"))) as database, database:
            database.execute("create table if not exists runs (number)")
            database.execute("insert into runs values (1)")

    def exchange(self) -> None:
        """A folder for a file of the same name, and the other way round."""
        path = self.some(folders=True)
        shutil.rmtree(path)
        Path(path).write_text("a file now")
        path = self.some()
        os.remove(path)
        os.mkdir(path)
        Path(path, "inside").write_text("a folder now")

    def copy_over(self) -> None:
        shutil.copy2(self.some(), self.random.choice((self.some(), self.fresh())))
        shutil.copytree(self.some(folders=True), self.fresh(), symlinks=True)

    def make_temporary(self) -> None:
        descriptor, path = tempfile.mkstemp(dir=self.out)
        os.close(descriptor)
        os.replace(path, os.path.join(self.out, "last.pt"))

    def save_with_torch(self) -> None:
        import torch

        torch.save({"step": self.random.random()}, self.random.choice((self.some(), self.fresh())))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int)
    parser.add_argument("--out", default="checkpoints")
    parser.add_argument("--changes", type=int, default=10**9)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--torch", action="store_true")
    given = parser.parse_args()
    if given.torch:
        import torch  # noqa: F401
    print("ready", flush=True)
    seed = given.seed
    for number in range(1, given.processes):
        if os.fork() == 0:
            seed += 1000 * number
            break
    hostile = Hostile(seed, out=given.out, with_torch=given.torch)
    for _ in range(given.changes):
        hostile.step()
        time.sleep(given.pause)
    if seed == given.seed:
        print("done", flush=True)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.wait()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
