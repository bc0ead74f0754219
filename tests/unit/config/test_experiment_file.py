"""What cannot be kept in a study's experiment.yaml is refused by its field."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vtune.cli.asked import asked_experiment
from vtune.config.command_line import CommandLine
from vtune.config.experiment_file import experiment_text
from vtune.config.load import experiment_from_command
from vtune.domain.experiment import Experiment
from vtune.errors import UsageError

BAD = os.fsdecode(b"/tmp/caf\xe9")


def experiment() -> Experiment:
    return experiment_from_command(["/usr/bin/env"])


@pytest.mark.parametrize("field", ["command", "cwd", "config_path", "env"])
def test_the_field_that_does_not_survive_is_named(field: str) -> None:
    paths = {"cwd": Path(BAD), "config_path": Path(BAD)}
    values: dict[str, Any] = {"command": ("python", BAD), **paths, "env": {"A": "1", "B": BAD}}
    fine = experiment()
    asked = replace(fine, workload=replace(fine.workload, **{field: values[field]}))
    with pytest.raises(UsageError) as refused:
        experiment_text(asked)
    assert refused.value.message.startswith(f"vtune.{field.removesuffix('_path')} ") and refused.value.message.isascii()
    # The value of a variable may be a secret.
    assert "caf" in refused.value.message or field in ("command", "env")
    assert ("'B'" in refused.value.message) is (field == "env")


def test_a_protected_folder_that_does_not_survive_is_named() -> None:
    fine = experiment()
    with pytest.raises(UsageError, match=r"^vtune\.protect "):
        experiment_text(replace(fine, writes=replace(fine.writes, protect=(Path(BAD),))))


def test_nothing_is_written_where_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    place.mkdir()
    (place / "train.py").touch()
    monkeypatch.chdir(place)
    with pytest.raises(UsageError, match=r"^vtune\.cwd "):
        asked_experiment(None, ["/usr/bin/env", "train.py"], CommandLine(), Path("results"))
    assert [path.name for path in place.iterdir()] == ["train.py"]
