"""Four micro-batches a step."""

import torch
from parts import Clock, Slow, model_and_loss
from torch.utils.data import DataLoader

ACCUMULATE = 4

model, loss_of = model_and_loss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Slow(4000, 0.002), batch_size=2, num_workers=1, prefetch_factor=4)
clock = Clock()
samples = 0
for number, (x, y) in enumerate(loader):
    loss = loss_of(model(x), y) / ACCUMULATE
    loss.backward()
    samples += len(x)
    if (number + 1) % ACCUMULATE == 0:
        optimizer.step()
        optimizer.zero_grad()
        clock.stepped(samples, 0)
        samples = 0
        print(number, loss.item())
