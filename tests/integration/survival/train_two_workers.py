"""A training with two loader workers that would go on for a minute."""

import sys
import time
from types import SimpleNamespace

import torch
from torch.utils.data import DataLoader, Dataset

# Without its compiler torch starts in half the time: tests/support/light.py.
sys.modules["torch._dynamo"] = SimpleNamespace(disable=lambda call, *_, **__: call, graph_break=lambda: None)


class Slow(Dataset):
    def __len__(self):
        return 2000

    def __getitem__(self, index):
        time.sleep(0.02)
        return torch.full((64, 64), float(index))


model = torch.nn.Linear(64, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
for batch in DataLoader(Slow(), batch_size=2, num_workers=2):
    optimizer.zero_grad()
    model(batch).mean().backward()
    optimizer.step()
print("done")
