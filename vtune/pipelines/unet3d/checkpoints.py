"""Checkpoints that are either whole or absent, in a folder known to be writable before the first step."""

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import nn


class CheckpointError(Exception):
    """The folder or a file in it cannot be written; one sentence that says which and why."""


def prepare_folder(folder: Path, *, bytes_needed: int) -> None:
    """Creates the folder and proves that a checkpoint will fit: not after an epoch of work, but now."""
    probe = folder / f".writable.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise CheckpointError(f"cannot write checkpoints to {folder}: {error.strerror}") from error
    if free < bytes_needed:
        raise CheckpointError(
            f"cannot write checkpoints to {folder}: {free / 1e6:.0f} MB are free, {bytes_needed / 1e6:.0f} MB needed"
        )


def expected_bytes(model: nn.Module) -> int:
    """Weights and AdamW's two moments, twice: the last checkpoint stays until the next one is complete."""
    weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    return 2 * 3 * weights


def save_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Writes beside the target, then renames: a run killed at any moment leaves the old checkpoint or the new one."""
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except (OSError, RuntimeError) as error:
        # torch's zip writer reports a full disk as a RuntimeError of several lines.
        reason = error.strerror if isinstance(error, OSError) else str(error).splitlines()[0]
        raise CheckpointError(f"cannot write checkpoint {path}: {reason}") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()
