"""Checkpoints that are either whole or absent, in a folder known to be writable before the first step."""

import contextlib
import os
import pickle
import re
import shutil
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import nn

from vtune.pipelines.unet3d.partial import clear_partials, whole_or_absent
from vtune.pipelines.unet3d.settings import SECTIONS, ModelSettings, Settings

# Of the model's settings, those on which the weights' names and shapes depend.
ARCHITECTURE = ("filters", "max_filters", "depth", "deep_supervision")

EPOCH_FILE = re.compile(r"epoch_(\d+)\.pt")
OURS = re.compile(rf"last\.pt|best\.pt|{EPOCH_FILE.pattern}")


class CheckpointError(Exception):
    """The folder or a file in it cannot be written, read or used; one sentence that says which and why."""


def prepare_folder(folder: Path, *, bytes_needed: int, replaces: bool) -> None:
    """Creates the folder and proves that the checkpoints will fit: not after an epoch of work, but now.

    `replaces`: those that are there, of the training that goes on; an earlier run's will be kept.
    """
    probe = folder / f".writable.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
        # Left by a run that was killed while it wrote.
        clear_partials(folder)
        free = shutil.disk_usage(folder).free
        if replaces:
            free += sum({status.st_ino: status.st_size for status in map(Path.stat, _ours(folder))}.values())
    except OSError as error:
        raise CheckpointError(f"cannot write checkpoints to {folder}: {error.strerror}") from error
    if free < bytes_needed:
        raise CheckpointError(
            f"cannot write checkpoints to {folder}: {free / 1e6:.0f} MB are free, {bytes_needed / 1e6:.0f} MB needed"
        )


def set_aside(folder: Path, *, copies: bool) -> Path | None:
    """An earlier run's checkpoints are its user's, who perhaps only forgot --resume: moved to the first free number. As
    copies, where the training goes back to one of them."""
    earlier = _ours(folder)
    if not earlier:
        return None
    number = 1
    while (kept := folder / f"earlier-{number}").exists():
        number += 1
    try:
        kept.mkdir()
        for path in earlier:
            if copies:
                keep_copy(path, kept / path.name)
            else:
                path.rename(kept / path.name)
    except OSError as error:
        raise CheckpointError(f"cannot keep an earlier run's checkpoints as {kept}: {error.strerror}") from error
    return kept


def _ours(folder: Path) -> list[Path]:
    """The files that this training writes; some are second names of others."""
    return [path for path in folder.glob("*.pt") if OURS.fullmatch(path.name)]


def expected_bytes(model: nn.Module, *, kept_beside: int = 0, averaged: bool = False) -> int:
    """Weights, AdamW's two moments and perhaps an average of the weights, for each file that may exist at once: the
    last checkpoint stays until the next one is complete, and `kept_beside` others stay longer."""
    weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    return (2 + kept_beside) * (3 + averaged) * weights


def save_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """A run killed at any moment leaves the old checkpoint or the new one."""
    try:
        with whole_or_absent(path) as partial, partial.open("wb") as file:
            torch.save(content, file)
    except (OSError, RuntimeError) as error:
        # torch's zip writer reports a full disk as a RuntimeError of several lines.
        reason = error.strerror if isinstance(error, OSError) else str(error).splitlines()[0]
        raise CheckpointError(f"cannot write checkpoint {path}: {reason}") from error


def keep_copy(path: Path, copy: Path) -> None:
    """A second name for the same bytes where the file system has such, which costs nothing; else a copy. The next
    checkpoint takes the first name, and leaves this file as it is."""
    try:
        with whole_or_absent(copy) as partial:
            try:
                os.link(path, partial)
            except OSError:
                shutil.copyfile(path, partial)
    except OSError as error:
        raise CheckpointError(f"cannot write checkpoint {copy}: {error.strerror}") from error


def keep_epoch(path: Path, *, epoch: int, newest: int) -> None:
    """As `epoch_0003.pt`, and only the newest. Those of later epochs are of an earlier run, and not ours to remove."""
    keep_copy(path, path.with_name(f"epoch_{epoch:04d}.pt"))
    for other in path.parent.glob("epoch_*.pt"):
        match = EPOCH_FILE.fullmatch(other.name)
        if match and int(match[1]) <= epoch - newest:
            with contextlib.suppress(OSError):
                other.unlink()


class Content(dict[str, Any]):
    """Of a checkpoint: what it does not have cannot be used, and it says so itself to whoever asks."""

    def __init__(self, path: Path, found: Mapping[str, Any]) -> None:
        super().__init__(found)
        self._path = path

    def __missing__(self, key: str) -> NoReturn:
        raise CheckpointError(
            f'cannot use checkpoint {self._path}: it has no "{key}", another program or version wrote it'
        )


def load_checkpoint(path: Path) -> Content:
    """Tensors and plain values only: a checkpoint from elsewhere can run no code."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise CheckpointError(f"cannot read checkpoint {path}: {error.strerror}") from error
    try:
        with file:
            content = torch.load(file, map_location="cpu", weights_only=True)
    # What torch's zip reader, its unpickler and a seek beyond the end raise.
    except (RuntimeError, OSError, EOFError, pickle.UnpicklingError, ValueError, KeyError) as error:
        reason = textwrap.shorten((str(error).splitlines() or [""])[0], 120, placeholder=" …")
        raise CheckpointError(f"cannot read checkpoint {path}: damaged, or no checkpoint ({reason})") from error
    return Content(path, content if isinstance(content, dict) else {})


def settings_of(content: dict[str, Any], path: Path) -> Settings:
    """Those that the checkpoint was trained with."""
    found = content["settings"]
    try:
        sections = {name: kind(**found[name]) for name, kind in SECTIONS.items()}
        return Settings(output_dir=found["output_dir"], **sections)
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"cannot use checkpoint {path}: its settings are another version's ({error})") from error


def check_architecture(content: dict[str, Any], path: Path, *, model: nn.Module, settings: ModelSettings) -> None:
    """Before its weights are loaded, which would fail with a list of hundreds of names."""
    trained = content["settings"].get("model", {})
    for key in ARCHITECTURE:
        if trained.get(key) != getattr(settings, key):
            raise CheckpointError(
                f"cannot use checkpoint {path}: another architecture, its model.{key} is {_shown(trained.get(key))}, "
                f"the config's is {_shown(getattr(settings, key))}"
            )
    here = {name: tuple(weight.shape) for name, weight in model.state_dict().items()}
    there = {name: tuple(weight.shape) for name, weight in content["model"].items()}
    for name in [*here, *there]:
        if here.get(name) != there.get(name):
            raise CheckpointError(
                f"cannot use checkpoint {path}: another architecture, its weight {name} is "
                f"{_shape(there.get(name))}, here it is {_shape(here.get(name))}"
            )


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def _shape(shape: tuple[int, ...] | None) -> str:
    return "missing" if shape is None else "x".join(map(str, shape))
