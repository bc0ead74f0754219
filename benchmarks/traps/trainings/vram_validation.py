"""Validation looks at whole volumes and needs far more memory than a step: a batch that trains well dies at its end.

The device is emulated: kernels are durations beside the CPU, memory is counted and really runs out.
"""

import argparse
import sys
import time
from pathlib import Path

import torch
from loop import Model, Task, sample, train
from torch.utils.data import Dataset

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "emulated"))
import accelerator

SAMPLE_S, VALIDATION_S, MIB = 0.002, 0.3, 2**20
# Beside what the driver keeps for a context.
USABLE_BYTES = 600 * MIB

device: accelerator.Emulated | None = None


class Samples(Dataset):
    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(SAMPLE_S)
        return sample(index)


def emulated() -> accelerator.Emulated:
    """Made in the process that computes, when it first computes."""
    global device
    if device is None:
        device = accelerator.install(total_bytes=accelerator.CONTEXT + USABLE_BYTES)
        print("the device is emulated", file=sys.stderr)
    return device


def with_memory(size: int, seconds: float) -> None:
    """Kernels that take so long and need so much; whoever asks for their result waits for them."""
    gpu = emulated()
    gpu.allocate(size)
    try:
        gpu.launch(seconds)
        gpu.synchronize()
    finally:
        gpu.free(size)


def make_dataset(options: argparse.Namespace) -> Dataset:
    return Samples(options.epoch_samples)


def loss(model: Model, batch: torch.Tensor) -> torch.Tensor:
    with_memory((40 + 50 * len(batch)) * MIB, 0.020 + 0.002 * len(batch))
    return model(batch).mean()


def validate(model: Model, batch_size: int) -> None:
    with_memory((40 + 80 * batch_size) * MIB, VALIDATION_S)


TASK = Task(make_dataset, loss, {"workers": 2, "batch_size": 1, "epoch_samples": 640}, validate=validate)

if __name__ == "__main__":
    train(TASK)
