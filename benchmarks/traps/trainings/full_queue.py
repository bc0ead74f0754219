"""A slow first step fills a deep queue: for the next hundred steps any loader looks as fast as the step."""

import argparse
import time

import torch
from loop import Model, Task, sample, train
from torch.utils.data import Dataset

SAMPLE_S, STEP_S = 0.024, 0.004


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
    time.sleep(STEP_S)
    return model(batch).mean()


TASK = Task(make_dataset, loss, {"workers": 2, "prefetch_factor": 2, "epoch_samples": 900})

if __name__ == "__main__":
    train(TASK)
