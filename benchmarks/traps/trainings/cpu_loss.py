"""A distance map is computed by the main process as it takes each batch: it looks like waiting for data, and no worker
helps. Workers take from its cores, so more of them make it slower."""

import argparse
import time

import torch
from loop import Model, Task, sample, train
from torch.utils.data import Dataset

SAMPLE_S, MAP_S, SLOWER_BY_WORKER, STEP_S = 0.004, 0.030, 0.08, 0.005


class Samples(Dataset):
    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(SAMPLE_S)
        return sample(index)


def distance_map(batch: torch.Tensor, workers: int) -> torch.Tensor:
    time.sleep(MAP_S * (1 + SLOWER_BY_WORKER * workers))
    return batch


def make_dataset(options: argparse.Namespace) -> Dataset:
    return Samples(options.epoch_samples)


def loss(model: Model, batch: torch.Tensor) -> torch.Tensor:
    time.sleep(STEP_S)
    return model(batch).mean()


TASK = Task(make_dataset, loss, {"workers": 2, "epoch_samples": 250}, host_work=distance_map)

if __name__ == "__main__":
    train(TASK)
