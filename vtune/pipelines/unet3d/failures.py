"""What ends a training is one line that says which file, which setting or which machine is to blame, and why."""

import re
import sys

from torch import distributed

from vtune.pipelines.unet3d.alone import InUse
from vtune.pipelines.unet3d.checkpoints import CheckpointError
from vtune.pipelines.unet3d.data.volumes import DataError
from vtune.pipelines.unet3d.journal import JournalError
from vtune.pipelines.unet3d.ranks import RankError


class TrainingError(Exception):
    """The training cannot go on; one sentence that says why."""


def tell(problems: str) -> None:
    """One line for each. Names of files may hold what a terminal would obey."""
    for line in problems.split("\n"):
        safe = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in line)
        sys.stderr.write(f"error: {safe}\n")


def words_for(error: Exception) -> str | None:
    """None for what is a fault of the training itself: its traceback tells more."""
    if isinstance(error, DataError):
        return error.reason
    if isinstance(error, CheckpointError | InUse | JournalError | RankError | TrainingError):
        return str(error)
    return lost_worker(error) or lost_peer(error) if isinstance(error, RuntimeError) else None


def lost_worker(error: RuntimeError) -> str | None:
    """PyTorch notices it in two ways."""
    text = " ".join(str(error).split())
    how = re.search(r"DataLoader worker \(pid\(?s?\)? [\d, ]+\) (is killed by signal: \w+|exited unexpectedly)", text)
    if how is None:
        return None
    advice = "perhaps for want of memory, of which fewer training.workers take less"
    return f"a loader worker was killed ({how[0]}): {advice}"


def lost_peer(error: RuntimeError) -> str | None:
    """The words for an error that only says that another rank is gone."""
    text = (str(error).splitlines() or [""])[0]
    gone = re.search(r"Connection \w+ by peer", text)
    if gone is not None:
        return f"another rank has ended ({gone[0]})"
    return f"another rank has ended ({text[:200]})" if isinstance(error, distributed.DistBackendError) else None
