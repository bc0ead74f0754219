"""What was measured before, as the answer to new proposals: strategies are judged on real recordings."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from vtune.domain.effects import Scalar
from vtune.domain.progress import TuningEvent
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialOutcome, TrialSpec
from vtune.errors import UsageError
from vtune.execution.trial import Watch
from vtune.journal.files import dump_json
from vtune.journal.journal import Journal
from vtune.journal.paths import StudyPaths, TrialPaths
from vtune.journal.records import spec_to_json
from vtune.journal.trial_files import read_outcome

# The new trial's own: prepared for it before it is run.
NOT_REPLAYED = ("spec.json", "config")


@dataclass(frozen=True, slots=True)
class _Launch:
    record: TrialRecord
    folder: TrialPaths


class RecordedEngine:
    """Each launch is used once, in the order of the recording: twice the same numbers would look like certainty."""

    def __init__(self, studies: Iterable[StudyPaths]) -> None:
        self._launches = [launch for study in studies for launch in _launches(study)]
        self._used: set[Path] = set()
        # What the training has when nothing is turned.
        base = next((one.record.settings for one in self._launches if one.record.asked == {}), {})
        self._base: Mapping[str, Scalar] = base

    def run(
        self, spec: TrialSpec, folder: TrialPaths, watch: Watch, notify: Callable[[TuningEvent], None]
    ) -> TrialOutcome:
        launch = self._next_of(spec.settings, again=watch.scout)
        if not watch.scout:  # its numbers are nobody's
            self._used.add(launch.folder.root)
        folder.output.mkdir(exist_ok=True)
        dump_json(folder.spec, spec_to_json(spec))
        outcome = read_outcome(launch.folder)
        assert outcome is not None
        files = [one for one in launch.folder.root.iterdir() if one.is_file() and not one.name.startswith(NOT_REPLAYED)]
        # What says that the trial is over comes last.
        for one in sorted(files, key=lambda one: one == launch.folder.outcome):
            _link_or_copy(one, folder.root / one.name)
        return outcome

    def _next_of(self, settings: Mapping[str, Scalar], *, again: bool) -> _Launch:
        wanted = {**self._base, **settings}
        same = [one for one in self._launches if _ran_with(one.record, settings, wanted)]
        left = same if again else [one for one in same if one.folder.root not in self._used]
        if left:
            return left[0]
        named = ", ".join(f"{name}={value}" for name, value in settings.items()) or "the training's own settings"
        if same:
            raise UsageError(
                f"{named}: recorded {len(same)} times, and all of them were replayed already",
                hint="record more launches of it, or ask for fewer rounds",
            )
        raise UsageError(
            f"{named}: not among the {len(self._launches)} recorded trials",
            hint=f"recorded were {'; '.join(_known(self._launches)) or 'none with its files'}",
        )


def _launches(study: StudyPaths) -> list[_Launch]:
    """Those whose files are still there."""
    found = []
    for record in Journal(study.journal).read():
        folder = study.trial(record.trial)
        if read_outcome(folder) is not None:
            found.append(_Launch(record, folder))
    return found


def _ran_with(record: TrialRecord, settings: Mapping[str, Scalar], wanted: Mapping[str, Scalar]) -> bool:
    """By all that it ran with; and what it turned must have been asked for, or stand there anyway."""
    if any(record.settings.get(name) != value for name, value in settings.items()):
        return False
    turned = record.asked if record.asked is not None else record.settings
    return all(wanted.get(name) == value for name, value in turned.items())


def _known(launches: Iterable[_Launch]) -> list[str]:
    words = (
        " ".join(f"{name}={value}" for name, value in (one.record.asked or {}).items()) or "own settings"
        for one in launches
    )
    return [*dict.fromkeys(words)]


def _link_or_copy(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)
