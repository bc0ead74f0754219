"""Each sample leaves a megabyte in the worker that made it: workers that persist die of it after some epochs."""

import argparse
import time

import torch
from loop import Model, Task, sample, train
from torch.utils.data import Dataset

SAMPLE_S, STEP_S, LEFT_BYTES, OPENING_S = 0.012, 0.004, 2**20, 0.2


class Samples(Dataset):
    def __init__(self, length: int) -> None:
        self.length = length
        self.decoded: list[bytes] = []

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(SAMPLE_S)
        # Meant as a cache; nobody ever looks into it.
        self.decoded.append(b"\1" * LEFT_BYTES)
        return sample(index)


def open_files(worker: int) -> None:
    time.sleep(OPENING_S)


def make_dataset(options: argparse.Namespace) -> Dataset:
    return Samples(options.epoch_samples)


def loss(model: Model, batch: torch.Tensor) -> torch.Tensor:
    time.sleep(STEP_S)
    return model(batch).mean()


TASK = Task(
    make_dataset,
    loss,
    {"workers": 2, "persistent_workers": False, "epoch_samples": 150},
    worker_init=open_files,
)

if __name__ == "__main__":
    train(TASK)
