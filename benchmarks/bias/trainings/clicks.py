"""A recommender: bags of embeddings with sparse gradients, and a dense part, each with an optimizer of its own."""

import argparse

import torch
from pace import Pace, options
from torch import nn
from torch.utils.data import DataLoader, Dataset

ITEMS, FIELDS, ROWS = 50_000, 12, 400_000


class Clicks(Dataset):
    def __init__(self, seed: int) -> None:
        dice = torch.Generator().manual_seed(seed)
        self.items = torch.randint(0, ITEMS, (ROWS, FIELDS), generator=dice)
        self.clicked = torch.rand(ROWS, generator=dice).round()

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"items": self.items[index], "clicked": self.clicked[index]}


def main() -> None:
    asked = options(argparse.ArgumentParser())
    torch.manual_seed(asked.seed)
    loader = DataLoader(Clicks(asked.seed), batch_size=256, shuffle=True, num_workers=asked.workers)
    bag = nn.EmbeddingBag(ITEMS, 32, sparse=True)
    dense = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
    of_bag = torch.optim.SparseAdam(bag.parameters(), lr=1e-3)
    of_dense = torch.optim.Adam(dense.parameters(), lr=1e-3)
    pace = Pace(asked.seconds)
    for batch in loader:
        of_bag.zero_grad()
        of_dense.zero_grad()
        scores = dense(bag(batch["items"])).squeeze(1)
        nn.functional.binary_cross_entropy_with_logits(scores, batch["clicked"]).backward()
        of_bag.step()
        of_dense.step()
        if pace.is_over(len(batch["clicked"])):
            break


if __name__ == "__main__":
    main()
