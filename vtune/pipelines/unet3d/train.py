"""Trains a 3D U-Net to find papyrus surfaces in CT scrolls. Read it from top to bottom.

    python -m vtune.pipelines.unet3d.train --config configs/quickstart.yaml
    python -m vtune.pipelines.unet3d.train --config configs/quickstart.yaml --resume
    torchrun --nproc-per-node 4 -m vtune.pipelines.unet3d.train --config configs/exp001.yaml

Exit codes: 0 done · 1 the training failed · 2 the config is wrong · 130 Ctrl-C · 143 SIGTERM, after a checkpoint.
"""

import argparse
import dataclasses
import functools
import hashlib
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from vtune.pipelines.unet3d.averaging import Averaged
from vtune.pipelines.unet3d.checkpoints import CheckpointError, expected_bytes, prepare_folder
from vtune.pipelines.unet3d.config_file import SettingsError
from vtune.pipelines.unet3d.data.patches import EpochWindow, Patch, ScrollPatches
from vtune.pipelines.unet3d.data.records import Record, check_records, find_records, split_records
from vtune.pipelines.unet3d.data.volumes import DataError
from vtune.pipelines.unet3d.journal import JournalError, Metrics, Progress, log, start_logging
from vtune.pipelines.unet3d.losses.surface import DistanceInWorker
from vtune.pipelines.unet3d.losses.total import segmentation_loss
from vtune.pipelines.unet3d.model import UNet3D
from vtune.pipelines.unet3d.precision import LEAST_SCALE, autocast, gradient_scaler, why_not
from vtune.pipelines.unet3d.ranks import FailedElsewhere, RankError, Ranks, exchanging, joined, lost_peer
from vtune.pipelines.unet3d.schedule import SurfaceSamples, has_surface, learning_rate
from vtune.pipelines.unet3d.settings import Settings, load_settings
from vtune.pipelines.unet3d.state import (
    Resume,
    TrainingState,
    checkpoint_to_resume,
    go_on_from,
    keep_copies,
    save,
    seed_everything,
)
from vtune.pipelines.unet3d.stopping import StopRequest, outlast_first_sigterm
from vtune.pipelines.unet3d.validate import validate

# Constants of this code rather than keys of its config, as in the training that this one stands for: there, a worker
# holds 7 GB, so each may be one batch ahead at most, and gives its memory back at the end of every epoch. The price is
# a loader that rarely runs ahead of the network and starts anew each epoch.
PREFETCH_FACTOR = 1
PERSISTENT_WORKERS = False


class TrainingError(Exception):
    """The training cannot go on; one sentence that says why."""


def main(arguments: list[str] | None = None, *, stop: StopRequest | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m vtune.pipelines.unet3d.train", description="Train a 3D U-Net.")
    parser.add_argument("--config", type=Path, required=True, help="YAML file, e.g. configs/quickstart.yaml")
    parser.add_argument(
        "--resume", type=Path, nargs="?", const=True, default=False, metavar="CHECKPOINT",
        help="go on exactly where a checkpoint was written; without a path: the output folder's last one, if any",
    )  # fmt: skip
    chosen = parser.parse_args(arguments)
    try:
        train(load_settings(chosen.config), resume=chosen.resume, stop=stop or StopRequest())
    except SettingsError as error:
        # Each rank reads the same file; once is enough.
        if os.environ.get("RANK", "0") == "0":
            tell(str(error))
        return 2
    except DataError as error:
        tell(error.reason)
        return 1
    except (CheckpointError, JournalError, RankError, TrainingError) as error:
        tell(str(error))
        return 1
    except FailedElsewhere:
        return 1
    except RuntimeError as error:
        words = lost_peer(error)
        if words is None:
            raise
        tell(words)
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("stopped by Ctrl-C\n")
        return 130
    return 0


def tell(problems: str) -> None:
    for line in problems.splitlines():
        sys.stderr.write(f"error: {line}\n")


def train(settings: Settings, *, resume: Resume, stop: StopRequest) -> None:
    if settings.training.torch_threads is not None:
        torch.set_num_threads(settings.training.torch_threads)
    with joined() as ranks:
        unusable = why_not(settings.training.precision, ranks.device)
        if unusable is not None:
            raise TrainingError(unusable)
        train_on(ranks, settings, resume=resume, stop=stop)


def train_on(ranks: Ranks, settings: Settings, *, resume: Resume, stop: StopRequest) -> None:
    training, device = settings.training, ranks.device
    seed_everything(training.seed)
    model = UNet3D(settings.model).to(device)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    state = TrainingState(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay),
        scaler=gradient_scaler(training.precision, device),
        averaged=None if training.ema_decay is None else Averaged(model, training.ema_decay),
        progress=Progress(settings.loss, steps_per_epoch=training.train_iterations_per_epoch),
    )

    # Before the first step, for a run that dies at its first checkpoint, or of its last record, has wasted an epoch.
    output_dir = Path(settings.output_dir)
    checkpoint, logs = output_dir / "checkpoints" / "last.pt", output_dir / "logs"
    has_best = settings.data.validation_records > 0 or settings.data.split_file is not None
    bytes_needed = expected_bytes(
        model, kept_beside=training.keep_checkpoints + has_best, averaged=state.averaged is not None
    )
    ranks.by_first(lambda: prepare_folder(checkpoint.parent, bytes_needed=bytes_needed))
    ranks.agree(lambda: start_logging(logs / "train.log", is_first=ranks.is_first))
    source = ranks.by_first(lambda: checkpoint_to_resume(resume, checkpoint))
    if source is not None:
        ranks.agree(lambda: go_on_from(source, state, settings=settings, ranks=ranks))
    records, validation_records = ranks.by_first(lambda: open_data(settings, source))

    # An epoch is a number of optimizer steps, not a pass over the data: a larger batch sees more samples an epoch.
    steps = training.train_iterations_per_epoch
    samples_per_step = training.accumulate_steps * training.train_batch_size * ranks.count
    window = EpochWindow(steps * samples_per_step, batch=training.train_batch_size, rank=ranks.rank, ranks=ranks.count)
    loader = make_loader(settings, window, device, records, ranks=ranks.count)
    if settings.model.compile:
        model.compile()
    network = ranks.wrap(model)
    log.info(
        "Training on %s: %.2f million parameters, %d epochs of %d steps, batch %d x %d accumulated, %d workers%s",
        device, parameters / 1e6, training.max_epochs, steps, training.train_batch_size, training.accumulate_steps,
        training.workers, f", {ranks.count} ranks" if ranks.count > 1 else "",
    )  # fmt: skip

    # With another run's checkpoint, this folder's metrics are not what goes on.
    is_new = resume is False or (source is not None and source.resolve().parent != checkpoint.resolve().parent)
    new_metrics = functools.partial(
        Metrics,
        logs,
        resumed_after=None if is_new else state.steps_done,
        # Of the epoch before, when none of this one's steps is done.
        is_validated=state.is_validated or state.step == 0,
        tensorboard=training.tensorboard,
    )
    metrics = ranks.agree(lambda: new_metrics() if ranks.is_first else None)
    save_now = functools.partial(save, checkpoint, state, settings=settings, ranks=ranks)
    keep_now = functools.partial(keep_copies, checkpoint, state, newest=training.keep_checkpoints)
    if source == checkpoint and state.is_epoch_done:
        # A kill may have come between this checkpoint and its copies.
        ranks.by_first(keep_now)
    first_epoch = state.epoch + 1 if state.is_epoch_done else state.epoch
    if first_epoch > training.max_epochs:
        log.info("Nothing to do: all %d epochs are done", training.max_epochs)

    stop.can_wait = True
    try:
        for epoch in range(first_epoch, training.max_epochs + 1):
            state.begin_epoch(epoch)
            window.epoch, window.first = epoch - 1, state.step * samples_per_step
            if state.step < steps:
                train_epoch(
                    network, loader, state, settings=settings, ranks=ranks, records=records, metrics=metrics, stop=stop,
                    save=save_now,
                )  # fmt: skip
            is_last = epoch == training.max_epochs
            is_due = is_last or epoch % settings.validation.every_n_epochs == 0
            if validation_records and is_due and not state.is_validated:
                # A kill while it lasts then costs the validation, and not the epoch.
                save_now()
                validate_epoch(state, validation_records, settings=settings, ranks=ranks, metrics=metrics, stop=stop)
            state.is_epoch_done = True
            save_now()
            ranks.by_first(keep_now)
            log.info("Epoch %d/%d done, checkpoint %s", epoch, training.max_epochs, checkpoint)
            if not is_last and ranks.any(stop.asked):
                leave(state)
    except RuntimeError as error:
        # Workers that a SIGTERM to all processes has met while they were starting: the checkpoint is hardly older.
        if not stop.asked or "DataLoader worker" not in str(error):
            raise
        # PyTorch would raise the next one's end in the midst of the way out.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        leave(state)
    finally:
        if metrics is not None:
            metrics.close()


def open_data(settings: Settings, source: Path | None) -> tuple[list[Record], list[Record]]:
    """To train on, and to validate on; what is wrong with them is found here as far as headers can tell."""
    data = settings.data
    if source is not None and data.split_file is None:
        # As the checkpoint's run had it. With a file more in the folder, a new split would put records that were
        # trained on among those that judge.
        earlier = source.resolve().parents[1] / "split.json"
        data = dataclasses.replace(data, split_file=str(earlier) if earlier.exists() else None)
    records = find_records(data)
    check_records(records, data)
    return split_records(records, data, settings.output_dir)


def make_loader(
    settings: Settings,
    window: EpochWindow,
    device: torch.device,
    records: list[Record] | None = None,
    *,
    ranks: int = 1,
) -> DataLoader[Patch]:
    """Of all the config's records, unless some are given."""
    workers = settings.training.workers
    distance_to = None
    if settings.loss.surface_place == "worker" and settings.loss.surface_weight > 0:
        # One lock for all workers of all ranks on this machine, and for no other training's.
        output = hashlib.sha256(os.path.abspath(settings.output_dir).encode()).hexdigest()[:16]
        distance_to = DistanceInWorker(Path(tempfile.gettempdir(), f"unet3d-{os.getuid()}-{output}.lock"))
    return DataLoader(
        ScrollPatches(
            find_records(settings.data) if records is None else records,
            settings.data,
            settings.augmentation,
            distance_to=distance_to,
            distance_when=SurfaceSamples(settings.training, ranks),
        ),
        sampler=window,
        batch_size=settings.training.train_batch_size,
        num_workers=workers,
        # With no worker there is no process to start, to keep or to run ahead, and PyTorch refuses the options.
        multiprocessing_context=settings.training.worker_start if workers else None,
        prefetch_factor=PREFETCH_FACTOR if workers else None,
        persistent_workers=PERSISTENT_WORKERS and workers > 0,
        pin_memory=device.type == "cuda",
        worker_init_fn=outlast_first_sigterm,
        # Each start of an iterator draws a seed that nothing here uses. A resumed epoch starts one more, and must not
        # find other random numbers for that.
        generator=torch.Generator(),
    )


def train_epoch(
    network: nn.Module,
    loader: DataLoader[Patch],
    state: TrainingState,
    *,
    settings: Settings,
    ranks: Ranks,
    records: list[Record],
    metrics: Metrics | None,
    stop: StopRequest,
    save: Callable[[], None],
) -> None:
    training, optimizer, scaler = settings.training, state.optimizer, state.scaler
    network.train()
    optimizer.zero_grad(set_to_none=True)
    micro_batches: list[dict[str, Tensor]] = []
    origins: list[Tensor] = []
    if state.step == 0:
        state.progress.restart()

    for batch in loader:
        with_surface = has_surface(state.step, training)
        is_last = len(micro_batches) + 1 == training.accumulate_steps
        with exchanging(network, now=is_last):
            terms = forward(network, batch, settings, ranks.device, with_surface=with_surface)
            scaler.scale(terms["total"] / training.accumulate_steps).backward()
        micro_batches.append({name: term.detach() for name, term in terms.items()})
        origins.append(batch.origin)
        if not is_last:
            continue

        scaler.unscale_(optimizer)
        clip = math.inf if training.gradient_clip is None else training.gradient_clip
        norm = torch.nn.utils.clip_grad_norm_(state.model.parameters(), clip)
        # The one place a step where the host waits for the device: some milliseconds, and a NaN is found in the
        # step that made it, before it reaches the weights.
        losses, gradient_norm, is_stopping = agreed(micro_batches, norm, is_stopping=stop.asked, ranks=ranks)
        if not math.isfinite(losses["total"]):
            bad = [not math.isfinite(terms["total"].item()) for terms in micro_batches]
            guilty = [origin for origin, is_bad in zip(origins, bad, strict=True) if is_bad]
            fail(f"loss is {losses['total']}", guilty, state=state, records=records, ranks=ranks)
        # float16's may overflow: the scaler leaves the step out and tries a smaller scale.
        scale = scaler.get_scale()
        if not math.isfinite(gradient_norm) and (not scaler.is_enabled() or scale < LEAST_SCALE):
            fail(f"the gradients' norm is {gradient_norm}", origins, state=state, records=records, ranks=ranks)

        rate = learning_rate(state.steps_done, training)
        for group in optimizer.param_groups:
            group["lr"] = rate
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        if state.averaged is not None and math.isfinite(gradient_norm):
            state.averaged.update(state.steps_done)
        micro_batches.clear()
        origins.clear()
        state.step += 1
        state.steps_done += 1
        state.progress.add(losses)
        if metrics is not None:
            values = {"loss": losses["total"], **losses, "gradient_norm": gradient_norm}
            del values["total"]
            if scaler.is_enabled():
                values["scale"] = scale
            metrics.step(state.steps_done, epoch=state.epoch, learning_rate=rate, values=values)

        is_over = state.step == training.train_iterations_per_epoch
        if state.step % training.log_every_n_steps == 0 or is_over:
            log.info(state.progress.line(state.step, state.epoch))
        every = training.checkpoint_every_n_steps
        if is_stopping or (every is not None and state.step % every == 0 and not is_over):
            save()
        if is_stopping:
            leave(state)


def forward(
    network: nn.Module, batch: Patch, settings: Settings, device: torch.device, *, with_surface: bool
) -> dict[str, Tensor]:
    """The loss of one micro-batch, in float32 whatever the network computes in."""
    image = batch.image.to(device, non_blocking=True)
    label = batch.label.to(device, non_blocking=True)
    distance = batch.distance.to(device, non_blocking=True) if batch.distance.numel() and with_surface else None
    with autocast(settings.training.precision, device):
        outputs = network(image)
    logits = [output.float() for output in outputs]
    return segmentation_loss(logits, label, settings.loss, with_surface=with_surface, label_distance=distance)


def agreed(
    micro_batches: list[dict[str, Tensor]], gradient_norm: Tensor, *, is_stopping: bool, ranks: Ranks
) -> tuple[dict[str, float], float, bool]:
    """Means over one step's micro-batches and over the ranks, in one transfer from the device."""
    names = list(micro_batches[0])
    terms = torch.stack([torch.stack([terms[name] for name in names]) for terms in micro_batches]).mean(dim=0)
    told = torch.cat([terms, gradient_norm.reshape(1), terms.new_full((1,), float(is_stopping))])
    *means, norm, stopping = ranks.mean(told).tolist()
    return dict(zip(names, means, strict=True)), norm, stopping > 0


def fail(what: str, origins: list[Tensor], *, state: TrainingState, records: list[Record], ranks: Ranks) -> NoReturn:
    """All ranks, each with the samples of its own that are to blame."""
    samples = [text for texts in ranks.gather(describe(origins, records)) for text in texts]
    if not ranks.is_first:
        raise FailedElsewhere
    raise TrainingError(f"{what} in step {state.step + 1} of epoch {state.epoch}, batch of {', '.join(samples)}")


def describe(origins: list[Tensor], records: list[Record]) -> list[str]:
    return [
        f"sample {number} (record {records[record].name} at z {z}, y {y}, x {x})"
        for origin in origins
        for number, record, z, y, x in origin.tolist()
    ]


def validate_epoch(
    state: TrainingState, records: list[Record], *, settings: Settings, ranks: Ranks,
    metrics: Metrics | None, stop: StopRequest,
) -> None:  # fmt: skip
    began = time.perf_counter()
    found = validate(state.judged_model, records, settings=settings, ranks=ranks, is_stopped=lambda: stop.asked)
    if found is None:
        leave(state)
    state.judge(found.means["dice"])
    if metrics is not None:
        metrics.validation(state.steps_done, epoch=state.epoch, means=found.means, records=found.records)
    log.info(
        "Validation epoch %d %s (%d records, %.1f s)%s",
        state.epoch, " ".join(f"{name} {value:.3f}" for name, value in found.means.items()),
        len(found.records), time.perf_counter() - began, ", the best so far" if state.best_epoch == state.epoch else "",
    )  # fmt: skip


def leave(state: TrainingState) -> NoReturn:
    log.info("Stopped by SIGTERM after step %d of epoch %d: go on with --resume", state.step, state.epoch)
    sys.exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    request = StopRequest()
    signal.signal(signal.SIGTERM, request.on_signal)
    sys.exit(main(stop=request))
