"""What earlier launches of a study have saved: to go on from, or to be overwritten by one that begins again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from vtune.analysis.guard.progress import Progress, progress_of
from vtune.config.output import resumes_by_itself
from vtune.domain.machine import Machine
from vtune.errors import UsageError
from vtune.execution.launch_running import left_unguarded
from vtune.journal.counts import read_counts
from vtune.journal.launch_files import read_json
from vtune.journal.paths import LaunchPaths, StudyPaths
from vtune.journal.step_log import StepLog
from vtune.launcher.plan import PlannedLaunch
from vtune.reporting.commands import near

# Of writers that do not go through torch.save, or do it in a thread of their own.
CHECKPOINT_SUFFIXES = frozenset((".pt", ".pth", ".ckpt", ".safetensors", ".distcp", ".tar"))
# An output folder may hold a data set's worth of pictures.
MOST_FILES = 20_000


class Overwrites(UsageError):
    """It would begin again where there is something to go on from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    launch: int
    status: str
    steps: int
    # Where its checkpoints are, as far as that is known.
    places: tuple[Path, ...]

    @property
    def where(self) -> str:
        return f" in {', '.join(near(place) for place in self.places)}" if self.places else ""


def check_overwrites(planned: PlannedLaunch, machine: Machine) -> list[str]:
    """Refused where days may be lost; what has completed is run again on purpose, and told."""
    if planned.resume or resumes_by_itself(planned.experiment.workload):
        return []
    left = left_behind(planned.study, planned.spec.output)
    if left is None:
        return []
    if left.status == "completed":
        return [f"launch {left.launch} completed and left a checkpoint{left.where}: this one begins again over it"]
    known = bool(planned.experiment.resume)
    go_on = (
        "--resume goes on from it"
        if known
        else 'to go on from it, say the words behind the command that do so, vtune.resume: "--resume" in the config, '
        "and launch with --resume"
    )
    raise Overwrites(
        f"launch {left.launch} {left.status} after {left.steps} steps and left a checkpoint{left.where}",
        hint=f"{go_on}; --force begins again and overwrites it",
    )


def left_behind(study: StudyPaths, output: Sequence[str]) -> Left | None:
    """By the newest launch that has saved something which is still there, and writes where `output` says, as far as
    that is known."""
    unguarded = {left.number: left.status for left in left_unguarded(study)}
    for number in reversed(study.launch_numbers()):
        launch = study.launch(number)
        then = read_json(launch.launch).get("output") or ()
        if then and output and not _overlap(then, output):
            continue
        places = _checkpoints(launch, [Path(one) for one in then])
        if places is None:
            continue
        state = read_json(launch.state)
        steps = max((_progress(launch, attempt).steps for attempt in launch.attempt_numbers()[-1:]), default=0)
        return Left(
            launch=number,
            status=unguarded.get(number) or str(state.get("status") or "failed"),
            steps=max(steps, state.get("steps") or 0),
            places=places,
        )
    return None


def has_saved(launch: LaunchPaths, output: Sequence[str]) -> bool:
    return _checkpoints(launch, [Path(one) for one in output]) is not None


def _checkpoints(launch: LaunchPaths, output: Sequence[Path]) -> tuple[Path, ...] | None:
    """The folders that they are in; None where there are none, or none is left; empty where nobody knows."""
    try:
        since_s = launch.launch.stat().st_mtime
    except OSError:
        return None
    attempts = launch.attempt_numbers()
    if any(_progress(launch, attempt).saves for attempt in attempts):
        known = tuple(dict.fromkeys(place for attempt in attempts for place in _saved_in(launch, attempt))) or output
        still = tuple(place for place in known if any(_newer(place, since_s)))
        return still if still or not known else None
    return tuple(
        place for place in output if any(path.suffix in CHECKPOINT_SUFFIXES for path in _newer(place, since_s))
    ) or None  # fmt: skip


def _progress(launch: LaunchPaths, attempt: int) -> Progress:
    return progress_of(read_counts(launch.attempt(attempt)), 0.0)


def _saved_in(launch: LaunchPaths, attempt: int) -> Iterable[Path]:
    """The folder, since many write a file beside the last one and rename it."""
    log = StepLog(launch.attempt(attempt))
    log.refresh()
    for fact in log.facts_named("saved"):
        if isinstance(path := fact.data.get("path"), str):
            yield Path(path).parent


def _newer(place: Path, since_s: float) -> Iterable[Path]:
    seen = 0
    for root, _, names in os.walk(place):
        for name in names:
            seen += 1
            path = Path(root, name)
            try:
                if path.stat().st_mtime >= since_s:
                    yield path
            except OSError:
                continue
        if seen > MOST_FILES:
            return


def _overlap(some: Iterable[str], others: Iterable[str]) -> bool:
    pairs = ((Path(one), Path(other)) for one in some for other in others)
    return any(one.is_relative_to(other) or other.is_relative_to(one) for one, other in pairs)
