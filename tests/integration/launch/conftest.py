"""A study whose trials are written by hand: what was measured is not what these tests are about."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.launches import CONFIG, SCRIPT, Study, measured
from support.studies import write_study
from vtune.domain.record import TrialRecord
from vtune.journal.files import dump_json
from vtune.telemetry.machine import this_machine


@pytest.fixture
def a_study(tmp_path: Path) -> Iterator[Callable[..., Study]]:
    made: list[Study] = []

    def make(
        *records: TrialRecord,
        resume: bool = True,
        window: dict[str, Any] | None = None,
        run: dict[str, int] | None = None,
        **config: Any,
    ) -> Study:
        section = {
            "command": ["{python}", str(SCRIPT), "--config", "{config}"],
            "study": "demo",
            **({"resume": "--resume"} if resume else {}),
            **({"window": window} if window else {}),
            **({"run": run} if run else {}),
        }
        (tmp_path / "demo.yaml").write_text(yaml.safe_dump({"vtune": section, **CONFIG, **config}))
        paths = write_study(tmp_path / "results", *(records or (measured(1, 60.0),)))
        dump_json(paths.machine, this_machine())
        (paths.experiment).write_text(
            yaml.safe_dump({"vtune": {**section, "config": str(tmp_path / "demo.yaml"), "cwd": str(tmp_path)}})
        )
        made.append(Study(tmp_path, paths))
        return made[-1]

    yield make
    for study in made:
        for pid in study.living():
            os.kill(pid, signal.SIGKILL)
