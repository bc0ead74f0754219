"""A training on the emulated accelerator: each sample takes a known time and a known part of its memory."""

import argparse
import time

import torch
from torch.utils.data import DataLoader, Dataset

from emulated import accelerator

MIB = 2**20
parser = argparse.ArgumentParser()
parser.add_argument("--a-sample", type=float, default=0.004, help="seconds on the device")
parser.add_argument("--mib", type=int, default=100, help="of the device's memory, each sample")
parser.add_argument("--gib", type=float, default=4.0, help="what the device has")
parser.add_argument("--every-step", action="store_true", help="waits for the device, as `.item()` does")
parser.add_argument("--large", type=int, default=64, help="floats in a sample: how long its copy takes")


class Samples(Dataset):
    def __init__(self, floats):
        self.floats = floats

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.zeros(self.floats)


def main():
    options = parser.parse_args()
    device = accelerator.install(total_bytes=int(options.gib * 2**30))
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    device.allocate(10 * MIB)
    highest = 0
    for step, x in enumerate(DataLoader(Samples(options.large), batch_size=2)):
        size = len(x) * options.mib * MIB
        device.launch(options.a_sample * len(x))
        device.allocate(size)
        model(x[:, :1]).mean().backward()
        device.free(size)
        optimizer.step()
        optimizer.zero_grad()
        # A script that keeps an eye on its own memory must not notice that somebody else does.
        highest = max(highest, 10 * MIB + size)
        assert torch.emulated.max_memory_allocated() == highest, (step, torch.emulated.max_memory_allocated(), highest)
        if options.every_step or step % 20 == 0:
            device.synchronize()


if __name__ == "__main__":
    main()
