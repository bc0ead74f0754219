"""The step takes what it takes, and its data are always ready: every gain that is claimed here is noise."""

import argparse
import random
import time

import torch
from loop import Model, Task, sample, train
from torch.utils.data import Dataset

SAMPLE_S, STEP_S, STEP_CV = 0.004, 0.020, 0.3


class Samples(Dataset):
    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(SAMPLE_S)
        return sample(index)


def make_dataset(options: argparse.Namespace) -> Dataset:
    return Samples(options.epoch_samples)


def loss(model: Model, batch: torch.Tensor) -> torch.Tensor:
    # Unseeded: no two launches of a real training take the same times either.
    time.sleep(random.SystemRandom().gammavariate(STEP_CV**-2, STEP_S * STEP_CV**2))
    return model(batch).mean()


TASK = Task(make_dataset, loss, {"workers": 2, "epoch_samples": 400})

if __name__ == "__main__":
    train(TASK)
