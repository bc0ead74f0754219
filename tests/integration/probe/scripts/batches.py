"""One loop for each way in which the samples of an optimizer step are not the loader's batch size."""

import argparse
import os
import random

import torch
from parts import Clock, Slow, model_and_loss
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("way")
parser.add_argument("--batch-size", type=int, default=8)
options = parser.parse_args()
way, size = options.way, options.batch_size
rank = 0
if way == "ranks":
    rank = int(os.environ["RANK"])
    torch.distributed.init_process_group("gloo")

model, loss_of = model_and_loss()
if way == "ranks":
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
data = Slow(8 * 12 + 5, 0.001)
clock = Clock() if rank == 0 else None
accumulate = {"accumulate": 3, "nominal": max(1, 32 // size)}.get(way, 1)


class Buckets:
    """Batches of samples of like length: the longer, the fewer."""

    def __iter__(self):
        for batch in random.Random(3).choices([1, 2, 3, 4], k=20):
            yield list(range(batch * size // 2))

    def __len__(self):
        return 20


class Constant(Buckets):
    def __iter__(self):
        for start in range(0, 96 - size + 1, size):
            yield list(range(start, start + size))

    def __len__(self):
        return 96 // size


class Ahead:
    """Holds the next batch ready, as those do that copy it to a device meanwhile."""

    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        batches = iter(self.loader)
        ready = next(batches)
        for following in batches:
            yield ready
            ready = following
        yield ready


def capped(samples):
    return torch.utils.data.default_collate(samples[:8])


if way == "buckets":
    loader = DataLoader(data, batch_sampler=Buckets())
elif way == "batch_sampler":
    loader = DataLoader(data, batch_sampler=Constant(), num_workers=1)
else:
    sampler = torch.utils.data.DistributedSampler(data) if way == "ranks" else None
    loader = DataLoader(
        data, batch_size=size, drop_last=way == "plain", sampler=sampler, collate_fn=capped if way == "capped" else None
    )
if way == "ahead":
    loader = Ahead(loader)
used = 0
for epoch in range(60):
    for number, (x, y) in enumerate(loader, 1):
        loss = loss_of(model(x), y) / accumulate
        loss.backward()
        used += len(x)
        if number % accumulate == 0 or number == -(-len(data) // size):
            optimizer.step()
            optimizer.zero_grad()
            if clock is not None:
                clock.stepped(used, epoch)
            used = 0
