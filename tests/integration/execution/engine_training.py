"""A small training for the engines' contract: its settings come by flags, and it can be told to run out of memory."""

import argparse
import sys
import time
from types import SimpleNamespace

import torch

# Without its compiler torch starts in half the time: tests/support/light.py.
sys.modules["torch._dynamo"] = SimpleNamespace(disable=lambda call, *_, **__: call, graph_break=lambda: None)

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=1)
parser.add_argument("--prefetch_factor", type=int)
parser.add_argument("--batch_size", type=int, default=2)
parser.add_argument("--in_order", choices=["True", "False"], default="True")
parser.add_argument("--samples", type=int, default=100_000)
parser.add_argument("--step-s", type=float, default=0.002)
parser.add_argument("--out-of", choices=["vram", "ram"])
options = parser.parse_args()


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return options.samples

    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.full((4,), float(index % 7))


model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = torch.utils.data.DataLoader(
    Samples(),
    batch_size=options.batch_size,
    num_workers=options.workers,
    prefetch_factor=options.prefetch_factor if options.workers else None,
    # Older torch knows only order.
    **({"in_order": False} if options.in_order == "False" else {}),
)
for batch in loader:
    if options.out_of == "vram":
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    if options.out_of == "ram":
        torch.empty(2**50, dtype=torch.uint8)
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    time.sleep(options.step_s)
    optimizer.step()
