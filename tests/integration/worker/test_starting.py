"""The first milliseconds of every Python under a trial: no torch in these."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SHOW = "import sys; print(sys.argv, sys.path, sorted(m for m in sys.modules if 'vtune' in m or m == 'sitecustomize'))"
INJECT = Path(__file__).resolve().parents[3] / "vtune" / "worker" / "inject"


def python(*arguments: str, trial: Path | None, before: str = "", after: Path | None = None, **more: str) -> Any:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [before, str(after or "")])), **more}
    if trial is not None:
        environment["VTUNE_TRIAL"] = str(trial)
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=30)


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import sys, os\nprint('theirs', __file__)\nif 'FAIL' in os.environ: 1 / 0\n"
    )
    return folder


def test_without_a_trial_nothing_happens(tmp_path: Path) -> None:
    plain = python("-c", SHOW, trial=None)
    ours = python("-c", SHOW, trial=None, before=str(INJECT))
    assert (ours.stdout, ours.stderr, ours.returncode) == (plain.stdout, plain.stderr, 0)


def test_a_trial_is_noted_and_leaves_no_folder_on_the_path(tmp_path: Path) -> None:
    plain = python("-c", SHOW, trial=None)
    ours = python("-c", SHOW, trial=tmp_path, before=str(INJECT))
    assert str(INJECT) not in ours.stdout
    assert ours.stdout.replace("'_vtune_hooks', '_vtune_hooks.install'", "") == plain.stdout
    (line,) = (tmp_path / "pythons.jsonl").read_text().splitlines()
    assert "sys.argv" in line


@pytest.mark.parametrize("more", [{}, {"FAIL": "1"}], ids=["works", "fails"])
def test_a_shadowed_sitecustomize_is_run_and_is_the_one_that_stays(tmp_path: Path, theirs: Path, more: Any) -> None:
    show = "import sys; print(sys.modules.get('sitecustomize'))"
    plain = python("-c", show, trial=None, after=theirs, **more)
    ours = python("-c", show, trial=tmp_path, before=str(INJECT), after=theirs, **more)
    assert plain.stdout.startswith("theirs")
    assert (ours.stdout, ours.stderr, ours.returncode) == (plain.stdout, plain.stderr, plain.returncode)


def test_children_and_modules_are_noted_and_isolated_pythons_are_not(tmp_path: Path) -> None:
    run = "import subprocess, sys; subprocess.run([sys.executable, *sys.argv[1:]], check=True)"
    for arguments in (["-c", "pass"], ["-m", "this"], ["-E", "-c", "pass"], ["-I", "-c", "pass"], ["-S", "-c", "pass"]):
        assert python("-c", run, *arguments, trial=tmp_path, before=str(INJECT)).returncode == 0
    lines = (tmp_path / "pythons.jsonl").read_text().splitlines()
    assert len(lines) == 5 + 2


def test_a_trial_folder_that_is_gone_disturbs_nobody(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    ours = python("-c", "print('fine')", trial=gone, before=str(INJECT))
    assert (ours.stdout, ours.stderr, ours.returncode) == ("fine\n", "", 0)
    assert not gone.exists()


def test_arguments_with_quotes_and_foreign_letters_make_one_readable_line(tmp_path: Path) -> None:
    import json

    strange = ["-c", "pass", 'a "b" \\ c', "Größe\n", "\udcff"]
    assert python(*strange, trial=tmp_path, before=str(INJECT)).returncode == 0
    (line,) = (tmp_path / "pythons.jsonl").read_text().splitlines()
    assert json.loads(line)["argv"][1:] == strange
