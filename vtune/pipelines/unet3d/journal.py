"""What a training tells: lines for people, JSON lines with every digit for plots, TensorBoard where it is installed."""

import json
import logging
import sys
import time
from pathlib import Path
from typing import Any, TypedDict

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
    log.handlers = [logging.StreamHandler(sys.stdout), to_file]


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


class Metrics:
    """One JSON line for each step and each validation. No times in them: the same training writes the same bytes,
    whether it ran through or was killed and resumed.

    `resumed_after` is the number of steps in the checkpoint that goes on, and None for a training that begins.
    """

    def __init__(self, logs: Path, *, resumed_after: int | None, is_validated: bool, tensorboard: bool) -> None:
        self.path = logs / "metrics.jsonl"
        try:
            if resumed_after is None:
                _set_aside(self.path)
            else:
                _cut_back(self.path, resumed_after, is_validated=is_validated)
            # Unbuffered: what a step has told is with the system when the process is killed in the next one.
            self._file = self.path.open("ab", buffering=0)
        except OSError as error:
            raise JournalError(f"cannot write {self.path}: {error.strerror}") from error
        self._tensorboard = _tensorboard(logs / "tensorboard", resumed_after) if tensorboard else None

    def step(self, steps_done: int, *, epoch: int, learning_rate: float, values: dict[str, float]) -> None:
        self._write({"step": steps_done, "epoch": epoch, "learning_rate": learning_rate, **values})
        if self._tensorboard is not None:
            self._tensorboard.add_scalar("train/learning_rate", learning_rate, steps_done)
            for name, value in values.items():
                self._tensorboard.add_scalar(f"train/{name}", value, steps_done)

    def validation(
        self, steps_done: int, *, epoch: int, means: dict[str, float], records: dict[str, dict[str, float]]
    ) -> None:
        self._write({"step": steps_done, "epoch": epoch, "validation": means, "records": records})
        if self._tensorboard is not None:
            for name, value in means.items():
                self._tensorboard.add_scalar(f"validation/{name}", value, steps_done)
            self._tensorboard.flush()

    def close(self) -> None:
        self._file.close()
        if self._tensorboard is not None:
            self._tensorboard.close()

    def _write(self, told: dict[str, Any]) -> None:
        try:
            self._file.write(json.dumps(told).encode() + b"\n")
        except OSError as error:
            raise JournalError(f"cannot write {self.path}: {error.strerror}") from error


def _set_aside(path: Path) -> None:
    """An earlier run's curves are its user's: kept under the first free number."""
    if path.exists() and path.stat().st_size > 0:
        number = 1
        while (kept := path.with_name(f"{path.stem}.{number}{path.suffix}")).exists():
            number += 1
        path.rename(kept)
        log.info("An earlier run's metrics are kept as %s", kept)


def _cut_back(path: Path, steps: int, *, is_validated: bool) -> None:
    """Drops what the killed run told after its checkpoint, and will be told again, and a line that the kill tore."""
    if not path.exists():
        return
    whole = 0
    with path.open("rb+") as file:
        for line in file:
            try:
                told = json.loads(line)
                is_before = told["step"] < steps or (
                    told["step"] == steps and (is_validated or "validation" not in told)
                )
            except (ValueError, KeyError, TypeError):
                break
            if not is_before or not line.endswith(b"\n"):
                break
            whole += len(line)
        file.truncate(whole)


def _tensorboard(folder: Path, resumed_after: int | None) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        log.info("TensorBoard is not installed: the curves are in metrics.jsonl only")
        return None
    # What an earlier run told here, or a killed one after its checkpoint, is hidden.
    purge = (resumed_after or 0) + 1
    return SummaryWriter(str(folder), purge_step=purge)
