"""A step that really computes, on a machine where somebody else's work comes and goes: two workers are enough."""

import argparse
import time

import torch
from loop import Model, Task, sample, train
from torch.utils.data import Dataset

SAMPLE_S, STEP_CPU_S = 0.010, 0.006


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
    # Processor time, not wall time: what a neighbour takes away comes on top.
    until = time.thread_time() + STEP_CPU_S
    while time.thread_time() < until:
        pass
    return model(batch).mean()


TASK = Task(make_dataset, loss, {"workers": 2, "epoch_samples": 1200})

if __name__ == "__main__":
    train(TASK)
