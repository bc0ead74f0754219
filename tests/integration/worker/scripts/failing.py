"""Warnings that point at lines of this script, and failures in every place that the hooks stand next to."""

import sys
import traceback
import warnings
from collections.abc import Callable, Iterator

import torch
from torch.utils.data import DataLoader, Dataset, Sampler


class Data(Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        for level in range(1, 8):
            warnings.warn(f"level {level}", stacklevel=level)
        if index == 5:
            raise ValueError("the sixth sample is broken")
        return torch.zeros(1) + index


class Order(Sampler):
    def __iter__(self) -> Iterator[int]:
        yield from range(4)
        raise RuntimeError("no order")


class Stuck(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        raise ArithmeticError("no gradient")


workers = int(sys.argv[1])


def in_constructor() -> None:
    DataLoader(Data(), num_workers=-1)


def in_arguments() -> None:
    DataLoader(Data(), wrong=1)


def in_start() -> None:
    iter(DataLoader(Data(), num_workers=1, multiprocessing_context="spawn", worker_init_fn=lambda worker: None))


def in_sampler() -> None:
    for _ in DataLoader(Data(), batch_size=2, sampler=Order(), num_workers=workers):
        pass


def in_worker_init() -> None:
    def fail(worker: int) -> None:
        raise OSError("no place to work")

    for _ in DataLoader(Data(), num_workers=workers, worker_init_fn=fail if workers else None):
        raise OSError("no place to work")


def in_backward() -> None:
    Stuck.apply(torch.zeros(1, requires_grad=True)).backward()


def in_backward_arguments() -> None:
    torch.zeros(1).backward(wrong=2)


def in_data_set() -> None:
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for x in DataLoader(Data(), batch_size=2, num_workers=workers):
        (weight * x).sum().backward()
        optimizer.step()
        print("stepped")


def main() -> None:
    DataLoader(Data(), num_workers=65)
    next(iter(DataLoader(Data(), pin_memory=True)))
    places: tuple[Callable[[], None], ...] = (
        in_constructor, in_arguments, in_start, in_sampler, in_worker_init, in_backward, in_backward_arguments
    )  # fmt: skip
    for place in places:
        try:
            place()
        except Exception:
            traceback.print_exc()
    if sys.argv[2] == "uncaught":
        in_data_set()
    try:
        in_data_set()
    except ValueError:
        sys.exit(7)


if __name__ == "__main__":
    main()
