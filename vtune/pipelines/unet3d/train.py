"""Trains a 3D U-Net to find papyrus surfaces in CT scrolls. Read it from top to bottom.

    python -m vtune.pipelines.unet3d.train --config configs/quickstart.yaml
    python -m vtune.pipelines.unet3d.train --config configs/quickstart.yaml --resume
    torchrun --nproc-per-node 4 -m vtune.pipelines.unet3d.train --config configs/exp001.yaml

Exit codes: 0 done · 1 the training failed · 2 the config is wrong · 130 Ctrl-C · 143 SIGTERM, after a checkpoint.
"""

# what Ctrl-C does is settled before the imports that take seconds

import argparse
import contextlib
import functools
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from vtune.pipelines.unet3d.stopping import (
    StopRequest,
    batches_of,
    ctrl_c_words,
    end_quietly_at_ctrl_c,
    outlast_first_sigterm,
    saved_words,
    unwind_at_ctrl_c,
)

if __name__ == "__main__":
    end_quietly_at_ctrl_c()

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from vtune.pipelines.unet3d.alone import alone_in
from vtune.pipelines.unet3d.averaging import Averaged
from vtune.pipelines.unet3d.checkpoints import expected_bytes, prepare_folder
from vtune.pipelines.unet3d.config_file import SettingsError
from vtune.pipelines.unet3d.curves import Metrics
from vtune.pipelines.unet3d.data.patches import EpochWindow, Patch, ScrollPatches
from vtune.pipelines.unet3d.data.records import Record, Split, open_records
from vtune.pipelines.unet3d.distance import DistanceInWorker, lock_of_run
from vtune.pipelines.unet3d.failures import TrainingError, lost_worker, tell, words_for
from vtune.pipelines.unet3d.journal import Progress, log, start_logging
from vtune.pipelines.unet3d.losses.total import segmentation_loss
from vtune.pipelines.unet3d.model import UNet3D
from vtune.pipelines.unet3d.precision import LEAST_SCALE, autocast, gradient_scaler, why_not
from vtune.pipelines.unet3d.randomness import seed_everything
from vtune.pipelines.unet3d.ranks import FailedElsewhere, Ranks, exchanging, joined
from vtune.pipelines.unet3d.resuming import Resume, checkpoint_to_resume, go_on_from, keep_earlier, what_is_here
from vtune.pipelines.unet3d.schedule import SurfaceSamples, learning_rate, measures_surface
from vtune.pipelines.unet3d.settings import Settings, load_settings
from vtune.pipelines.unet3d.state import TrainingState, keep_copies, save
from vtune.pipelines.unet3d.validate import validate

# Constants of this code rather than keys of its config, as in the training that this one stands for: there, a worker
# holds 7 GB, so each may be one batch ahead at most, and gives its memory back at the end of every epoch. The price is
# a loader that rarely runs ahead of the network and starts anew each epoch.
PREFETCH_FACTOR = 1
PERSISTENT_WORKERS = False


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
    except FailedElsewhere:
        return 1
    except KeyboardInterrupt as pressed:
        # Each rank gets it; once is enough here as well.
        if os.environ.get("RANK", "0") == "0":
            sys.stderr.write(str(pressed) or ctrl_c_words(None))
        return 130
    except Exception as error:
        words = words_for(error)
        if words is None:
            raise
        tell(words)
        return 1
    return 0


def train(settings: Settings, *, resume: Resume, stop: StopRequest) -> None:
    if settings.training.torch_threads is not None:
        torch.set_num_threads(settings.training.torch_threads)
    with joined() as ranks, contextlib.ExitStack() as held:
        unusable = why_not(settings.training.precision, ranks.device)
        if unusable is not None:
            raise TrainingError(unusable)
        alone = alone_in(Path(settings.output_dir))
        ranks.agree(lambda: held.enter_context(alone) if ranks.is_first else None)
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
    source = ranks.by_first(lambda: checkpoint_to_resume(resume, checkpoint))
    bytes_needed = expected_bytes(
        model, kept_beside=training.keep_checkpoints + has_best, averaged=state.averaged is not None
    )
    ranks.by_first(lambda: prepare_folder(checkpoint.parent, bytes_needed=bytes_needed, replaces=source == checkpoint))
    ranks.agree(lambda: start_logging(logs / "train.log", is_first=ranks.is_first))
    if source is None and resume:
        log.info("Nothing to resume: there is no %s yet", checkpoint)
    if source is not None:
        ranks.agree(lambda: go_on_from(source, state, settings=settings, ranks=ranks))
    records, validation_records = ranks.by_first(
        lambda: open_records(settings.data, settings.output_dir, earlier=state.split)
    )
    state.split = Split(*([record.name for record in part] for part in (records, validation_records)))

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

    earlier = what_is_here(source, checkpoint)
    ranks.by_first(lambda: keep_earlier(checkpoint.parent, earlier))
    new_metrics = functools.partial(
        Metrics,
        logs,
        earlier=earlier,
        resumed_after=state.steps_done,
        # Of the epoch before, when none of this one's steps is done.
        is_validated=state.is_validated or state.step == 0,
        tensorboard=training.tensorboard,
    )
    metrics = ranks.agree(lambda: new_metrics() if ranks.is_first else None)
    save_now = functools.partial(save, checkpoint, state, settings=settings, ranks=ranks)
    keep_now = functools.partial(keep_copies, checkpoint, state, newest=training.keep_checkpoints)
    if source == checkpoint:
        state.last_saved = state.place
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
    except KeyboardInterrupt:
        raise KeyboardInterrupt(ctrl_c_words(state.last_saved)) from None
    except RuntimeError as error:
        # A SIGTERM to all processes that has met a worker while it was starting, or a second one.
        if not stop.asked or lost_worker(error) is None:
            raise
        # PyTorch would raise the next one's end in the midst of the way out.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # PyTorch raises this one's at any line, and saving takes all ranks.
        if state.is_whole and ranks.count == 1:
            save_now()
        if state.place != state.last_saved:
            words = saved_words(state.last_saved)
            raise TrainingError(f"stopped by SIGTERM, and a loader worker as well; {words}") from None
        leave(state)
    finally:
        if metrics is not None:
            metrics.close()


def make_loader(
    settings: Settings, window: EpochWindow, device: torch.device, records: list[Record], *, ranks: int
) -> DataLoader[Patch]:
    workers = settings.training.workers
    distance_to = None
    if settings.loss.surface_place == "worker" and settings.loss.surface_weight > 0:
        distance_to = DistanceInWorker(lock_of_run(settings.output_dir), SurfaceSamples(settings.training, ranks))
    return DataLoader(
        ScrollPatches(records, settings.data, settings.augmentation, distance_to=distance_to),
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

    for batch in batches_of(loader):
        with_surface = measures_surface(state.step, training)
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
        # Here the host waits for the device: some milliseconds, and a NaN is found in the step that made it, before it
        # reaches the weights.
        losses, gradient_norm, is_stopping = step_means(micro_batches, norm, is_stopping=stop.asked, ranks=ranks)
        if not math.isfinite(losses["total"]):
            bad = [not math.isfinite(terms["total"].item()) for terms in micro_batches]
            guilty = [origin for origin, is_bad in zip(origins, bad, strict=True) if is_bad]
            fail(f"loss is {losses['total']}", guilty, state=state, records=records, ranks=ranks)
        # float16's may overflow: the scaler leaves the step out and tries a smaller scale.
        scale = scaler.get_scale()
        if not math.isfinite(gradient_norm) and (not scaler.is_enabled() or scale < LEAST_SCALE):
            fail(f"the gradients' norm is {gradient_norm}", origins, state=state, records=records, ranks=ranks)

        state.is_whole = False
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
        state.is_whole = True

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
    return segmentation_loss(outputs, label, settings.loss, with_surface=with_surface, label_distance=distance)


def step_means(
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
    unwind_at_ctrl_c()
    request = StopRequest()
    signal.signal(signal.SIGTERM, request.on_signal)
    sys.exit(main(stop=request))
