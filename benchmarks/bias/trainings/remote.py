"""Samples from far away: each is a wait of log-normal length; one worker may be slower than the others by a factor."""

import argparse
import math
import random
import time

import torch
from pace import Pace, options
from torch import nn
from torch.utils.data import DataLoader, Dataset, get_worker_info


class Remote(Dataset):
    def __init__(self, wait_ms: float, sigma: float, slow_worker: float, seed: int) -> None:
        # The mean of a log-normal variable is exp(mu + sigma² / 2).
        self.mu, self.sigma = math.log(wait_ms / 1e3) - sigma**2 / 2, sigma
        self.slow_worker, self.seed = slow_worker, seed

    def __len__(self) -> int:
        return 500_000

    def __getitem__(self, index: int) -> dict[str, object]:
        wait_s = math.exp(random.Random(self.seed * 1_000_003 + index).gauss(self.mu, self.sigma))
        worker = get_worker_info()
        if worker is not None and worker.id == 0:
            wait_s *= self.slow_worker
        time.sleep(wait_s)
        return {"key": f"object-{index}", "values": torch.full((64,), float(index % 7))}


def gathered(samples: list[dict[str, object]]) -> tuple[list[object], torch.Tensor]:
    return [sample["key"] for sample in samples], torch.stack([sample["values"] for sample in samples])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--wait-ms", type=float, default=10.0, help="a sample, on average")
    parser.add_argument("--sigma", type=float, default=0.2)
    parser.add_argument("--slow-worker", type=float, default=1.0, help="times as long in the first worker")
    parser.add_argument("--width", type=int, default=256)
    asked = options(parser)
    torch.manual_seed(asked.seed)
    loader = DataLoader(
        Remote(asked.wait_ms, asked.sigma, asked.slow_worker, asked.seed),
        batch_size=asked.batch_size,
        shuffle=True,
        num_workers=asked.workers,
        prefetch_factor=asked.prefetch if asked.workers else None,
        collate_fn=gathered,
    )
    model = nn.Sequential(nn.Linear(64, asked.width), nn.Tanh(), nn.Linear(asked.width, 1))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)
    pace = Pace(asked.seconds)
    for keys, values in loader:
        loss = model(values).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if pace.is_over(len(keys)):
            break


if __name__ == "__main__":
    main()
