"""What a training tells for plots: JSON lines with every digit, and TensorBoard where it is installed."""

import json
import shutil
from pathlib import Path
from typing import Any, Literal, TypeAlias

from vtune.pipelines.unet3d.journal import JournalError, log

# What is in the folder when a training begins: nothing or another run's; its own, up to where it goes on and perhaps a
# bit further; or its own, and what came after the earlier checkpoint to which it goes back.
Earlier: TypeAlias = Literal["another's", "ours", "ours, and later"]


class Metrics:
    """One JSON line for each step and each validation. No times in them: the same training writes the same bytes,
    whether it ran through or was killed and resumed.

    `resumed_after` is the number of steps in the checkpoint that goes on, 0 in a training that begins.
    """

    def __init__(
        self, logs: Path, *, earlier: Earlier, resumed_after: int, is_validated: bool, tensorboard: bool
    ) -> None:
        self.path = logs / "metrics.jsonl"
        try:
            if earlier != "ours":
                _set_aside(self.path, copies=earlier == "ours, and later")
            if earlier != "another's":
                _cut_back(self.path, resumed_after, is_validated=is_validated)
            # Unbuffered: what a step has told is with the system when the process is killed in the next one.
            self._file = self.path.open("ab", buffering=0)
        except OSError as error:
            raise JournalError(f"cannot write {self.path}: {error.strerror}") from error
        told = 0 if earlier == "another's" else resumed_after
        self._tensorboard = _tensorboard(logs / "tensorboard", told) if tensorboard else None

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


def _set_aside(path: Path, *, copies: bool) -> None:
    """An earlier run's curves are its user's: kept under the first free number."""
    if path.exists() and path.stat().st_size > 0:
        number = 1
        while (kept := path.with_name(f"{path.stem}.{number}{path.suffix}")).exists():
            number += 1
        if copies:
            shutil.copyfile(path, kept)
        else:
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


def _tensorboard(folder: Path, resumed_after: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        log.info("TensorBoard is not installed: the curves are in metrics.jsonl only")
        return None
    # What an earlier run told here, or a killed one after its checkpoint, is hidden.
    purge = resumed_after + 1
    return SummaryWriter(str(folder), purge_step=purge)
