from pathlib import Path

import pytest

from vtune.config.command_line import CommandLine
from vtune.config.experiment_file import write_experiment
from vtune.config.load import load_experiment
from vtune.errors import VtuneError

FILE = "vtune:\n  command: 'true --config {{config}}'\n  window: {{validation: {0}}}\nsteps: 3\n"


def written(folder: Path, value: str) -> Path:
    path = folder / "exp.yaml"
    path.write_text(FILE.format(value))
    return path


def test_a_validation_is_waited_for_when_the_file_or_the_command_line_says_so(tmp_path: Path) -> None:
    assert load_experiment(written(tmp_path, "true")).window.validation
    off = written(tmp_path, "false")
    assert not load_experiment(off).window.validation
    asked = load_experiment(off, overrides=CommandLine(validation=True))
    assert asked.window.validation


def test_a_study_that_is_gone_on_with_remembers_it(tmp_path: Path) -> None:
    again = tmp_path / "experiment.yaml"
    write_experiment(load_experiment(written(tmp_path, "true")), again)
    assert load_experiment(again).window.validation


def test_anything_but_yes_or_no_is_refused_where_it_stands(tmp_path: Path) -> None:
    with pytest.raises(VtuneError, match=r"exp.yaml:3:\d+.*vtune.window.validation"):
        load_experiment(written(tmp_path, "20"))
