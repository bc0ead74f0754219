"""What was measured before, as the answer to new proposals: strategies are judged on real recordings.

A study is replayed: its journal together with its trial folders. The journal says which trial ran with which settings;
the answer itself is read from that trial's files by today's analysis, as that of any engine is. A journal whose folders
are gone has its records still, for whoever judges a choice among them, but no trial that could come back.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vtune.domain.effects import Scalar
from vtune.domain.progress import TuningEvent
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialOutcome, TrialSpec
from vtune.errors import UsageError
from vtune.execution.ceiling import ORIGIN
from vtune.execution.observer import Watch
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
    has_files: bool


class RecordedEngine:
    """Each launch is used once, in the order of the recording: twice the same numbers would look like certainty."""

    def __init__(self, studies: Iterable[StudyPaths]) -> None:
        found = [launch for study in studies for launch in _launches(study)]
        self._launches = [launch for launch in found if launch.has_files]
        self._without_files = len(found) - len(self._launches)
        self._used: set[Path] = set()
        # What the training has when nothing is turned.
        base = next((one.record.settings for one in found if one.record.asked == {}), {})
        self._base: Mapping[str, Scalar] = base

    def run(
        self, spec: TrialSpec, folder: TrialPaths, watch: Watch, notify: Callable[[TuningEvent], None]
    ) -> TrialOutcome:
        launch = self._next_of(spec.settings, watch)
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

    def _next_of(self, settings: Mapping[str, Scalar], watch: Watch) -> _Launch:
        wanted = {**self._base, **settings}
        # A search for the ceiling ran with settings, too, but fed from memory: it stands for no ordinary trial.
        of_kind = [one for one in self._launches if (one.record.origin == ORIGIN) == watch.ceiling]
        same = [one for one in of_kind if _ran_with(one.record, settings, wanted)]
        left = same if watch.scout else [one for one in same if one.folder.root not in self._used]
        if left:
            return left[0]
        named = ", ".join(f"{name}={value}" for name, value in settings.items()) or "the training's own settings"
        if watch.ceiling:
            named = f"the ceiling with {named}"
        if same:
            raise UsageError(
                f"{named}: recorded {len(same)} times, and all of them were replayed already",
                hint="record more launches of it, or ask for fewer rounds",
            )
        gone = f", and {self._without_files} more in the journal have lost their folders" if self._without_files else ""
        raise UsageError(
            f"{named}: not among the {len(of_kind)} recorded trials{gone}", hint=self._what_there_is(of_kind)
        )

    def _what_there_is(self, launches: Sequence[_Launch]) -> str:
        if launches:
            return f"recorded were {'; '.join(_known(launches))}"
        if self._without_files:
            return "a journal alone cannot be replayed: put the study's trials/ back, or run the study again"
        return "a study is replayed from its journal and its trials/: is it the right folder?"


def _launches(study: StudyPaths) -> list[_Launch]:
    found = []
    for record in Journal(study.journal).read():
        folder = study.trial(record.trial)
        found.append(_Launch(record, folder, has_files=read_outcome(folder) is not None))
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
