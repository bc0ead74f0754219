"""All that changes while a training runs, and hence all that a checkpoint has to hold for it to go on exactly."""

import dataclasses
from pathlib import Path
from typing import Any

import torch

from vtune.pipelines.unet3d.averaging import Averaged
from vtune.pipelines.unet3d.checkpoints import Content, keep_copy, keep_epoch, save_checkpoint
from vtune.pipelines.unet3d.data.records import Split
from vtune.pipelines.unet3d.journal import Progress
from vtune.pipelines.unet3d.model import UNet3D
from vtune.pipelines.unet3d.randomness import random_state, set_random_state
from vtune.pipelines.unet3d.ranks import Ranks
from vtune.pipelines.unet3d.settings import Settings


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
    split: Split | None = None
    last_saved: str | None = None  # its place
    is_whole: bool = True  # and not in the midst of a step's changes

    @property
    def judged_model(self) -> UNet3D:
        """The one to validate and to predict with."""
        return self.model if self.averaged is None else self.averaged.model

    @property
    def place(self) -> str:
        """In words. An epoch begins where the one before it ended."""
        if self.is_epoch_done or self.step == 0:
            return f"epoch {self.epoch if self.is_epoch_done else self.epoch - 1}"
        return f"step {self.step} of epoch {self.epoch}"

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
            "split": None if self.split is None else self.split._asdict(),
            "model": self.model.state_dict(),
            "averaged": None if self.averaged is None else self.averaged.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "progress": self.progress.state(),
            "random": random_states,
            "settings": dataclasses.asdict(settings),
        }

    def restore(self, content: Content, ranks: Ranks) -> None:
        self.epoch, self.step, self.steps_done = content["epoch"], content["step"], content["steps_done"]
        self.is_validated, self.is_epoch_done = content["is_validated"], content["is_epoch_done"]
        self.best_dice, self.best_epoch = content["best_dice"], content["best_epoch"]
        self.split = None if content["split"] is None else Split(**content["split"])
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
            set_random_state(content["random"][ranks.rank], ranks.device)


def save(path: Path, state: TrainingState, *, settings: Settings, ranks: Ranks) -> None:
    content = state.content(settings, ranks.gather(random_state(ranks.device)))
    ranks.by_first(lambda: save_checkpoint(path, content))
    state.last_saved = state.place


def keep_copies(path: Path, state: TrainingState, *, newest: int) -> None:
    """Of the last checkpoint, at the end of an epoch: the best one, and as many of the newest as are asked for."""
    if state.best_epoch == state.epoch:
        keep_copy(path, path.with_name("best.pt"))
    if newest:
        keep_epoch(path, epoch=state.epoch, newest=newest)
