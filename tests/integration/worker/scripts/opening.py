"""A data set of files: each sample opens three, in ways that warn, and fails to open a fourth now and then."""

import argparse
import concurrent.futures
import functools
import inspect
import random
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--start-method", default="fork")
parser.add_argument("--fail", action="store_true")
parser.add_argument("--threads", action="store_true")
parser.add_argument("--asks", action="store_true", help="whether anybody profiles")
parser.add_argument("--strict", action="store_true", help="warnings are errors, but for those of this file")


class Files(Dataset):
    def __init__(self, options: argparse.Namespace) -> None:
        self.folder = options.folder
        self.fail = options.fail
        self.threads = options.threads
        self.asks = options.asks

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> torch.Tensor:
        load = functools.partial(np.load, self.folder / "volume.npy")
        if self.threads:
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                volume = pool.submit(load).result()
        else:
            volume = load()
        text = (self.folder / "label.txt").read_text()
        # Warns of line buffering, at the line of whoever calls the C function.
        with open(self.folder / "label.txt", "rb", 1) as file:
            file.read()
        if self.fail and index == 7:
            open(self.folder / "missing").close()
        noise = random.random() + torch.rand(1).item() + float(np.random.rand())
        assert not self.asks or (inspect.isbuiltin(open) and sys.getprofile() is None)
        return torch.as_tensor(volume) * float(text) + noise


def main() -> None:
    options = parser.parse_args()
    if options.strict:
        warnings.filterwarnings("error")
        warnings.filterwarnings("ignore", module="__main__|zipfile")
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    start = options.start_method if options.workers else None
    loader = DataLoader(Files(options), 2, num_workers=options.workers, multiprocessing_context=start)
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.01)
    for batch in loader:
        loss = (batch * weight).mean()
        loss.backward()
        optimizer.step()
        print(loss.item(), open)
    print(weight.tolist())


if __name__ == "__main__":
    main()
