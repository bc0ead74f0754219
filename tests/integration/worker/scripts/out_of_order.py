"""Volumes that take different times to load, from workers that need not keep their order; says which came when."""

import argparse
import time

import torch
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--in-order", action="store_true")
parser.add_argument("--persistent", action="store_true")
parser.add_argument("--workers", type=int, default=3)


class Volumes(Dataset):
    def __len__(self) -> int:
        return 43

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        time.sleep(0.06 if number % 10 < 2 else 0.002)
        return torch.zeros(1, 4, 5, 6), number


def main() -> None:
    options = parser.parse_args()
    loader = DataLoader(
        Volumes(),
        batch_size=2,
        num_workers=options.workers,
        persistent_workers=options.persistent,
        in_order=options.in_order,
    )
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for epoch in range(2):
        for volumes, numbers in loader:
            (weight * volumes.mean()).sum().backward()
            optimizer.step()
            print(epoch, int(numbers[0]) // 2, flush=True)


if __name__ == "__main__":
    main()
