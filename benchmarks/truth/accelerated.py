"""A training on the emulated accelerator whose time goes where it is told: into its data, its loss or its logging."""

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from emulated import accelerator

# What the model works for a step, on the device or in its stead: half of it forward, half of it backward.
MODEL_S = 0.02

Compute = Callable[[float], None]


class Samples(Dataset):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.seconds)
        return torch.full((3,), float(index))


class Work(torch.autograd.Function):
    """Nothing but its time, both ways."""

    @staticmethod
    def forward(ctx: Any, y: torch.Tensor, compute: Compute) -> torch.Tensor:
        ctx.compute = compute
        compute(MODEL_S / 2)
        return y.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        ctx.compute(MODEL_S / 2)
        return gradient, None


class Model(torch.nn.Module):
    """All of the computing is inside: outside of any module it would be the host's own work, as logging is."""

    def __init__(self, compute: Compute) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 1)
        self.compute = compute

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Work.apply(self.linear(x), self.compute)


class Loss(torch.nn.Module):
    """Its value is needed on the host, which takes its time."""

    def __init__(self, device: accelerator.Emulated | None, seconds: float) -> None:
        super().__init__()
        self.device, self.seconds = device, seconds

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        if self.seconds:
            if self.device is not None:
                self.device.synchronize()
            time.sleep(self.seconds)
        return y.square().mean()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--in", dest="where", choices=["data", "loss", "logging", "nothing"], required=True)
    parser.add_argument("--ms", type=float, default=80.0)
    parser.add_argument("--cpu-only", action="store_true", help="no device: the same work is done by the host")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    device = None if options.cpu_only else accelerator.install()
    if device is not None:
        # The model's way to it.
        device.allocate(8 * 2**20)

    extra = {options.where: options.ms / 1e3}
    model = Model(time.sleep if device is None else device.launch)
    criterion = Loss(device, extra.get("loss", 0.0))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    loader = DataLoader(Samples(0.002 + extra.get("data", 0.0)), batch_size=1, num_workers=1)
    for x in loader:
        loss = criterion(model(x))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if device is not None:
            # As `.item()` does.
            device.synchronize()
        time.sleep(extra.get("logging", 0.0))


if __name__ == "__main__":
    main()
