"""One loop, one optimizer, no workers."""

import torch
from parts import Clock, Slow, model_and_loss
from torch.utils.data import DataLoader

model, loss_of = model_and_loss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Slow(4000, 0.002), batch_size=4, shuffle=True)
clock = Clock()
for epoch in range(1):
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        clock.stepped(len(x), epoch)
        print(epoch, step, loss.item())
