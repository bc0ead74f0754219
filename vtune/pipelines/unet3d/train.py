"""Trains a 3D U-Net to find papyrus surfaces in CT scrolls. Read it from top to bottom.

    python -m vtune.pipelines.unet3d.train --config configs/quickstart.yaml

Exit codes: 0 done · 1 the training failed · 2 the config is wrong · 130 Ctrl-C · 143 SIGTERM.
"""

import argparse
import dataclasses
import logging
import math
import signal
import sys
import time
from pathlib import Path
from types import FrameType

import torch
from torch.utils.data import DataLoader

from vtune.pipelines.unet3d.checkpoints import CheckpointError, expected_bytes, prepare_folder, save_checkpoint
from vtune.pipelines.unet3d.data.patches import EpochWindow, Patch, ScrollPatches
from vtune.pipelines.unet3d.losses.total import segmentation_loss
from vtune.pipelines.unet3d.model import UNet3D
from vtune.pipelines.unet3d.settings import Settings, SettingsError, TrainingSettings, load_settings

# Constants of this code rather than keys of its config, as in the training that this one stands for: there, a worker
# holds 7 GB, so each may be one batch ahead at most, and gives its memory back at the end of every epoch. The price is
# a loader that rarely runs ahead of the network and starts anew each epoch.
PREFETCH_FACTOR = 1
PERSISTENT_WORKERS = False

log = logging.getLogger("unet3d")


class TrainingError(Exception):
    """The training cannot go on; one sentence that says why."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m vtune.pipelines.unet3d.train", description="Train a 3D U-Net.")
    parser.add_argument("--config", type=Path, required=True, help="YAML file, e.g. configs/quickstart.yaml")
    config: Path = parser.parse_args(arguments).config
    try:
        train(load_settings(config))
    except SettingsError as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"error: {line}\n")
        return 2
    except (CheckpointError, TrainingError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("stopped by Ctrl-C\n")
        return 130
    return 0


def train(settings: Settings) -> None:
    training = settings.training
    if training.torch_threads is not None:
        torch.set_num_threads(training.torch_threads)
    torch.manual_seed(training.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    model = UNet3D(settings.model).to(device)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay)

    # Before the first step, for a run that dies at its first checkpoint has wasted an epoch.
    output_dir = Path(settings.output_dir)
    checkpoint = output_dir / "checkpoints" / "last.pt"
    prepare_folder(checkpoint.parent, bytes_needed=expected_bytes(model))
    start_logging(output_dir / "logs" / "train.log")
    if checkpoint.exists():
        log.info("The first epoch's checkpoint will replace an earlier run's %s", checkpoint)

    # An epoch is a number of optimizer steps, not a pass over the data: a larger batch sees more samples an epoch.
    steps = training.train_iterations_per_epoch
    window = EpochWindow(steps * training.accumulate_steps * training.train_batch_size)
    loader = make_loader(settings, window, device)
    log.info(
        "Training on %s: %.2f million parameters, %d epochs of %d steps, batch %d x %d accumulated, %d workers",
        device, parameters / 1e6, training.max_epochs, steps,
        training.train_batch_size, training.accumulate_steps, training.workers,
    )  # fmt: skip

    for epoch in range(1, training.max_epochs + 1):
        window.epoch = epoch - 1
        train_epoch(model, loader, epoch=epoch, optimizer=optimizer, settings=settings, device=device)
        save_checkpoint(
            checkpoint,
            {
                "epoch": epoch,
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "settings": dataclasses.asdict(settings),
            },
        )
        log.info("Epoch %d/%d done, checkpoint %s", epoch, training.max_epochs, checkpoint)


def make_loader(settings: Settings, window: EpochWindow, device: torch.device) -> DataLoader[Patch]:
    workers = settings.training.workers
    return DataLoader(
        ScrollPatches(settings.data, settings.augmentation),
        sampler=window,
        batch_size=settings.training.train_batch_size,
        num_workers=workers,
        # With no worker there is no process to start, to keep or to run ahead, and PyTorch refuses the options.
        multiprocessing_context=settings.training.worker_start if workers else None,
        prefetch_factor=PREFETCH_FACTOR if workers else None,
        persistent_workers=PERSISTENT_WORKERS and workers > 0,
        pin_memory=device.type == "cuda",
    )


def train_epoch(
    model: UNet3D,
    loader: DataLoader[Patch],
    *,
    epoch: int,
    optimizer: torch.optim.Optimizer,
    settings: Settings,
    device: torch.device,
) -> None:
    training = settings.training
    model.train()
    optimizer.zero_grad(set_to_none=True)
    step = 0
    micro_batches: list[dict[str, torch.Tensor]] = []
    origins: list[torch.Tensor] = []
    progress = Progress(epoch, training.train_iterations_per_epoch)

    for batch in loader:
        image = batch.image.to(device, non_blocking=True)
        label = batch.label.to(device, non_blocking=True).float()
        # The first step has it too: what breaks or needs most memory should do so at once.
        with_surface = step % training.surface_distance_interval == 0
        terms = segmentation_loss(model(image), label, settings.loss, with_surface=with_surface)
        (terms["total"] / training.accumulate_steps).backward()
        micro_batches.append({name: term.detach() for name, term in terms.items()})
        origins.append(batch.origin)
        if len(micro_batches) < training.accumulate_steps:
            continue

        # The one place a step where the host waits for the device: some milliseconds, and a NaN is found in the
        # step that made it, before it reaches the weights.
        losses = mean_terms(micro_batches)
        if not math.isfinite(losses["total"]):
            raise TrainingError(f"loss is {losses['total']} in step {step + 1} of epoch {epoch}, {describe(origins)}")
        if training.gradient_clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), training.gradient_clip)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate((epoch - 1) * training.train_iterations_per_epoch + step, training)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        micro_batches.clear()
        origins.clear()
        step += 1

        progress.add(losses)
        if step % training.log_every_n_steps == 0 or step == training.train_iterations_per_epoch:
            log.info(progress.line(step))


def learning_rate(steps_done: int, training: TrainingSettings) -> float:
    """Linear warm-up, then half a cosine down to zero at the end of the last epoch."""
    total = training.max_epochs * training.train_iterations_per_epoch
    warmup = min(training.warmup_steps, total)
    if steps_done < warmup:
        return training.learning_rate * (steps_done + 1) / warmup
    progress = min(1.0, (steps_done - warmup) / max(1, total - warmup))
    return training.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))


def mean_terms(micro_batches: list[dict[str, torch.Tensor]]) -> dict[str, float]:
    """Over one step's micro-batches, in one transfer from the device."""
    names = list(micro_batches[0])
    values = torch.stack([torch.stack([terms[name] for name in names]) for terms in micro_batches])
    return dict(zip(names, values.mean(dim=0).tolist(), strict=True))


def describe(origins: list[torch.Tensor]) -> str:
    samples = (
        f"sample {number} (record {record} at z {z}, y {y}, x {x})"
        for number, record, z, y, x in torch.cat(origins).tolist()
    )
    return "batch of " + ", ".join(samples)


class Progress:
    """Means since the last log line."""

    def __init__(self, epoch: int, steps_per_epoch: int) -> None:
        self._epoch = epoch
        self._steps_per_epoch = steps_per_epoch
        self._restart()

    def _restart(self) -> None:
        self._since = time.perf_counter()
        self._steps: list[dict[str, float]] = []

    def add(self, losses: dict[str, float]) -> None:
        self._steps.append(losses)

    def line(self, step: int) -> str:
        seconds = (time.perf_counter() - self._since) / len(self._steps)
        terms = " ".join(f"{name} {self._mean(name)}" for name in ("bce", "dice", "surface"))
        text = (
            f"Train step {step}/{self._steps_per_epoch} epoch {self._epoch} loss {self._mean('total')} ({terms}) "
            f"{seconds:.3f} s/step"
        )
        self._restart()
        return text

    def _mean(self, name: str) -> str:
        values = [losses[name] for losses in self._steps if name in losses]
        return f"{sum(values) / len(values):.3f}" if values else "-"


def start_logging(path: Path) -> None:
    """To stdout as it is, and with the time of day to a file, appended."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        to_file = logging.FileHandler(path)
    except OSError as error:
        raise TrainingError(f"cannot write the log {path}: {error.strerror}") from error
    to_file.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log.setLevel(logging.INFO)
    for earlier in log.handlers:
        earlier.close()
    log.handlers = [logging.StreamHandler(sys.stdout), to_file]


def stop_on_sigterm(signal_number: int, frame: FrameType | None) -> None:
    """As an exception, so that the loader's workers are stopped on the way out."""
    sys.exit(128 + signal_number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop_on_sigterm)
    sys.exit(main())
