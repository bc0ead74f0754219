"""A small transformer encoder that predicts masked tokens, with AdamW, weight decay and a schedule of its rate."""

import argparse

import torch
from pace import Pace, options
from torch import nn
from torch.utils.data import DataLoader, Dataset

VOCABULARY, LENGTH, WIDTH = 2000, 64, 128


class Tokens(Dataset):
    def __init__(self, seed: int) -> None:
        self.text = torch.randint(2, VOCABULARY, (4_000_000,), generator=torch.Generator().manual_seed(seed))

    def __len__(self) -> int:
        return len(self.text) // LENGTH

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        target = self.text[index * LENGTH : (index + 1) * LENGTH]
        tokens = target.clone()
        tokens[torch.rand(LENGTH) < 0.15] = 1
        return tokens, target


def main() -> None:
    asked = options(argparse.ArgumentParser())
    torch.manual_seed(asked.seed)
    loader = DataLoader(
        Tokens(asked.seed), batch_size=8, shuffle=True, num_workers=asked.workers, prefetch_factor=asked.prefetch
    )
    layer = nn.TransformerEncoderLayer(WIDTH, nhead=4, dim_feedforward=256, batch_first=True)
    model = nn.Sequential(
        nn.Embedding(VOCABULARY, WIDTH), nn.TransformerEncoder(layer, 3), nn.Linear(WIDTH, VOCABULARY)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100_000)
    pace = Pace(asked.seconds)
    for tokens, targets in loader:
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if pace.is_over(len(tokens)):
            break


if __name__ == "__main__":
    main()
