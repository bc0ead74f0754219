"""A sanity check on the validation loader comes before the first step, and it has more batches than an epoch."""

import torch
from parts import Clock, Slow, model_and_loss
from torch.utils.data import DataLoader

model, loss_of = model_and_loss()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
held_out = DataLoader(Slow(120, 0.001), batch_size=1)
train = DataLoader(Slow(80, 0.004), batch_size=4, num_workers=1)
clock = Clock()


def validate():
    with torch.no_grad():
        print("validation", sum(loss_of(model(x), y).item() for x, y in held_out))


validate()
for epoch in range(30):
    for step, (x, y) in enumerate(train):
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        clock.stepped(len(x), epoch)
        print(epoch, step, loss.item())
    validate()
