"""What a report leaves in the study's folder."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from vtune.files import write_atomically
from vtune.journal.links import link_in
from vtune.journal.paths import StudyPaths
from vtune.reporting.csv_table import csv_table
from vtune.reporting.markdown import markdown
from vtune.reporting.report_json import choice_to_json
from vtune.reporting.study_report import StudyReport


@dataclass(frozen=True, slots=True)
class Written:
    paths: tuple[Path, ...]
    # What could not be written, and why.
    refused: tuple[str, ...]


def write_report_files(report: StudyReport, formats: Collection[str]) -> Written:
    """A report can be read from a folder that nobody may write to. A what-if leaves choice.json to the study's own
    limits: others take their settings from it."""
    paths = StudyPaths(report.folder)
    link = link_in(paths)
    if link is not None:
        return Written((), (f"nothing was written: {link} is a link",))
    texts = {}
    if "md" in formats:
        texts[paths.report_md] = markdown(report)
    if "csv" in formats:
        texts[paths.trials_csv] = csv_table(report)
    if report.what_if is None:
        texts[paths.choice] = json.dumps(choice_to_json(report), indent=1, allow_nan=False) + "\n"
    written, refused = [], []
    for path, text in texts.items():
        try:
            write_atomically(path, text)
            written.append(path)
        except OSError as error:
            refused.append(f"{path} was not written: {error.strerror}")
    return Written(tuple(written), tuple(refused))
