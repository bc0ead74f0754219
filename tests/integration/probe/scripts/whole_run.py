"""Epochs with a validation and a checkpoint at the end of each; the time is slept. Says what its run took, by its own
clock and from the first epoch's beginning on, and what of it went into validation and checkpoints."""

import argparse
import sys
import time
from types import SimpleNamespace

import torch
from torch.utils.data import DataLoader, Dataset

# Without its compiler torch starts in half the time: tests/support/light.py.
sys.modules["torch._dynamo"] = SimpleNamespace(disable=lambda call, *_, **__: call, graph_break=lambda: None)

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--batches", type=int, default=40)
parser.add_argument("--persistent", action="store_true")
parser.add_argument("--load", type=float, default=0.04)
parser.add_argument("--step", type=float, default=0.04)
parser.add_argument("--sanity", action="store_true")
parser.add_argument("--checkpoint", required=True)
options = parser.parse_args()


class Slow(Dataset):
    def __init__(self, length: int, seconds: float) -> None:
        self.length, self.seconds = length, seconds

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.seconds)
        return torch.ones(1)


class Checkpoint:
    """Takes its time to be written."""

    def __reduce__(self) -> tuple[type, tuple[()]]:
        time.sleep(0.3)
        return Checkpoint, ()


def boot(worker: int) -> None:
    time.sleep(0.4)  # as imports and open files take it


def validate(batches: int) -> None:
    model.eval()
    with torch.no_grad():
        for number, batch in enumerate(validation):
            model(batch)
            time.sleep(0.02)
            if number + 1 == batches:
                break
    model.train()


torch.manual_seed(0)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
workers = {"num_workers": options.workers, "persistent_workers": options.persistent, "worker_init_fn": boot}
# The last batch is half a batch.
training = DataLoader(Slow(2 * options.batches - 1, options.load), batch_size=2, shuffle=True, **workers)
validation = DataLoader(Slow(20, 0.01), batch_size=1)

if options.sanity:
    validate(2)
paused = 0.0
begun = time.perf_counter()
for _ in range(options.epochs):
    for batch in training:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        time.sleep(options.step)
        optimizer.step()
    before = time.perf_counter()
    validate(-1)
    torch.save({"model": model.state_dict(), "slow": Checkpoint()}, options.checkpoint)
    paused += time.perf_counter() - before
sys.stdout.write(f"{time.perf_counter() - begun} {paused}\n")
