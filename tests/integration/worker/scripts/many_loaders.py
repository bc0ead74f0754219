"""Loaders of every kind, each iterated once; says what came out of them."""

from collections.abc import Iterator

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    TensorDataset,
    get_worker_info,
)


class Pairs(BatchSampler):
    """The script's own way to make batches."""


class Whole(IterableDataset):
    def __iter__(self) -> Iterator[float]:
        yield from range(12)


class Split(IterableDataset):
    def __iter__(self) -> Iterator[float]:
        info = get_worker_info()
        yield from range(info.id, 12, info.num_workers) if info else range(12)


class Owner(Dataset):
    def __init__(self) -> None:
        self.loader = DataLoader([1, 2])

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> int:
        return index


class MadeOfBatches(Dataset):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.zeros(4)


class Mine(DataLoader):
    """A framework's loader, with its own constructor."""

    def __init__(self, data: Dataset, size: int) -> None:
        super().__init__(data, size, False, num_workers=1, prefetch_factor=4, timeout=30)


def main() -> None:
    torch.manual_seed(0)
    data = TensorDataset(torch.arange(12.0))
    order = RandomSampler(data)
    loaders = {
        "plain": DataLoader(data, batch_size=4),
        "positional": DataLoader(data, 4, True, None, None, 1),
        "subclass": Mine(data, 4),
        "batch sampler": DataLoader(data, batch_sampler=BatchSampler(order, 4, drop_last=True)),
        "own batches": DataLoader(data, batch_sampler=Pairs(order, 4, drop_last=False)),
        "no batches": DataLoader(MadeOfBatches(), batch_size=None),
        "whole": DataLoader(Whole(), batch_size=4),
        "split": DataLoader(Split(), batch_size=4),
        "owner": DataLoader(Owner(), batch_size=4),
        "busy": DataLoader(
            data,
            4,
            num_workers=1,
            persistent_workers=True,
            prefetch_factor=3,
            multiprocessing_context="fork",
            timeout=9,
        ),
        "overridden": DataLoader(data, batch_size=4),
    }
    loaders["overridden"].num_workers = 1
    loaders["overridden"].prefetch_factor = 5
    for name, loader in loaders.items():
        batches = [batch[0] if isinstance(batch, list) else batch for batch in loader]
        iterator = type(iter(loader)).__name__
        print(name, "|", [len(batch) for batch in batches], loader.num_workers, loader.prefetch_factor, iterator)


if __name__ == "__main__":
    main()
