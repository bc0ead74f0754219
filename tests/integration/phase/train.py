"""A training that waits for its loader: each worker more makes it faster, and nothing of it computes."""

import argparse
import sys
import time
from types import SimpleNamespace

import torch
from torch.utils.data import DataLoader, Dataset

# Without its compiler torch starts in half the time: tests/support/light.py.
sys.modules["torch._dynamo"] = SimpleNamespace(disable=lambda call, *_, **__: call, graph_break=lambda: None)


class Slow(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        time.sleep(0.02)
        return torch.full((8, 8), float(index))


parser = argparse.ArgumentParser()
parser.add_argument("--num-workers", type=int, default=1)
parser.add_argument("--batch-size", type=int, default=2)
asked = parser.parse_args()

torch.set_num_threads(1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
for _ in range(3):
    for batch in DataLoader(Slow(), batch_size=asked.batch_size, num_workers=asked.num_workers):
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()
