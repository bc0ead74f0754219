"""One sample in fifty takes fifteen times as long, and the batches behind it wait: fifty steps show one or none."""

import argparse
import random
import time

import torch
from loop import Model, Task, sample, train
from torch.utils.data import Dataset

MEAN_S, SLOW_SHARE, SLOW_TIMES, STEP_S = 0.016, 0.02, 15, 0.004


class Samples(Dataset):
    def __init__(self, length: int, seed: int) -> None:
        self.length, self.seed = length, seed

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        usual = MEAN_S / (1 + SLOW_SHARE * (SLOW_TIMES - 1))
        is_slow = random.Random(self.seed * 1_000_003 + index).random() < SLOW_SHARE
        time.sleep(usual * (SLOW_TIMES if is_slow else 1))
        return sample(index)


def make_dataset(options: argparse.Namespace) -> Dataset:
    return Samples(options.epoch_samples, options.seed)


def loss(model: Model, batch: torch.Tensor) -> torch.Tensor:
    time.sleep(STEP_S)
    return model(batch).mean()


TASK = Task(make_dataset, loss, {"workers": 2, "prefetch_factor": 2, "epoch_samples": 1200})

if __name__ == "__main__":
    train(TASK)
