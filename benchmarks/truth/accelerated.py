"""A training on the emulated accelerator whose time goes where it is told: into its data, its loss or its logging."""

import argparse
import time

import torch
from torch.utils.data import DataLoader, Dataset

from support import emulated_accelerator

# What the device works for a step: forward, backward and the optimizer together.
DEVICE_S = 0.02


class Samples(Dataset):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.seconds)
        return torch.full((3,), float(index))


class Loss(torch.nn.Module):
    """Its value is needed on the host, which takes its time."""

    def __init__(self, device: emulated_accelerator.Emulated | None, seconds: float) -> None:
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
    device = None if options.cpu_only else emulated_accelerator.install()
    if device is not None:
        # The model's way to it.
        device.allocate(8 * 2**20)

    def compute(seconds: float) -> None:
        if device is None:
            time.sleep(seconds)
        else:
            device.launch(seconds)

    extra = {options.where: options.ms / 1e3}
    model = torch.nn.Linear(3, 1)
    criterion = Loss(device, extra.get("loss", 0.0))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    loader = DataLoader(Samples(0.002 + extra.get("data", 0.0)), batch_size=1, num_workers=1)
    for x in loader:
        compute(DEVICE_S / 2)
        loss = criterion(model(x))
        compute(DEVICE_S / 2)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if device is not None:
            # As `.item()` does.
            device.synchronize()
        time.sleep(extra.get("logging", 0.0))


if __name__ == "__main__":
    main()
