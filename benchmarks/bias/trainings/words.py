"""Embedding and GRU on token sequences: fixed lengths, or buckets of like length from a batch sampler of its own.

The gradient is clipped, and the loss is read with `.item()` in each step.
"""

import argparse
import random
from collections.abc import Iterator

import torch
from pace import Pace, options
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

VOCABULARY, SENTENCES, BATCH = 5000, 200_000, 16


class Sentences(Dataset):
    def __init__(self, *, varied: bool) -> None:
        dice = random.Random(7)
        self.lengths = [dice.randint(16, 32) if varied else 24 for _ in range(SENTENCES)]

    def __len__(self) -> int:
        return SENTENCES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        random_state = torch.Generator().manual_seed(index)
        return torch.randint(1, VOCABULARY, (self.lengths[index],), generator=random_state), index % 4


class Buckets(Sampler):
    """Batches of like length, in random order."""

    def __init__(self, lengths: list[int], seed: int) -> None:
        self.lengths, self.seed = lengths, seed

    def __len__(self) -> int:
        return SENTENCES // BATCH

    def __iter__(self) -> Iterator[list[int]]:
        dice = random.Random(self.seed)
        order = sorted(range(SENTENCES), key=lambda index: (self.lengths[index], dice.random()))
        batches = [order[start : start + BATCH] for start in range(0, SENTENCES - BATCH + 1, BATCH)]
        dice.shuffle(batches)
        return iter(batches)


def padded(samples: list[tuple[torch.Tensor, int]]) -> dict[str, torch.Tensor]:
    return {
        "tokens": pad_sequence([tokens for tokens, _ in samples], batch_first=True),
        "labels": torch.tensor([label for _, label in samples]),
    }


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 64, padding_idx=0)
        self.gru = nn.GRU(64, 128, batch_first=True)
        self.head = nn.Linear(128, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        _, last = self.gru(self.embedding(tokens))
        return self.head(last[0])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--buckets", action="store_true")
    asked = options(parser)
    torch.manual_seed(asked.seed)
    data = Sentences(varied=asked.buckets)
    how = {"batch_sampler": Buckets(data.lengths, asked.seed)} if asked.buckets else {"batch_size": BATCH}
    loader = DataLoader(
        data,
        num_workers=asked.workers,
        prefetch_factor=asked.prefetch if asked.workers else None,
        collate_fn=padded,
        **how,
    )
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    smooth = 0.0
    pace = Pace(asked.seconds)
    for batch in loader:
        loss = nn.functional.cross_entropy(model(batch["tokens"]), batch["labels"])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        smooth = 0.9 * smooth + 0.1 * loss.item()
        if pace.is_over(len(batch["labels"])):
            break


if __name__ == "__main__":
    main()
