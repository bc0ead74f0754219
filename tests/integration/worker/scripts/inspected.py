"""What a framework may look at: signatures, names, module loaders, hooks; and the state of random numbers."""

import inspect
import pickle
import random
import typing

import torch
import torch.utils.data._utils.worker as worker
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter


class Bare(DataLoader):
    """Skips the constructor of its parent."""

    def __init__(self) -> None:
        self.__dict__.update(DataLoader([1, 2, 3]).__dict__)


def main() -> None:
    for function in (DataLoader.__init__, torch.autograd.backward, worker._worker_loop, _BaseDataLoaderIter.__next__):
        print(function.__module__, function.__qualname__, inspect.signature(function), function.__doc__)
        print(inspect.getsourcelines(function))
    print(inspect.signature(DataLoader), inspect.getfullargspec(DataLoader.__init__))
    print(sorted(typing.get_type_hints(worker._worker_loop)))
    print(pickle.loads(pickle.dumps(worker._worker_loop)) is worker._worker_loop)
    for module in (torch.autograd, worker):
        print(type(module.__loader__), sorted(vars(module.__loader__)), module.__spec__.origin)
    print(sorted(vars(DataLoader([1]))))
    random.seed(1)
    torch.manual_seed(1)
    print([batch.tolist() for batch in DataLoader(range(6), 2, True)], [batch.tolist() for batch in Bare()])
    print(random.random(), torch.rand(1).item())


if __name__ == "__main__":
    main()
