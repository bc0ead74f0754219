"""All workers read through one lock, and its server gets slower with each of them: one worker is best."""

import argparse
import multiprocessing
import time

import torch
from loop import Model, Task, sample, train
from torch.utils.data import Dataset, get_worker_info

LOCKED_S, SLOWER_BY_CLIENT, STEP_S = 0.016, 0.12, 0.006


class Samples(Dataset):
    def __init__(self, length: int) -> None:
        self.length = length
        self.lock = multiprocessing.Lock()

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        worker = get_worker_info()
        clients = worker.num_workers if worker else 1
        with self.lock:
            time.sleep(LOCKED_S * (1 + SLOWER_BY_CLIENT * (clients - 1)))
        return sample(index)


def make_dataset(options: argparse.Namespace) -> Dataset:
    return Samples(options.epoch_samples)


def loss(model: Model, batch: torch.Tensor) -> torch.Tensor:
    time.sleep(STEP_S)
    return model(batch).mean()


TASK = Task(make_dataset, loss, {"workers": 4, "epoch_samples": 500})

if __name__ == "__main__":
    train(TASK)
