"""A perceptron on a table of features that lies in memory."""

import argparse

import torch
from pace import Pace, options
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ROWS = 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=512)
    asked = options(parser)
    torch.manual_seed(asked.seed)
    data = TensorDataset(torch.randn(ROWS, 32), torch.randint(0, 10, (ROWS,)))
    loader = DataLoader(
        data,
        batch_size=64,
        shuffle=True,
        num_workers=asked.workers,
        prefetch_factor=asked.prefetch if asked.workers else None,
        pin_memory=False,
        drop_last=True,
    )
    width = asked.width
    model = nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    pace = Pace(asked.seconds)
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        if pace.is_over(len(x)):
            break


if __name__ == "__main__":
    main()
