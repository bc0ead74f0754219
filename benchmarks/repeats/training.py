"""A small training over one of the data sets, as a user would write it. It knows nothing of vtune."""

from __future__ import annotations

import argparse

import torch
from torch.utils.data import DataLoader


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("case")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--steps", type=int, default=10_000)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    loader = make_loader(asked.case, asked.workers)
    model = torch.nn.Linear(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    done = 0
    while done < asked.steps:
        for images, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            done += 1
            if done >= asked.steps:
                break


def make_loader(case: str, workers: int) -> DataLoader[object]:
    if case == "webdataset":
        from shards import web_dataset

        return DataLoader(web_dataset(), batch_size=4, num_workers=workers)
    from data import CASES

    found = CASES[case]()
    options = dict(found.options)
    if not workers:
        options.pop("multiprocessing_context", None)
    return DataLoader(found.dataset, batch_size=found.batch_size, shuffle=found.shuffle, num_workers=workers, **options)


if __name__ == "__main__":
    main()
