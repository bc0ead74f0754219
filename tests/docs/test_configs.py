"""Every file in configs/ loads, and says what it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

CONFIGS = sorted((Path(__file__).resolve().parents[2] / "configs").glob("*.y*ml"))


def test_there_are_configs_to_start_from() -> None:
    assert {"quickstart.yaml", "exp001.yaml"} <= {path.name for path in CONFIGS}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_it_loads_as_an_experiment(path: Path) -> None:
    from vtune.config.load import load_experiment

    experiment = load_experiment(path)
    assert experiment.workload.command


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_it_opens_with_a_comment_that_says_what_it_is_for(path: Path) -> None:
    assert path.read_text().startswith("# ")
