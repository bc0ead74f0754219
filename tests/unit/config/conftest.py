from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from vtune.config.command_line import CommandLine
from vtune.config.load import load_experiment
from vtune.config.problems import ConfigErrors
from vtune.domain.experiment import Experiment


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's project: the current directory, with a script in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('training')\n")
    return tmp_path


@pytest.fixture
def load(here: Path) -> Callable[..., Experiment]:
    def load(text: str, name: str = "exp.yaml", **typed: object) -> Experiment:
        (here / name).write_text(text)
        return load_experiment(name, overrides=CommandLine(**typed))  # type: ignore[arg-type]

    return load


@pytest.fixture
def errors(load: Callable[..., Experiment]) -> Callable[..., list[str]]:
    """What is wrong with a config, a line each."""

    def errors(text: str, name: str = "exp.yaml", **typed: object) -> list[str]:
        with pytest.raises(ConfigErrors) as caught:
            load(text, name, **typed)
        assert caught.value.exit_code == 2
        return caught.value.message.split("\n")

    return errors
