"""The line of a dry run that says where trials will write."""

from __future__ import annotations

from pathlib import Path

from vtune.config.written_folders import written_folders
from vtune.domain.experiment import Experiment
from vtune.domain.numbers import bytes_
from vtune.execution.protection import trial_disk_bytes
from vtune.reporting.inert import harmless


def files_line(experiment: Experiment, study: Path) -> str:
    """Without the check whether overlays can be had here: a dry run starts nothing."""
    most = trial_disk_bytes(experiment, study)
    space = "" if most is None else f"; a trial may fill {bytes_(most)}"
    if experiment.writes.real:
        return f"files     written for real, as --allow-writes asks{space}"
    folders = ", ".join(map(str, written_folders(experiment.workload, experiment.writes.protect)))
    return f"files     to be left as they are in {harmless(folders, 1000) or 'no folder'}{space}"
