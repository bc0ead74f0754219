"""A training on the emulated accelerator, whose every step has known times on the device and on the host."""

import argparse
import hashlib
import time

import torch
from torch.utils.data import DataLoader, Dataset

from emulated import accelerator


class Waits(Dataset):
    def __init__(self, count: int, seconds: float) -> None:
        self.count, self.seconds = count, seconds

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.seconds)
        return torch.full((3,), float(index))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    for name in ("wait", "transfer", "forward", "loss", "cpu-loss", "backward", "optimizer", "logging"):
        parser.add_argument(f"--{name}", type=float, default=0.0, help="seconds")
    parser.add_argument("--synchronize", action="store_true", help="as `.item()` does, after each step")
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--reset-every", type=int, default=0)
    parser.add_argument("--without", nargs="*", default=[])
    parser.add_argument("--capture-from", type=int, default=10**9)
    parser.add_argument("--out-of-memory-at", type=int, default=-1)
    options = parser.parse_args()
    device = accelerator.install(without=tuple(options.without))
    torch.manual_seed(0)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            device.launch(options.forward)
            device.allocate(40 * 2**20)
            return self.layer(x)

    class Loss(torch.nn.Module):
        def forward(self, y: torch.Tensor) -> torch.Tensor:
            if options.cpu_loss:
                # The value is needed on the host, which takes its time, and then it goes back.
                device.synchronize()
                time.sleep(options.cpu_loss)
            device.launch(options.loss)
            device.allocate(10 * 2**20)
            return OnItsWayBack.apply(y.square().mean())

    class OnItsWayBack(torch.autograd.Function):
        @staticmethod
        def forward(context: object, y: torch.Tensor) -> torch.Tensor:
            return y.clone()

        @staticmethod
        def backward(context: object, gradient: torch.Tensor) -> torch.Tensor:
            device.launch(options.backward)
            device.allocate(100 * 2**20)
            return gradient

    device.allocate(8 * 2**20)
    model, criterion = Model(), Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    digest = hashlib.sha256()
    loader = DataLoader(Waits(options.steps * options.accumulate, options.wait), batch_size=1)
    for number, x in enumerate(loader):
        device.launch(options.transfer)
        loss = criterion(model(x))
        loss.backward()
        device.free(150 * 2**20)
        if (number + 1) % options.accumulate:
            continue
        step = number // options.accumulate
        device.is_capturing = step >= options.capture_from
        device.launch(options.optimizer)
        optimizer.step()
        optimizer.zero_grad()
        if options.synchronize:
            device.synchronize()
        time.sleep(options.logging)
        digest.update(f"{loss.item()} {torch.emulated.max_memory_allocated()} {torch.rand(1).item()}".encode())
        digest.update(f"{torch.emulated.memory_stats()['allocated_bytes.all.peak']}".encode())
        if options.reset_every and step % options.reset_every == 0:
            torch.emulated.empty_cache()
            torch.emulated.reset_peak_memory_stats()
            digest.update(f"{torch.emulated.max_memory_allocated('emulated:0')}".encode())
        if step == options.out_of_memory_at:
            device.allocate(2**40)
    print(digest.hexdigest())
    print(loss.item(), torch.emulated.max_memory_allocated() / 2**20, device.calls.get("synchronize", 0))


if __name__ == "__main__":
    main()
