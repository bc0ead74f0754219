"""What earlier launches have saved: to go on from, or to be overwritten by one that begins again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vtune.analysis.guard.progress import Progress, progress_of
from vtune.domain.experiment import Workload
from vtune.execution.launch_prepare import last_launches
from vtune.execution.launch_running import left_unguarded
from vtune.journal.counts import read_counts
from vtune.journal.launch_files import read_object
from vtune.journal.paths import LaunchPaths, StudyPaths, TrialPaths
from vtune.journal.step_log import StepLog
from vtune.journal.trial_files import read_outcome
from vtune.reporting.commands import near

# All else may be a checkpoint, whoever wrote it; so may these, where the training was seen to save one by that name.
NO_CHECKPOINTS = frozenset(
    (
        ".log", ".txt", ".out", ".err", ".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".yaml", ".yml", ".toml", ".ini",
        ".cfg", ".md", ".html", ".xml", ".svg", ".png", ".jpg", ".jpeg", ".gif", ".pdf", ".tif", ".tiff", ".mp4", ".py",
        ".ipynb", ".sh", ".lock", ".tmp", ".wandb", ".db", ".sqlite", ".parquet", ".prof", ".trace", ".diff", ".patch",
    )
)  # fmt: skip
EVENTS = "events.out.tfevents"
# An output folder may hold a data set's worth of pictures.
MOST_FILES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    launch: int
    status: str
    # At least.
    steps: int
    # With those of launches that it went on from; None where nobody knows.
    most: int | None
    # Where its checkpoints are, as far as that is known.
    places: tuple[Path, ...]
    # Its counters saw it save; else it is a file that may be one.
    is_sure: bool
    # The folder of the launch, where it is another study's.
    elsewhere: Path | None = None

    @property
    def words(self) -> str:
        """What it left, and where."""
        where = f" in {', '.join(near(place) for place in self.places)}" if self.places else ""
        what = "a checkpoint" if self.is_sure else "what may be a checkpoint"
        return f"{what}{where}"

    @property
    def name(self) -> str:
        return f"launch {self.launch}" if self.elsewhere is None else f"the launch {near(self.elsewhere)}"


def left_behind(study: StudyPaths, output: Sequence[str], workload: Workload | None = None) -> Left | None:
    """By the newest launch that has saved something which is still there, and writes where `output` says, as far as
    that is known. Of a workload also by another study's, whichever results folder it is kept in."""
    found = [(study, number) for number in study.launch_numbers()]
    others = last_launches(workload) if workload is not None else []
    found += [(StudyPaths(one.root.parent.parent), int(one.root.name)) for one in others if one.root.name.isdecimal()]
    own = study.root.absolute()
    for of, number in sorted(found, key=lambda one: (_begun(one[0].launch(one[1])), one[1]), reverse=True):
        launch = of.launch(number)
        left = _left_by(of, number, output)
        if left is not None:
            known = of.root.absolute() == own
            return left if known else replace(left, elsewhere=launch.root)
    return None


def _left_by(study: StudyPaths, number: int, output: Sequence[str]) -> Left | None:
    launch = study.launch(number)
    spec = read_object(launch.launch)
    then = spec.get("output") or ()
    if then and output and not _overlap(then, output):
        return None
    places = _checkpoints(launch, [Path(one) for one in then])
    if places is None:
        return None
    unguarded = next((left for left in left_unguarded(study) if left.number == number), None)
    state = read_object(launch.state)
    done = [_progress(launch.attempt(one)).steps for one in launch.attempt_numbers()]
    before = (spec.get("length") or {}).get("most_before", 0)
    return Left(
        launch=number,
        status=unguarded.status if unguarded is not None else str(state.get("status") or "failed"),
        steps=max(*done[-1:], 0, state.get("steps") or 0),
        most=None if before is None else before + sum(done),
        places=places,
        is_sure=_has_counted_saves(launch),
    )


def _begun(launch: LaunchPaths) -> float:
    try:
        return launch.launch.stat().st_mtime
    except OSError:
        return 0.0


def has_saved(launch: LaunchPaths, output: Sequence[str]) -> bool:
    return _checkpoints(launch, [Path(one) for one in output]) is not None


def _checkpoints(launch: LaunchPaths, output: Sequence[Path]) -> tuple[Path, ...] | None:
    """The folders that they are in; None where there are none, or none is left; empty where nobody knows."""
    attempts = [launch.attempt(number) for number in launch.attempt_numbers()]
    if not os.path.exists(launch.launch) or not any(map(_has_run, attempts)):
        return None
    if not _has_counted_saves(launch):
        return _with_checkpoints(output, launch) or None
    saved = [path for attempt in attempts for path in _saved_as(attempt)]
    # The folders, since many write a file beside the last one and rename it.
    known = tuple(dict.fromkeys(path.parent for path in saved)) or output
    still = _with_checkpoints(known, launch, none=NO_CHECKPOINTS - {path.suffix.lower() for path in saved})
    return still if still or not known else None


def _with_checkpoints(
    places: Iterable[Path], launch: LaunchPaths, *, none: frozenset[str] = NO_CHECKPOINTS
) -> tuple[Path, ...]:
    def may_be_one(path: Path) -> bool:
        return path.suffix.lower() not in none and EVENTS not in path.name

    since_s = _begun(launch)
    return tuple(place for place in places if any(map(may_be_one, _newer(place, since_s))))


def _has_run(attempt: TrialPaths) -> bool:
    """One that was refused at its very start has written nothing: what lies there is somebody else's."""
    outcome = read_outcome(attempt)
    return outcome is None or outcome.start_error is None


def _has_counted_saves(launch: LaunchPaths) -> bool:
    return any(_progress(launch.attempt(number)).saves for number in launch.attempt_numbers())


def _progress(attempt: TrialPaths) -> Progress:
    return progress_of(read_counts(attempt), 0.0)


def _saved_as(attempt: TrialPaths) -> Iterable[Path]:
    log = StepLog(attempt)
    log.refresh()
    for fact in log.facts_named("saved"):
        if isinstance(path := fact.data.get("path"), str):
            yield Path(path)


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
