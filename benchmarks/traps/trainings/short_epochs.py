"""Epochs of 80 samples, and workers that open an index one after the other: what a restart costs decides."""

import argparse
import time

import torch
from loop import Model, Task, sample, train
from torch.utils.data import Dataset

SAMPLE_S, STEP_S, OPENING_S = 0.020, 0.004, 0.25


class Samples(Dataset):
    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(SAMPLE_S)
        return sample(index)


def open_index(worker: int) -> None:
    # One at a time: each waits for those before it.
    time.sleep(OPENING_S * (worker + 1))


def make_dataset(options: argparse.Namespace) -> Dataset:
    return Samples(options.epoch_samples)


def loss(model: Model, batch: torch.Tensor) -> torch.Tensor:
    time.sleep(STEP_S)
    return model(batch).mean()


TASK = Task(
    make_dataset,
    loss,
    {"workers": 2, "persistent_workers": False, "epoch_samples": 80},
    worker_init=open_index,
)

if __name__ == "__main__":
    train(TASK)
