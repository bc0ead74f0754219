"""A training on the emulated accelerator that validates now and then; what each part takes of the device is known."""

import argparse
import contextlib
import sys
from types import SimpleNamespace

import torch
from torch.utils.data import DataLoader, Dataset

from emulated import accelerator

# Without its compiler torch starts in half the time: tests/support/light.py.
sys.modules["torch._dynamo"] = SimpleNamespace(disable=lambda call, *_, **__: call, graph_break=lambda: None)

MIB = 2**20
# Held by the model, and while a step lasts.
MODEL, STEP = 10, 100


class Samples(Dataset):
    def __init__(self, count: int, *, growing: bool = False) -> None:
        self.count, self.growing = count, growing

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.zeros(3 + index % 7 if self.growing else 3)


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=60, help="of an epoch")
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--step-s", type=float, default=0.003, help="seconds on the device")
parser.add_argument("--validate-every", type=int, default=0, help="steps")
parser.add_argument("--validation-batches", type=int, default=6)
parser.add_argument("--validation-mib", type=int, default=300, help="of its last batch; the others take a quarter")
parser.add_argument("--validation-s", type=float, default=0.001, help="seconds of a batch")
parser.add_argument("--growing", action="store_true", help="validation's batches differ in their shape")
parser.add_argument("--with-gradients", action="store_true", help="nothing tells validation from training")
parser.add_argument("--resets", action="store_true", help="peaks are reset and the cache emptied around validation")
parser.add_argument("--mib", type=int, default=4096, help="of the device")
parser.add_argument("--fraction", type=float, default=0.0, help="the script's own limit")
parser.add_argument("--out-of-memory-at", type=int, default=-1)
parser.add_argument("--splinter-at", type=int, default=-1, help="from here on the cache has to be given back")
parser.add_argument("--catches", action="store_true", help="running out of memory, and goes on")
options = parser.parse_args()


def main() -> None:
    device = accelerator.install(total_bytes=options.mib * MIB)
    torch.manual_seed(0)
    if options.fraction:
        torch.emulated.set_per_process_memory_fraction(options.fraction)
    device.allocate(MODEL * MIB)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    validation = DataLoader(Samples(options.validation_batches, growing=options.growing), batch_size=1)
    said = []
    step = 0
    for _ in range(options.epochs):
        for x in DataLoader(Samples(options.steps), batch_size=1):
            device.launch(options.step_s)
            device.allocate(STEP * MIB)
            model(x).mean().backward()
            device.free(STEP * MIB)
            optimizer.step()
            optimizer.zero_grad()
            device.synchronize()
            step += 1
            if step == options.out_of_memory_at:
                asks_for_more(device)
            if 0 <= options.splinter_at <= step:
                room = options.mib * MIB - accelerator.CONTEXT
                device.splinter(room - (MODEL + STEP // 2) * MIB - device.splinters)
            if options.validate_every and step % options.validate_every == 0:
                validate(device, model, validation)
                said.append(torch.emulated.max_memory_allocated() // MIB)
    print(step, said, torch.rand(1).item(), torch.emulated.get_per_process_memory_fraction())


def asks_for_more(device: accelerator.Emulated) -> None:
    caught = contextlib.suppress(torch.OutOfMemoryError) if options.catches else contextlib.nullcontext()
    with caught:
        device.allocate(2 * options.mib * MIB)


def validate(device: accelerator.Emulated, model: torch.nn.Module, loader: DataLoader) -> None:
    if options.resets:
        torch.emulated.empty_cache()
        torch.emulated.reset_peak_memory_stats()
    with torch.set_grad_enabled(options.with_gradients):
        for number, x in enumerate(loader):
            size = options.validation_mib * MIB // (1 if number + 1 == len(loader) else 4)
            device.launch(options.validation_s)
            device.allocate(size)
            model(x[:, :3])
            device.free(size)
            device.synchronize()
    if options.resets:
        torch.emulated.reset_peak_memory_stats()


if __name__ == "__main__":
    main()
