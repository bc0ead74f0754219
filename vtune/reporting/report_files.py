"""What a report leaves in the study's folder."""

from __future__ import annotations

import json
from collections.abc import Collection

from vtune.files import write_atomically
from vtune.journal.paths import StudyPaths
from vtune.reporting.csv_table import csv_table
from vtune.reporting.markdown import markdown
from vtune.reporting.report_json import choice_to_json
from vtune.reporting.study_report import StudyReport


def write_report_files(report: StudyReport, formats: Collection[str]) -> list[str]:
    """Returns what could not be written and why: a report can be read from a folder that nobody may write to."""
    paths = StudyPaths(report.folder)
    texts = {paths.choice: json.dumps(choice_to_json(report), indent=1, allow_nan=False) + "\n"}
    if "md" in formats:
        texts[paths.report_md] = markdown(report)
    if "csv" in formats:
        texts[paths.trials_csv] = csv_table(report)
    refused = []
    for path, text in texts.items():
        try:
            write_atomically(path, text)
        except OSError as error:
            refused.append(f"{path} was not written: {error.strerror}")
    return refused
