"""Batches of 4 MiB through a small /dev/shm: what lies ready is little until a checkpoint lets the queue fill up."""

import argparse
import time

import torch
from loop import Model, Task, train
from torch.utils.data import Dataset

SAMPLE_S, STEP_S, CHECKPOINT_EVERY, CHECKPOINT_S = 0.010, 0.010, 75, 1.5
SAMPLE_FLOATS = 2**18


class Samples(Dataset):
    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(SAMPLE_S)
        return torch.full((SAMPLE_FLOATS,), float(index))


def make_dataset(options: argparse.Namespace) -> Dataset:
    return Samples(options.epoch_samples)


def loss(model: Model, batch: torch.Tensor) -> torch.Tensor:
    time.sleep(STEP_S)
    if (model.steps_done + 1) % CHECKPOINT_EVERY == 0:
        time.sleep(CHECKPOINT_S)
    return model(batch).mean()


TASK = Task(make_dataset, loss, {"workers": 2, "batch_size": 4, "epoch_samples": 1200})

if __name__ == "__main__":
    train(TASK)
