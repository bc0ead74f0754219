"""What a training tells people: lines on stdout and in a file."""

import logging
import os
import sys
import time
from pathlib import Path
from typing import TextIO, TypedDict

from vtune.pipelines.unet3d.settings import LossSettings

log = logging.getLogger("unet3d")


class JournalError(Exception):
    """A log cannot be written; one sentence that says which and why."""


def start_logging(path: Path, *, is_first: bool) -> None:
    """To stdout as it is, and with the time of day to a file, appended. Of several ranks only the first tells."""
    for earlier in log.handlers:
        earlier.close()
    log.setLevel(logging.INFO)
    log.propagate = False
    if not is_first:
        log.handlers = [logging.NullHandler()]
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        to_file = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise JournalError(f"cannot write the log {path}: {error.strerror}") from error
    to_file.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log.handlers = [_ToStdout(sys.stdout), to_file]


class _ToStdout(logging.StreamHandler[TextIO]):
    """Until nobody reads it, as behind `| head`, or its disk is full: no reason to end a training, nor for a traceback
    in the place of each line."""

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)
            return
        to_nowhere(self.stream)
        log.info("Nobody reads these lines on stdout any more: they go on here")


def to_nowhere(stream: TextIO) -> None:
    """What is left in its buffer would be an error once more, at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class ProgressState(TypedDict):
    seconds: float
    steps: list[dict[str, float]]


class Progress:
    """Means since the last log line."""

    def __init__(self, loss: LossSettings, *, steps_per_epoch: int) -> None:
        self._steps_per_epoch = steps_per_epoch
        weights = {"cldice": loss.cldice_weight, "skeleton": loss.skeleton_weight, "topology": loss.topology_weight}
        self._names = ["bce", "dice", "surface", *(name for name, weight in weights.items() if weight > 0)]
        self.restart()

    def restart(self) -> None:
        self._since = time.perf_counter()
        self._steps: list[dict[str, float]] = []

    def add(self, losses: dict[str, float]) -> None:
        self._steps.append(losses)

    def line(self, step: int, epoch: int) -> str:
        seconds = (time.perf_counter() - self._since) / len(self._steps)
        terms = " ".join(f"{name} {self._mean(name)}" for name in self._names)
        text = (
            f"Train step {step}/{self._steps_per_epoch} epoch {epoch} loss {self._mean('total')} ({terms}) "
            f"{seconds:.3f} s/step"
        )
        self.restart()
        return text

    def _mean(self, name: str) -> str:
        values = [losses[name] for losses in self._steps if name in losses]
        return f"{sum(values) / len(values):.3f}" if values else "-"

    def state(self) -> ProgressState:
        return {"seconds": time.perf_counter() - self._since, "steps": list(self._steps)}

    def restore(self, state: ProgressState) -> None:
        self._since = time.perf_counter() - state["seconds"]
        self._steps = list(state["steps"])
