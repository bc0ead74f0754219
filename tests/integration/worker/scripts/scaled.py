"""Mixed precision with a gradient scaler; every tenth loss is infinite, and its step is left out."""

import argparse

import torch
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fused", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(120, 2)), batch_size=4)
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=options.fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for number, (x,) in enumerate(loader):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(x).square().mean()
        if number % 10 == 3:
            loss = loss * float("inf")
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(number, loss.item(), scaler.get_scale())


if __name__ == "__main__":
    main()
