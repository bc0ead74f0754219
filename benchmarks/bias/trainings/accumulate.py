"""Gradients of several small batches are added up before each step of the optimizer."""

import argparse
import time

import torch
from pace import Pace, options
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Patches(Dataset):
    def __len__(self) -> int:
        return 500_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        time.sleep(0.004)
        patch = torch.full((1, 48, 48), index % 97 / 97)
        return patch, (patch > 0.5).float()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=4)
    asked = options(parser)
    torch.manual_seed(asked.seed)
    loader = DataLoader(
        Patches(), batch_size=2, shuffle=True, num_workers=asked.workers, prefetch_factor=asked.prefetch
    )
    model = nn.Sequential(
        nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 1, 1)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.BCEWithLogitsLoss()
    pace = Pace(asked.seconds)
    for number, (patches, masks) in enumerate(loader, 1):
        loss = criterion(model(patches), masks) / asked.every
        loss.backward()
        if number % asked.every == 0:
            optimizer.step()
            optimizer.zero_grad()
        if pace.is_over(len(patches)):
            break


if __name__ == "__main__":
    main()
