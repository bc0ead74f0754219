from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.studies import a_report, write_study
from vtune.domain.experiment import Experiment, Workload
from vtune.domain.record import TrialRecord
from vtune.launcher.plan import PlannedLaunch, plan_launch


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., PlannedLaunch]:
    """A launch of trial 1, in a study of these records."""

    def make(*records: TrialRecord) -> PlannedLaunch:
        study = write_study(tmp_path / "results", *records)
        workload = Workload(command=("python", "train.py", "{config}"), cwd=tmp_path, config={"workers": 1})
        return plan_launch(
            Experiment(study="demo", workload=workload), replace(a_report(*records), folder=study.root), trial=1
        )

    return make
