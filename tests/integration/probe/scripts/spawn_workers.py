"""Workers are spawned, so they start from nothing and import this file again."""

import torch
from parts import Clock, Slow, model_and_loss
from torch.utils.data import DataLoader


def main():
    model, loss_of = model_and_loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Slow(2000, 0.005), batch_size=2, num_workers=2, multiprocessing_context="spawn")
    clock = Clock()
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        clock.stepped(len(x), 0)
        print(step, loss.item())


if __name__ == "__main__":
    main()
