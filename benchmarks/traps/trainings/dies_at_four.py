"""A licence for three readers: the fourth worker is ended by the server after a while, and the training with it."""

import argparse
import os
import signal
import time

import torch
from loop import Model, Task, sample, train
from torch.utils.data import Dataset, get_worker_info

SAMPLE_S, STEP_S, READERS, PATIENCE_SAMPLES = 0.010, 0.008, 3, 120


class Samples(Dataset):
    def __init__(self, length: int) -> None:
        self.length = length
        self.read = 0

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(SAMPLE_S)
        self.read += 1
        worker = get_worker_info()
        if worker and worker.id >= READERS and self.read > PATIENCE_SAMPLES:
            os.kill(os.getpid(), signal.SIGKILL)
        return sample(index)


def make_dataset(options: argparse.Namespace) -> Dataset:
    return Samples(options.epoch_samples)


def loss(model: Model, batch: torch.Tensor) -> torch.Tensor:
    time.sleep(STEP_S)
    return model(batch).mean()


TASK = Task(make_dataset, loss, {"workers": 2, "batch_size": 4, "epoch_samples": 1600})

if __name__ == "__main__":
    train(TASK)
