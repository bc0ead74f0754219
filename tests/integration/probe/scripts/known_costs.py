"""A loader and a training whose costs by sample are known, in the shapes that trainings have."""

import argparse
import sys
import time
from types import SimpleNamespace

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

# Without its compiler torch starts in half the time: tests/support/light.py.
sys.modules["torch._dynamo"] = SimpleNamespace(disable=lambda call, *_, **__: call, graph_break=lambda: None)

parser = argparse.ArgumentParser()
parser.add_argument("--load", type=float, default=0.01, help="seconds a sample, in the loader")
parser.add_argument("--compute", type=float, default=0.005, help="seconds a sample, in the training")
parser.add_argument("--a-step", type=float, default=0.0, help="seconds an optimizer step")
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--length", type=int, default=4000)
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--loop", choices=["for", "persistent", "anew", "next_iter", "validation"], default="for")
parser.add_argument("--iterable", action="store_true")
parser.add_argument("--spawn", action="store_true")
parser.add_argument("--memory-at", type=int, default=0, help="out of memory above this batch")
parser.add_argument("--catch", action="store_true", help="and goes on with the next batch")
parser.add_argument("--fixed", type=int, default=0, help="refuses every other batch size")


def item(seconds):
    time.sleep(seconds)
    return {"x": torch.full((4, 64), 101.0), "name": "a scan"}, torch.tensor([1.0])


class Samples(Dataset):
    def __init__(self, length, seconds):
        self.length, self.seconds = length, seconds

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return item(self.seconds)


class Stream(IterableDataset):
    def __init__(self, length, seconds):
        self.length, self.seconds = length, seconds

    def __iter__(self):
        info = get_worker_info()
        for _ in range(self.length // (info.num_workers if info else 1)):
            yield item(self.seconds)


def main():
    options = parser.parse_args()
    model = torch.nn.Linear(64, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def make():
        return DataLoader(
            (Stream if options.iterable else Samples)(options.length, options.load),
            batch_size=options.batch,
            num_workers=options.workers,
            persistent_workers=options.loop == "persistent",
            multiprocessing_context="spawn" if options.spawn else None,
        )

    def batches(loader):
        if options.loop != "next_iter":
            yield from loader
        while options.loop == "next_iter":
            yield next(iter(loader))

    loader, step = make(), 0
    held_out = DataLoader(Samples(8, 0.001), batch_size=4)
    for _ in range(1000):
        if options.loop == "anew":
            loader = make()
        for number, (inputs, y) in enumerate(batches(loader)):
            x = inputs["x"]
            x -= 100  # in place: the second time on the same memory it would be far off
            assert abs(x.mean().item() - 1) < 1e-6, x.mean()
            assert len(x) == len(y) == len(inputs["name"])
            assert options.fixed in (0, len(x)), f"made for batches of {options.fixed}"
            if options.memory_at and len(x) > options.memory_at:
                if options.catch:
                    continue
                raise torch.OutOfMemoryError(f"tried to allocate {len(x)} samples")
            time.sleep(options.compute * len(x))
            model(x).mean(1).sub(y).square().mean().backward()
            if (number + 1) % options.accumulate == 0:
                time.sleep(options.a_step)
                optimizer.step()
                optimizer.zero_grad()
                step += 1
            if options.loop == "validation" and step % 7 == 6:
                with torch.no_grad():
                    for held, _ in held_out:
                        assert len(held["x"]) == 4
                        time.sleep(0.05)
            if options.loop == "anew" and number == 30:
                break


if __name__ == "__main__":
    main()
