"""Files behind a slow disk and a page cache that holds a few of them: a second trial finds the first one's files warm.

The cache is the machine's own; the disk's slowness is waited for, and files past a share of the cache are given back.
"""

import argparse
import errno
import os
import time
from collections import deque
from pathlib import Path

import torch
from loop import Model, Task, sample, train
from torch.utils.data import Dataset, get_worker_info

FILE_BYTES, DISK_S, CACHED_S, STEP_S, CACHE_FILES = 16 * 2**10, 0.030, 0.002, 0.005, 300


class Files(Dataset):
    def __init__(self, folder: Path, length: int) -> None:
        self.folder, self.length = folder, length
        self.read: deque[Path] = deque()

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        path = self.folder / f"{index:05d}.bin"
        with path.open("rb") as file:
            time.sleep(CACHED_S if is_cached(file.fileno()) else DISK_S)
            file.read()
        worker = get_worker_info()
        self.read.append(path)
        if len(self.read) > CACHE_FILES / (worker.num_workers if worker else 1):
            forget(self.read.popleft())
        return sample(index)


def is_cached(descriptor: int) -> bool:
    try:
        return os.preadv(descriptor, [bytearray(1)], 0, os.RWF_NOWAIT) == 1
    except OSError as error:
        if error.errno != errno.EAGAIN:
            raise
        return False


def forget(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def make_dataset(options: argparse.Namespace) -> Dataset:
    if options.data is None:
        raise SystemExit("error: --data must name a folder for the files")
    options.data.mkdir(parents=True, exist_ok=True)
    for index in range(options.epoch_samples):
        path = options.data / f"{index:05d}.bin"
        if not path.exists():
            with path.open("wb") as file:
                file.write(os.urandom(FILE_BYTES))
                file.flush()
                # What is not on the disk yet cannot leave the cache.
                os.fsync(file.fileno())
            forget(path)
    return Files(options.data, options.epoch_samples)


def loss(model: Model, batch: torch.Tensor) -> torch.Tensor:
    time.sleep(STEP_S)
    return model(batch).mean()


TASK = Task(make_dataset, loss, {"workers": 1, "epoch_samples": 500})

if __name__ == "__main__":
    train(TASK)
