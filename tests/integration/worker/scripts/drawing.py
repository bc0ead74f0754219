"""Workers that draw from every kind of generator, and a training that prints all that came of it."""

import random
import sys
from collections.abc import Iterator

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset


class Draws(Dataset):
    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.state = np.random.RandomState(0)
        self.random = random.Random(0)
        self.generator = torch.Generator().manual_seed(0)

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> list[float]:
        own = [
            self.rng.random(),
            self.state.rand(),
            self.random.random(),
            float(torch.rand(1, generator=self.generator)),
        ]
        return [*own, random.random(), np.random.rand(), float(torch.rand(1)), float(index)]


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[float]:
        rng = random.Random(0)
        for index in range(20):
            yield index + rng.random() + float(torch.rand(1))


def main() -> None:
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    workers = int(sys.argv[1])
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for dataset in (Draws(), Stream()):
        for batch in DataLoader(dataset, batch_size=4, shuffle=None if isinstance(dataset, Stream) else True,
                                num_workers=workers):  # fmt: skip
            values = torch.stack(list(batch)) if isinstance(batch, list) else batch
            print(values.flatten().tolist())
            (weight * values.float().sum()).backward()
            optimizer.step()
    print(random.random(), np.random.rand(), torch.rand(1).item())


if __name__ == "__main__":
    main()
