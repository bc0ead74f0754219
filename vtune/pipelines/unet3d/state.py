"""All that changes while a training runs, and hence all that a checkpoint has to hold for it to go on exactly."""

import dataclasses
import random
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from vtune.pipelines.unet3d.averaging import Averaged
from vtune.pipelines.unet3d.checkpoints import (
    CheckpointError,
    check_architecture,
    keep_copy,
    keep_epoch,
    load_checkpoint,
    save_checkpoint,
)
from vtune.pipelines.unet3d.journal import Progress, log
from vtune.pipelines.unet3d.model import UNet3D
from vtune.pipelines.unet3d.ranks import Ranks
from vtune.pipelines.unet3d.settings import Settings

# False: begin. True: go on from the output folder's last checkpoint, if there is one. Or from the one that is named.
Resume: TypeAlias = bool | Path


@dataclasses.dataclass(slots=True, kw_only=True)
class TrainingState:
    """The objects that learn, and how far they are."""

    model: UNet3D
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    averaged: Averaged | None
    progress: Progress
    epoch: int = 1  # under way
    step: int = 0  # optimizer steps done in it
    steps_done: int = 0  # optimizer steps done in all
    is_validated: bool = False  # this epoch, after its last step
    is_epoch_done: bool = False
    best_dice: float | None = None
    best_epoch: int | None = None

    @property
    def judged_model(self) -> UNet3D:
        """The one to validate and to predict with."""
        return self.model if self.averaged is None else self.averaged.model

    def begin_epoch(self, epoch: int) -> None:
        """Or go on in it."""
        if epoch != self.epoch:
            self.epoch, self.step, self.is_validated, self.is_epoch_done = epoch, 0, False, False

    def judge(self, dice: float) -> None:
        self.is_validated = True
        if self.best_dice is None or dice > self.best_dice:
            self.best_dice, self.best_epoch = dice, self.epoch

    def content(self, settings: Settings, random_states: list[dict[str, Any]]) -> dict[str, Any]:
        """Tensors and plain values only. The place in the stream of samples follows from epoch and step."""
        return {
            "epoch": self.epoch,
            "step": self.step,
            "steps_done": self.steps_done,
            "is_validated": self.is_validated,
            "is_epoch_done": self.is_epoch_done,
            "best_dice": self.best_dice,
            "best_epoch": self.best_epoch,
            "model": self.model.state_dict(),
            "averaged": None if self.averaged is None else self.averaged.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "progress": self.progress.state(),
            "random": random_states,
            "settings": dataclasses.asdict(settings),
        }

    def restore(self, content: dict[str, Any], ranks: Ranks) -> None:
        self.epoch, self.step, self.steps_done = content["epoch"], content["step"], content["steps_done"]
        self.is_validated, self.is_epoch_done = content["is_validated"], content["is_epoch_done"]
        self.best_dice, self.best_epoch = content["best_dice"], content["best_epoch"]
        self.model.load_state_dict(content["model"])
        if self.averaged is not None:
            # Switched on since: the average begins with these weights.
            self.averaged.model.load_state_dict(content["averaged"] or content["model"])
        # The saved groups hold the settings of then; the config's count.
        weight_decays = [group["weight_decay"] for group in self.optimizer.param_groups]
        self.optimizer.load_state_dict(content["optimizer"])
        for group, weight_decay in zip(self.optimizer.param_groups, weight_decays, strict=True):
            group["weight_decay"] = weight_decay
        if self.scaler.is_enabled() and content["scaler"]:
            self.scaler.load_state_dict(content["scaler"])
        self.progress.restore(content["progress"])
        # There may be more ranks now.
        if ranks.rank < len(content["random"]):
            _set_random_state(content["random"][ranks.rank], ranks.device)


def save(path: Path, state: TrainingState, *, settings: Settings, ranks: Ranks) -> None:
    content = state.content(settings, ranks.gather(_random_state(ranks.device)))
    ranks.by_first(lambda: save_checkpoint(path, content))


def keep_copies(path: Path, state: TrainingState, *, newest: int) -> None:
    """Of the last checkpoint, at the end of an epoch: the best one, and as many of the newest as are asked for."""
    if state.best_epoch == state.epoch:
        keep_copy(path, path.with_name("best.pt"))
    if newest:
        keep_epoch(path, epoch=state.epoch, newest=newest)


def checkpoint_to_resume(resume: Resume, last: Path) -> Path | None:
    if isinstance(resume, Path):
        return resume
    if resume and not last.exists():
        log.info("Nothing to resume: there is no %s yet", last)
    elif last.exists() and not resume:
        log.info("The first epoch's checkpoint will replace an earlier run's %s", last)
    return last if resume and last.exists() else None


def go_on_from(path: Path, state: TrainingState, *, settings: Settings, ranks: Ranks) -> None:
    content = load_checkpoint(path)
    check_architecture(content, path, model=state.model, settings=settings.model)
    steps = settings.training.train_iterations_per_epoch
    if not content["is_epoch_done"] and content["step"] > steps:
        raise CheckpointError(
            f"cannot use checkpoint {path}: it is {content['step']} steps into epoch {content['epoch']}, "
            f"training.train_iterations_per_epoch is {steps}"
        )
    state.restore(content, ranks)
    log.info("Going on from %s: epoch %d, %d steps done in it", path, state.epoch, state.step)
    for change in _changes(content["settings"], dataclasses.asdict(settings)):
        log.info("Changed since: %s", change)


def _changes(before: dict[str, Any], now: dict[str, Any], prefix: str = "") -> list[str]:
    changes: list[str] = []
    for key in now:
        then, value = before.get(key), now[key]
        if isinstance(value, dict) and isinstance(then, dict):
            changes += _changes(then, value, f"{prefix}{key}.")
        elif then != value:
            changes.append(f"{prefix}{key} was {then}, is {value}")
    return changes


def seed_everything(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def _random_state(device: torch.device) -> dict[str, Any]:
    """Of this process. The samples do not depend on it: they are drawn from their own numbers."""
    algorithm, key, position, has_gauss, gauss = np.random.get_state(legacy=True)
    return {
        "torch": torch.get_rng_state(),
        "device": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
        "python": random.getstate(),
        # A list, since an array would need code of numpy's to be read again.
        "numpy": [str(algorithm), [int(word) for word in key], int(position), int(has_gauss), float(gauss)],
    }


def _set_random_state(state: dict[str, Any], device: torch.device) -> None:
    torch.set_rng_state(state["torch"])
    if device.type == "cuda" and state["device"] is not None:
        torch.cuda.set_rng_state(state["device"], device)
    random.setstate(state["python"])
    algorithm, key, *rest = state["numpy"]
    np.random.set_state((algorithm, np.array(key, dtype=np.uint32), *rest))
