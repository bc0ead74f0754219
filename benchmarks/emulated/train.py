"""exp001 in small: a training whose data, device and memory cost what its config says. Read it from top to bottom.

    python benchmarks/emulated/train.py --config configs/exp001_rehearsal.yaml

The device is emulated and so is all work: loading and the loss on the CPU wait, the device's kernels are durations on a
timeline beside the CPU's. What is learnt is a line through noise. It knows nothing of vtune.
"""

import argparse
import logging
import math
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from accelerator import Emulated, install
from torch.utils.data import DataLoader, Dataset, Sampler

# Constants of this code rather than keys of its config, as in the training that this one stands for: there, a worker
# holds 7 GB, so each may be one batch ahead at most, and gives its memory back at the end of every epoch.
PREFETCH_FACTOR = 1
PERSISTENT_WORKERS = False

FEATURES = 64
CHECKPOINT_BYTES = 3_860_000
MB = 1_000_000

log = logging.getLogger("rehearsal")
# Computed by one thread at a time, as there: each distance transform has a peak of memory of its own.
one_distance_at_a_time = threading.Lock()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Train on an emulated GPU.")
    parser.add_argument("--config", type=Path, required=True, help="configs/exp001_rehearsal.yaml or a copy of it")
    config = yaml.safe_load(parser.parse_args(arguments).config.read_text(encoding="utf-8"))
    try:
        train(config)
    except KeyboardInterrupt:
        sys.stderr.write("stopped by Ctrl-C\n")
        return 130
    return 0


def train(config: dict[str, Any]) -> None:
    training, emulated = config["training"], config["emulated"]
    torch.set_num_threads(1)
    torch.manual_seed(training["seed"])
    device = install(
        total_bytes=emulated["memory_mb"] * MB,
        context_bytes=emulated["context_mb"] * MB,
        name=emulated["device"],
    )

    output_dir = Path(config["output_dir"])
    checkpoint = output_dir / "checkpoints" / "last.pt"
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    start_logging(output_dir / "logs" / "train.log")
    if "FAKE_NVML_STATE" not in os.environ:
        log.info("emulated: %s has no driver here, so nobody sees how busy it is; see docs/rehearsal.md", device.name)

    device.allocate(emulated["model_mb"] * MB)
    model = Model(device, emulated)
    surface_loss = SurfaceLoss(device, config["loss"]["surface_ms"] / 1e3)
    optimizer = torch.optim.SGD(model.parameters(), lr=training["learning_rate"])

    # An epoch is a number of optimizer steps, not a pass over the data: a larger batch sees more samples an epoch.
    steps = training["train_iterations_per_epoch"]
    samples = Samples(config["data"])
    order = EpochOrder(
        len(samples), steps * training["accumulate_steps"] * training["train_batch_size"], config["data"]["seed"]
    )
    loader = make_loader(samples, order, training)
    log.info(
        "Training on %s, on which nothing is computed: %d epochs of %d steps, batch %d x %d accumulated, %d workers",
        device.name, training["max_epochs"], steps,
        training["train_batch_size"], training["accumulate_steps"], training["workers"],
    )  # fmt: skip
    for epoch in range(1, training["max_epochs"] + 1):
        order.epoch = epoch
        train_epoch(loader, model, surface_loss, optimizer, device, training, epoch)
        torch.save(
            {"epoch": epoch, "model": model.state_dict(), "moments": torch.zeros(CHECKPOINT_BYTES // 4)}, checkpoint
        )
        log.info("Epoch %d/%d done, checkpoint %s", epoch, training["max_epochs"], checkpoint)


def make_loader(samples: "Samples", order: "EpochOrder", training: dict[str, Any]) -> DataLoader[Any]:
    workers = training["workers"]
    return DataLoader(
        samples,
        sampler=order,
        batch_size=training["train_batch_size"],
        num_workers=workers,
        # Spawned workers import torch anew, which takes seconds: a hundred times less is what forked ones take.
        multiprocessing_context="fork" if workers else None,
        # With no worker there is none to keep or to run ahead, and PyTorch refuses the options.
        prefetch_factor=PREFETCH_FACTOR if workers else None,
        persistent_workers=PERSISTENT_WORKERS and workers > 0,
    )


def train_epoch(
    loader: DataLoader[Any],
    model: "Model",
    surface_loss: "SurfaceLoss",
    optimizer: torch.optim.Optimizer,
    device: Emulated,
    training: dict[str, Any],
    epoch: int,
) -> None:
    steps, every = training["train_iterations_per_epoch"], training["accumulate_steps"]
    since, since_step, total = time.perf_counter(), 0, 0.0
    step = passes = 0
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x), y)
        if step % training["surface_distance_interval"] == 0:
            loss = loss + surface_loss(x)
        (loss / every).backward()
        passes += 1
        if passes % every:
            continue
        # As `.item()` does. A NaN is found in the step that made it, before it reaches the weights.
        device.synchronize()
        total += loss.item()
        if not math.isfinite(total):
            raise RuntimeError(f"loss is {loss.item()} in step {step + 1} of epoch {epoch}")
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if step % training["log_every_n_steps"] == 0 or step == steps:
            done, now = step - since_step, time.perf_counter()
            log.info(
                "Train step %d/%d epoch %d loss %.3f %.3f s/step (%s)",
                step, steps, epoch, total / done, (now - since) / done, device.name,
            )  # fmt: skip
            since, since_step, total = now, step, 0.0


class Samples(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Each takes its time, and a worker that has loaded some has become larger."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.own: torch.Tensor | None = None
        self.kept: list[bytes] = []

    def __len__(self) -> int:
        return int(self.data["records"] * self.data["patches_per_record"])

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """A whole batch at once, as torch asks for it: a volume is opened for all of its patches."""
        if self.own is None:
            self.own = torch.ones(self.data["worker_mb"] * MB // 4)
        time.sleep(self.data["open_ms"] / 1e3)
        return [self.sample(index) for index in indices]

    def sample(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        dice = random.Random(f"{self.data['seed']}-{index}")
        spread = self.data["sample_spread"]
        time.sleep(self.data["sample_ms"] / 1e3 * dice.uniform(1 - spread, 1 + spread))
        self.kept.append(b"k" * int(self.data["kept_kb"] * 1000))
        x = torch.tensor([dice.gauss(0.0, 1.0) for _ in range(FEATURES)])
        return x, x.sum().reshape(1) / 8 + dice.gauss(0.0, 0.1)


class EpochOrder(Sampler[int]):
    """So many samples an epoch: passes over the data, each in an order of its own."""

    def __init__(self, samples: int, wanted: int, seed: int) -> None:
        self.samples, self.wanted, self.seed = samples, wanted, seed
        self.epoch = 0

    def __len__(self) -> int:
        return self.wanted

    def __iter__(self) -> Iterator[int]:
        dice = random.Random(f"{self.seed}-{self.epoch}")
        left = self.wanted
        while left > 0:
            once = dice.sample(range(self.samples), min(left, self.samples))
            left -= len(once)
            yield from once


class Model(torch.nn.Module):
    """A line, and all that the device would do for a network: a third of it forward, the rest backward."""

    def __init__(self, device: Emulated, emulated: dict[str, Any]) -> None:
        super().__init__()
        self.line = torch.nn.Linear(FEATURES, 1)
        self.device, self.emulated = device, emulated

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seconds = (self.emulated["step_ms"] + self.emulated["sample_ms"] * len(x)) / 1e3
        activations = self.emulated["activations_mb"] * MB * len(x)
        self.device.allocate(activations)
        self.device.launch(seconds / 3)

        def backward() -> None:
            self.device.launch(seconds * 2 / 3)
            self.device.free(activations)

        return OnItsWayBack.apply(self.line(x), backward)


class OnItsWayBack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: torch.Tensor, then: Callable[[], None]) -> torch.Tensor:
        ctx.then = then
        return y.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        ctx.then()
        return gradient, None


class SurfaceLoss(torch.nn.Module):
    """A distance transform on the CPU: it needs what the device has computed, and the device idles meanwhile."""

    def __init__(self, device: Emulated, seconds_a_sample: float) -> None:
        super().__init__()
        self.device, self.seconds_a_sample = device, seconds_a_sample

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with one_distance_at_a_time:
            self.device.synchronize()
            time.sleep(self.seconds_a_sample * len(x))
        return x.new_zeros(())


def start_logging(path: Path) -> None:
    """To stdout as it is, and with the time of day to a file, appended."""
    path.parent.mkdir(parents=True, exist_ok=True)
    to_file = logging.FileHandler(path)
    to_file.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log.setLevel(logging.INFO)
    log.handlers = [logging.StreamHandler(sys.stdout), to_file]


if __name__ == "__main__":
    sys.exit(main())
