"""`--dry-run`, `knobs`, `report` and `apply` start no program that a config or a study chooses, and write nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cli import Said, vtune
from support.studies import a_trial, write_study

PROGRAMS = ("python", "python3", "sh", "bash", "env", "git", "nvidia-smi", "torchrun", "uname", "lscpu", "train")
SCRIPT = "raise SystemExit('it was started')\n"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A training, and programs that leave a word when they are started."""
    folder = tmp_path / "here"
    programs = folder / "programs"
    programs.mkdir(parents=True)
    for name in PROGRAMS:
        (programs / name).write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/started\n")
        (programs / name).chmod(0o755)
    venv = folder / "venv" / "bin"
    venv.mkdir(parents=True)
    (venv / "python").write_bytes((programs / "python").read_bytes())
    (venv / "python").chmod(0o755)
    (folder / "train.py").write_text(SCRIPT)
    (folder / "train.yaml").write_text("num_workers: 2\nbatch_size: 4\n")
    return folder


def by_path(here: Path) -> str:
    return f"vtune:\n  env: {{PATH: {here}/programs}}\n  command: [python, train.py, --config, '{{config}}']\n"


def by_name(here: Path) -> str:
    return f"vtune:\n  env: {{PATH: {here}/programs}}\n  command: [train, '{{config}}']\n"


def by_file(here: Path) -> str:
    return "vtune:\n  command: [programs/train, '{config}']\n"


def by_environment(here: Path) -> str:
    return "vtune:\n  command: [venv/bin/python, train.py, --config, '{config}']\n"


def planted_study(here: Path, asked: str) -> None:
    """Of somebody else, as it is unpacked: a finished trial, whose own files name a program too."""
    study = write_study(
        here / "results", a_trial(1, 20.0, asked={"workers": 1}), a_trial(2, 40.0, asked={"workers": 2})
    )
    keys = f"  study: demo\n  cwd: {here}\n  config: {here}/train.yaml\n"
    study.experiment.write_text(asked + keys)
    for number in (1, 2):
        trial = study.trial(number)
        trial.root.mkdir(parents=True)
        spec = {"command": ["python", "train.py"], "cwd": str(here), "env": {"PATH": f"{here}/programs"}, "effects": []}
        trial.spec.write_text(json.dumps({**spec, "token": "0" * 32}))
        hello = {"fact": "hello", "t": 1.0, "pid": 7, "torch": "1.0", "executable": f"{here}/programs/python"}
        (trial.root / "steps-7.jsonl").write_text(json.dumps(hello) + "\n")


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }


def said(here: Path, *arguments: str) -> Said:
    done = vtune(*arguments, cwd=here, PATH=f"{here}/programs:{os.environ['PATH']}", PYTHONPATH=os.getcwd())
    assert "Traceback" not in done.stderr, done.stderr
    return done


WAYS = {
    by_path: ("probe --dry-run", "phase --dry-run", "search --dry-run", "knobs"),
    by_name: ("probe --dry-run",),
    by_file: ("probe --dry-run", "knobs"),
    by_environment: ("probe --dry-run", "knobs"),
}
STUDY = [("launch", "--dry-run", "--trial", "1"), ("launch", "--dry-run", "--force", "--trial", "1"), ("apply",)]


@pytest.mark.parametrize("way", WAYS)
def test_no_program_of_a_config_is_started(here: Path, way: Callable[[Path], str]) -> None:
    (here / "asked.yaml").write_text(f"{way(here)}num_workers: 2\nbatch_size: 4\n")
    before = tree(here)
    for command in WAYS[way]:
        assert said(here, *command.split(), "--config", "asked.yaml").code == 0
    assert not (here.parent / "started").exists()
    assert tree(here) == before


def test_no_program_of_a_study_is_started(here: Path) -> None:
    planted_study(here, by_path(here))
    before = tree(here)
    for command in (*STUDY, ("knobs",), ("probe", "--dry-run"), ("compare", "1", "2", "--race", "--dry-run")):
        assert said(here, *command).code in (0, 2, 3, 4)
    assert tree(here) == before
    # A report writes its own files, and nothing else.
    said(here, "report")
    assert tree(here).keys() - before.keys() <= {
        str(here / "results" / "demo" / name) for name in ("report.md", "trials.csv", "choice.json")
    }
    assert not (here.parent / "started").exists()
