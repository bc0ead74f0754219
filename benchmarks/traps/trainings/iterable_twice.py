"""An iterable data set that nobody splits by worker: each worker reads all of it, and the steps fly by in copies."""

import argparse
import time
from collections.abc import Iterator

import torch
from loop import Model, Task, sample, train
from torch.utils.data import Dataset, IterableDataset

SAMPLE_S, STEP_S = 0.008, 0.006


class Stream(IterableDataset):
    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Iterator[torch.Tensor]:
        for index in range(self.length):
            time.sleep(SAMPLE_S)
            yield sample(index)


def make_dataset(options: argparse.Namespace) -> Dataset:
    return Stream(options.epoch_samples)


def loss(model: Model, batch: torch.Tensor) -> torch.Tensor:
    time.sleep(STEP_S)
    return model(batch).mean()


TASK = Task(make_dataset, loss, {"workers": 0, "epoch_samples": 300})

if __name__ == "__main__":
    train(TASK)
