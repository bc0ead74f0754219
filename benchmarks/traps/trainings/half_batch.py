"""Past a batch of 4 the step falls off its fast kernels: 8 fits, and is slower than its half."""

import argparse
import time

import torch
from loop import Model, Task, sample, train
from torch.utils.data import Dataset

SAMPLE_S = 0.001


class Samples(Dataset):
    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(SAMPLE_S)
        return sample(index)


def step_s(batch_size: int) -> float:
    return 0.008 + 0.002 * batch_size if batch_size <= 4 else 0.0055 * batch_size


def make_dataset(options: argparse.Namespace) -> Dataset:
    return Samples(options.epoch_samples)


def loss(model: Model, batch: torch.Tensor) -> torch.Tensor:
    time.sleep(step_s(len(batch)))
    return model(batch).mean()


TASK = Task(make_dataset, loss, {"workers": 4, "batch_size": 1, "epoch_samples": 1600})

if __name__ == "__main__":
    train(TASK)
