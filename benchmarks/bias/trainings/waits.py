"""A training all of whose costs are waited for: no neighbour, and no host below a virtual machine, changes them."""

import argparse
import math
import random
import time
from collections.abc import Iterator

import torch
from pace import Pace, options
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

SAMPLES = 500_000


class Costs:
    def __init__(self, asked: argparse.Namespace) -> None:
        self.mean_s, self.sigma = asked.sample_ms / 1e3, asked.sample_sigma
        self.slow_worker, self.seed = asked.slow_worker, asked.seed

    def sample(self, number: int) -> torch.Tensor:
        worker = get_worker_info()
        slower = self.slow_worker if worker is not None and worker.id == 0 else 1.0
        time.sleep(slower * drawn(random.Random(self.seed * 1_000_003 + number), self.mean_s, self.sigma))
        return torch.full((16,), float(number % 7))


def drawn(dice: random.Random, mean_s: float, sigma: float) -> float:
    """Log-normal: its mean is exp(mu + sigma² / 2)."""
    return math.exp(dice.gauss(math.log(mean_s) - sigma**2 / 2, sigma))


class Mapped(Costs, Dataset):
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.sample(index)


class Streamed(Costs, IterableDataset):
    def __iter__(self) -> Iterator[torch.Tensor]:
        worker = get_worker_info()
        first, stride = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for number in range(first, SAMPLES, stride):
            yield self.sample(number)


class Uneven:
    """Batches of half, of once and of one and a half times the size, in turns."""

    def __init__(self, size: int) -> None:
        self.sizes = size // 2, size, size + size // 2

    def __iter__(self) -> Iterator[list[int]]:
        first, turn = 0, 0
        while first < SAMPLES:
            size = self.sizes[turn % 3]
            yield list(range(first, min(SAMPLES, first + size)))
            first, turn = first + size, turn + 1


class Collated:
    def __init__(self, wait_ms: float) -> None:
        self.wait_s = wait_ms / 1e3

    def __call__(self, samples: list[torch.Tensor]) -> torch.Tensor:
        time.sleep(self.wait_s)
        return torch.stack(samples)


def loader_of(asked: argparse.Namespace) -> DataLoader:
    data = Streamed(asked) if asked.stream else Mapped(asked)
    batches = {"batch_sampler": Uneven(asked.batch_size)} if asked.uneven else {"batch_size": asked.batch_size}
    return DataLoader(
        data,
        shuffle=None if asked.stream or asked.uneven else True,
        num_workers=asked.workers,
        prefetch_factor=asked.prefetch if asked.workers else None,
        persistent_workers=asked.persistent,
        collate_fn=Collated(asked.collate_ms) if asked.collate_ms else None,
        **batches,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--sample-ms", type=float, default=5.0)
    parser.add_argument("--sample-sigma", type=float, default=0.1)
    parser.add_argument("--step-ms", type=float, default=10.0)
    parser.add_argument("--step-sigma", type=float, default=0.05)
    parser.add_argument("--collate-ms", type=float, default=0.0)
    parser.add_argument("--slow-worker", type=float, default=1.0, help="times as long in the first worker")
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--uneven", action="store_true")
    parser.add_argument("--persistent", action="store_true")
    asked = options(parser)
    torch.manual_seed(asked.seed)
    torch.set_num_threads(1)
    dice = random.Random(asked.seed)
    model = nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    pace = Pace(asked.seconds)
    for number, batch in enumerate(loader_of(asked), 1):
        model(batch).square().mean().backward()
        time.sleep(drawn(dice, asked.step_ms / 1e3, asked.step_sigma))
        if number % asked.accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
        if pace.is_over(len(batch)):
            break


if __name__ == "__main__":
    main()
