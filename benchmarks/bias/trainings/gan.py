"""A generator and a discriminator, each with an optimizer of its own, in each step one after the other."""

import argparse
import time

import torch
from pace import Pace, options
from torch import nn
from torch.utils.data import DataLoader, Dataset

NOISE, PIXELS = 32, 784


class Digits(Dataset):
    def __len__(self) -> int:
        return 500_000

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.0005)
        return torch.rand(PIXELS, generator=torch.Generator().manual_seed(index))


def main() -> None:
    asked = options(argparse.ArgumentParser())
    torch.manual_seed(asked.seed)
    loader = DataLoader(
        Digits(), batch_size=16, num_workers=asked.workers, prefetch_factor=asked.prefetch, shuffle=True
    )
    generator = nn.Sequential(nn.Linear(NOISE, 512), nn.LeakyReLU(0.2), nn.Linear(512, PIXELS), nn.Sigmoid())
    judge = nn.Sequential(nn.Linear(PIXELS, 512), nn.LeakyReLU(0.2), nn.Linear(512, 1))
    of_generator = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    of_judge = torch.optim.Adam(judge.parameters(), lr=2e-4, betas=(0.5, 0.999))
    criterion = nn.BCEWithLogitsLoss()
    pace = Pace(asked.seconds)
    for real in loader:
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        fake = generator(torch.randn(len(real), NOISE))
        of_judge.zero_grad()
        loss = criterion(judge(real), ones) + criterion(judge(fake.detach()), zeros)
        loss.backward()
        of_judge.step()
        of_generator.zero_grad()
        criterion(judge(fake), ones).backward()
        of_generator.step()
        if pace.is_over(len(real)):
            break


if __name__ == "__main__":
    main()
