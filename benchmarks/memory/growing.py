"""A training whose memory grows as it is told: leaks in its own process or in its workers, copies on write, nothing."""

from __future__ import annotations

import argparse
import gc
import time
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info


class Items(Dataset[Any]):
    """Samples as Python objects, some 500 bytes each, and what every sample leaves behind."""

    def __init__(self, items: int, leaked_bytes: int, load_s: float) -> None:
        self.items = [
            {"path": f"/data/images/{i:08d}.jpg", "label": i + 1000, "box": [i * 0.5, i * 0.25, i * 2.0]}
            for i in range(items)
        ]
        self.leaked_bytes, self.load_s = leaked_bytes, load_s
        self.left: list[bytes] = []
        self.floats = 16

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, float]:
        item = self.items[index]
        time.sleep(self.load_s)
        if self.leaked_bytes and get_worker_info() is not None:
            self.left.append(b"x" * self.leaked_bytes)
        return torch.full((self.floats,), item["box"][0]), float(item["label"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=4000)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--step-s", type=float, default=0.03)
    parser.add_argument("--load-s", type=float, default=0.0)
    parser.add_argument("--leak-in-main", type=int, default=0)
    parser.add_argument("--leak-in-workers", type=int, default=0)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--sawtooth", type=int, default=0)
    parser.add_argument("--floats", type=int, default=16)
    parser.add_argument("--persistent", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    data = Items(asked.items, asked.leak_in_workers, asked.load_s)
    # Another full collection would copy every page, at a moment that hangs on each allocation before it. There is none
    # until a quarter more objects have come.
    gc.collect()
    data.floats = asked.floats
    loader = DataLoader(
        data,
        batch_size=asked.batch_size,
        shuffle=True,
        num_workers=asked.workers,
        persistent_workers=asked.persistent and asked.workers > 0,
    )
    model = torch.nn.Linear(asked.floats, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    kept, done = [], 0
    for _ in range(asked.epochs):
        for x, y in loader:
            loss = (model(x).squeeze(1) - y.float()).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1
            if asked.leak_in_main and done % asked.every == 0:
                kept.append(torch.ones(asked.leak_in_main * asked.every // 4))
            if asked.sawtooth:
                torch.ones(asked.sawtooth // 4 * (1 + done % 5) // 5)
            time.sleep(asked.step_s)
            if done >= asked.steps:
                print("done", done, flush=True)
                return


if __name__ == "__main__":
    main()
