"""Where a training goes on, and what has changed since."""

import dataclasses
from pathlib import Path
from typing import Any, TypeAlias

from vtune.pipelines.unet3d.checkpoints import CheckpointError, check_architecture, load_checkpoint, set_aside
from vtune.pipelines.unet3d.curves import Earlier
from vtune.pipelines.unet3d.journal import log
from vtune.pipelines.unet3d.ranks import Ranks
from vtune.pipelines.unet3d.settings import Settings
from vtune.pipelines.unet3d.state import TrainingState

# False: begin. True: go on from the output folder's last checkpoint, if there is one. Or from the one that is named.
Resume: TypeAlias = bool | Path


def checkpoint_to_resume(resume: Resume, last: Path) -> Path | None:
    if isinstance(resume, Path):
        return resume
    return last if resume and last.exists() else None


def what_is_here(source: Path | None, last: Path) -> Earlier:
    """What becomes of the output folder's own checkpoints and metrics."""
    if source is None or source.resolve().parent != last.resolve().parent:
        return "another's"
    return "ours" if source.resolve() == last.resolve() else "ours, and later"


def keep_earlier(folder: Path, earlier: Earlier) -> None:
    kept = set_aside(folder, copies=earlier == "ours, and later") if earlier != "ours" else None
    if kept is not None:
        log.info("An earlier run's checkpoints are kept in %s: --resume %s goes on with it", kept, kept / "last.pt")


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
    ranks_then = len(content["random"])
    if ranks_then != ranks.count:
        log.info("Changed since: ranks were %d, are %d: an epoch has other samples", ranks_then, ranks.count)
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
