"""Secrets of a training: it gets them, and nothing that vtune keeps or prints for others holds them."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from support.cli import Said, vtune
from vtune.journal.journal import Journal
from vtune.journal.paths import StudyPaths

ENV, FLAG, KEY, SHELL, SHAPE = (
    "A1b2C3d4E5f6G7h8I9",
    "flag-s3cr3t",
    "key-s3cr3t",
    "shell-s3cr3t",
    "hf_AbCdEfGhIjKlMnOpQr",
)
SECRETS = (ENV, FLAG, KEY, SHELL, SHAPE)
SCRIPT = f"""
import os, re, sys
assert os.environ["SESSION"] == {ENV!r} and {FLAG!r} in sys.argv
password = re.search("password: (.*)", open(sys.argv[3]).read())[1]
given = [os.environ["SESSION"], sys.argv[2], password, os.environ["MY_TOKEN"]]
print("signing in with", *given, {SHAPE!r}, flush=True)
raise ValueError(f"refused: {{given}} {SHAPE}")
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    section = {
        "command": ["{python}", "train.py", "--token", FLAG, "{config}"],
        "env": {"SESSION": ENV, "OMP_NUM_THREADS": "1"},
        "study": "s",
    }
    config = tmp_path / "train.yaml"
    config.write_text(f"vtune: {json.dumps(section)}\nnum_workers: 2\nhub:\n  password: {KEY}\n")
    config.chmod(0o600)
    return tmp_path


def holding(folder: Path) -> dict[Path, set[str]]:
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and (held := {one for one in SECRETS if one in path.read_text(errors="replace")}):
            found[path] = held
    return found


def probed(here: Path, *arguments: str) -> Said:
    said = vtune("probe", *arguments, cwd=here, MY_TOKEN=SHELL)
    assert said.code == 5, said.stderr
    return said


def test_no_secret_of_a_training_is_printed_or_kept_for_others(here: Path) -> None:
    told = probed(here, "--config", "train.yaml", "--json")
    # Once more, from the study alone: the training gets all of it again, else it would end in another way.
    again = probed(here)
    assert told.json["trial"]["detail"] is not None and "ValueError" in told.json["trial"]["detail"]
    assert [record.detail for record in Journal(StudyPaths(here / "results" / "s").journal).read()] == 2 * [
        told.json["trial"]["detail"]
    ]
    report = vtune("report", cwd=here, MY_TOKEN=SHELL)
    dry = [
        vtune(verb, "--dry-run", *more, cwd=here) for verb in ("probe", "phase", "search") for more in ((), ("--json",))
    ]
    for said in (told, again, report, *dry):
        assert not any(secret in said.stdout + said.stderr for secret in SECRETS), said
    assert all("***" in said.stdout for said in dry)
    study = StudyPaths(here / "results" / "s")
    own = [study.trial(1).root, study.trial(2).root]
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in own] == [0o700, 0o700]
    others = {path for path in holding(here / "results") if not any(path.is_relative_to(folder) for folder in own)}
    assert others == {study.experiment} and stat.S_IMODE(study.experiment.stat().st_mode) == 0o600


def test_a_study_without_an_environment_is_as_open_as_the_umask_lets_it_be(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit(3)\n")
    said = vtune("probe", "--study", "s", "--", "python", "train.py", cwd=tmp_path)
    assert said.code == 5
    experiment = StudyPaths(tmp_path / "results" / "s").experiment
    assert stat.S_IMODE(experiment.stat().st_mode) == 0o666 & ~_umask()


def _umask() -> int:
    now = os.umask(0o022)
    os.umask(now)
    return now
