"""A training that knows nothing of vtune. Argument 1: what is slow; 2: how its loader workers are started."""

from __future__ import annotations

import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

SLOW, START = sys.argv[1], sys.argv[2]


class Samples(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        if SLOW == "sleep":
            time.sleep(0.1)
        elif SLOW == "hang" and index >= 12:
            time.sleep(1000)
        elif SLOW == "load":
            begun = time.process_time()
            while time.process_time() - begun < 0.1:
                sum(range(1000))
        return torch.zeros(1000)


def main() -> None:
    torch.set_num_threads(1)
    model = torch.nn.Linear(1000, 4000 if SLOW == "model" else 10)
    loader = DataLoader(Samples(), batch_size=2, num_workers=2, multiprocessing_context=START)
    held = []
    for step, batch in enumerate(loader):
        for _ in range(20 if SLOW == "model" else 1):
            model(batch).sum().backward()
        if SLOW == "sleep" and len(sys.argv) > 3:
            held.append(bytearray(b"x") * 2**20)
        print(f"epoch 1/3 step {step}/5000 loss 0.5", flush=True)
        if step == 5 and SLOW == "error":
            raise ValueError("the mask has another shape")


if __name__ == "__main__":
    main()
