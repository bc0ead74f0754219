"""A training with two loader workers that would go on for a minute."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


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
