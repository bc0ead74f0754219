"""The data that a training's config or command names: whether they are still those that a trial was given."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vtune.config.output import FOLDER_NAMES, OUTPUT_NAMES, output_folders
from vtune.domain.experiment import Workload
from vtune.domain.record import TrialRecord
from vtune.execution.written import files_below

# In a record's evidence: path as it is named → what its files were before the trial, and after it.
DATA, BEFORE, AFTER = "data", "before", "after"
NAMES_DATA = re.compile(r"(?i)data|path|root|file|folder|dir|image|label|volume")
# Of each path: names, sizes and times of so many files cost a tenth of a second, on a slow server a few.
MOST_FILES, MOST_PATHS = 5_000, 20
DIGITS = 16

Prints = Mapping[str, str]


def data_prints(workload: Workload, results: Path) -> Prints:
    """Of what is there now. Contents are not read: who changes them changes a size or a time."""
    outputs = _outputs(workload)
    found: dict[str, str] = {}
    for text, path in named_data(workload):
        if len(found) == MOST_PATHS:
            break
        try:
            stat = path.stat()
            files = files_below(path, results, *outputs, most=MOST_FILES) if os.path.isdir(path) else {}
        except OSError:
            continue
        seen = sorted(files.items()) if os.path.isdir(path) else [("", (stat.st_mtime_ns, stat.st_size))]
        found[text] = hashlib.sha256(repr(seen).encode(errors="surrogateescape")).hexdigest()[:DIGITS]
    return found


def data_evidence(before: Prints, after: Prints) -> dict[str, Any]:
    return {DATA: {BEFORE: dict(before), AFTER: dict(after)}}


def changed_data(record: TrialRecord, later: Sequence[TrialRecord], now: Prints) -> list[str]:
    """Changed by others than the study's own runs. `later`: what ran since, in its order."""
    known = dict(_of(record, AFTER))
    for one in later:
        before, after = _of(one, BEFORE), _of(one, AFTER)
        # An index or a cache that the training writes beside its data.
        known.update({text: after[text] for text in known if text in after and before.get(text) == known[text]})
    return [text for text, then in known.items() if now.get(text) != then]


def _of(record: TrialRecord, when: str) -> Prints:
    data = record.evidence.get(DATA)
    found = data.get(when) if isinstance(data, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def named_data(workload: Workload) -> Iterator[tuple[str, Path]]:
    """As it is named, and where that is: files and folders that are there, and no output of the training's own."""
    outputs = _outputs(workload)
    config = workload.config_path.resolve() if workload.config_path is not None else None
    words = [word.partition("=")[2] or word for word in workload.command[1:]]
    for text in dict.fromkeys((*_paths_in(workload.config or {}), *words)):
        try:
            path = (workload.cwd / text).resolve()
            own = path in (workload.cwd.resolve(), config) or any(path.is_relative_to(output) for output in outputs)
            if text and path.suffix != ".py" and not own and os.path.exists(path):
                yield text, path
        except (OSError, ValueError):
            continue


def _outputs(workload: Workload) -> list[Path]:
    return [folder.resolve() for folder in output_folders(workload)]


def _paths_in(config: Mapping[Any, Any]) -> Iterator[str]:
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _paths_in(value)
        elif isinstance(value, str) and len(value) < 1000 and _names_data(str(key), value):
            yield value


def _names_data(key: str, value: str) -> bool:
    """A word that only happens to be the name of a file says nothing of data."""
    return key not in OUTPUT_NAMES | FOLDER_NAMES and ("/" in value or NAMES_DATA.search(key) is not None)
