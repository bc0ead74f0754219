"""A data set of files: each sample opens three, one of them in a thread, and fails to open a fourth now and then."""

import argparse
import concurrent.futures
import random
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--start-method", default="fork")
parser.add_argument("--fail", action="store_true")


class Files(Dataset):
    def __init__(self, folder: Path, fail: bool) -> None:
        self.folder = folder
        self.fail = fail

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> torch.Tensor:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            later = pool.submit(np.load, self.folder / "volume.npy")
            text = (self.folder / "label.txt").read_text()
            with open(self.folder / "label.txt", "rb") as file:
                file.read()
            if self.fail and index == 7:
                open(self.folder / "missing").close()
            noise = random.random() + torch.rand(1).item() + float(np.random.rand())
            return torch.as_tensor(later.result()) * float(text) + noise


def main() -> None:
    options = parser.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    start = options.start_method if options.workers else None
    loader = DataLoader(
        Files(options.folder, options.fail), 2, num_workers=options.workers, multiprocessing_context=start
    )
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
