"""Places that the operating system refuses: said plainly with exit 3, nothing lost, nothing left running."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cli import Said, quiet_env, vtune

SCRIPT = Path(__file__).parents[1] / "survival" / "train_two_workers.py"
# Root may do all without asking; without its capabilities it asks like anybody.
LIKE_ANYBODY = () if os.geteuid() else ("setpriv", "--bounding-set=-all", "--inh-caps=-all")


# All that the disk has left, once the training has made some of its 80 steps.
FILL = """
import itertools
steps = itertools.count(1)
def fill(disk):
    size = 2**20 if next(steps) == 30 else 0
    with open(disk + "/filler", "ab", buffering=0) as file:
        while size:
            try:
                file.write(b"x" * size)
            except OSError:
                size //= 2
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a study `s` of one trial."""
    here = tmp_path_factory.mktemp("measured")
    (here / "train.py").write_text("print('no torch')\n")
    assert probe(here / "results").code == 5
    return here


@pytest.fixture
def results(measured: Path, tmp_path: Path) -> Iterator[Path]:
    shutil.copytree(measured, tmp_path, dirs_exist_ok=True)
    yield tmp_path / "results"
    for path in [tmp_path / "results", *(tmp_path / "results").rglob("*")]:
        path.chmod(0o700)


def probe(results: Path, study: str = "s") -> Said:
    command = ("--", sys.executable, str(results.parent / "train.py"))
    return by_anybody("probe", "--json", "--results", str(results), "--study", study, *command)


def by_anybody(*arguments: str) -> Said:
    if LIKE_ANYBODY and shutil.which(LIKE_ANYBODY[0]) is None:
        pytest.skip("no setpriv, so root is refused nothing")
    done = subprocess.run(
        [*LIKE_ANYBODY, sys.executable, "-m", "vtune", *arguments],
        env=quiet_env(), capture_output=True, text=True, timeout=110, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return Said(done.returncode, done.stdout, done.stderr)


def measured_trial(said: Said) -> dict[str, Any]:
    """Where it could not be kept: stdout holds the error alone."""
    told: dict[str, Any] = json.JSONDecoder().raw_decode(said.stderr[said.stderr.index("{") :])[0]["trial"]
    return told


def check_refused(said: Said, path: Path, *, words: str = "Permission denied", hint: str = "let this account") -> None:
    assert said.code == 3, said.stdout
    assert str(path) in said.json["error"] and said.json["error"].endswith(words)
    assert hint in said.json["hint"] and "--results DIR" in said.json["hint"]


@pytest.mark.parametrize(
    ("closed", "mode", "named"),
    [
        (".", 0o500, ".last-study"),
        pytest.param("s", 0o000, "s/trials", marks=pytest.mark.slow),
        ("s", 0o500, "s"),
        pytest.param("s/trials", 0o500, "s/trials/0002", marks=pytest.mark.slow),
        pytest.param("s/trials", 0o000, "s/trials", marks=pytest.mark.slow),
        pytest.param("s/trials/0001", 0o000, "s/trials/0001", marks=pytest.mark.slow),
        ("s/journal.jsonl", 0o000, "s/journal.jsonl"),
    ],
)
def test_what_this_account_may_not_write_is_no_defect(results: Path, closed: str, mode: int, named: str) -> None:
    before = (results / "s" / "journal.jsonl").read_bytes()
    (results / closed).chmod(mode)
    check_refused(probe(results), results / named)
    for path in (results, results / "s", results / "s" / "journal.jsonl"):
        path.chmod(0o700)
    assert (results / "s" / "journal.jsonl").read_bytes() == before


def test_a_journal_that_may_be_read_only_is_told_with_the_measured_trial(results: Path) -> None:
    (results / "s" / "journal.jsonl").chmod(0o400)
    said = probe(results)
    check_refused(said, results / "s" / "journal.jsonl")
    record = measured_trial(said)
    assert record["trial"] == 2 and record["status"] == "not_observed"


@pytest.mark.parametrize(
    "asked",
    [
        "report --study s",
        *(pytest.param(asked, marks=pytest.mark.slow) for asked in ("compare s:1 s:1", "phase --study s --dry-run")),
    ],
)
def test_a_journal_that_may_not_be_read_is_said_by_those_who_only_read(results: Path, asked: str) -> None:
    journal = results / "s" / "journal.jsonl"
    journal.chmod(0)
    said = by_anybody(*asked.split(), "--json", "--results", str(results))
    check_refused(said, journal)
    assert "cannot read" in said.json["error"]


@pytest.mark.parametrize(
    ("path", "folder", "words", "code"),
    [
        ("s/journal.jsonl", True, "is a directory, not a file", 2),
        ("s/trials", False, "File exists", 3),
        (".", False, "Not a directory", 3),
    ],
)
def test_something_else_in_its_place_is_named(results: Path, path: str, folder: bool, words: str, code: int) -> None:
    place = results / path
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    place.mkdir() if folder else place.touch()
    said = vtune_probe(results)
    assert said.code == code and str(place) in said.json["error"] and said.json["error"].endswith(words)
    assert "away" in said.json["hint"]


def vtune_probe(results: Path) -> Said:
    return vtune(
        "probe", "--json", "--results", results, "--study", "s", "--", sys.executable, results.parent / "train.py"
    )


@pytest.mark.slow
def test_a_disk_that_fills_up_while_the_trial_runs_costs_none_of_its_measurement(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("mounting a small disk needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=10m", "small", disk], capture_output=True).returncode:
        pytest.skip("this machine does not let us mount a small disk")
    filling = tmp_path / "train.py"
    script = SCRIPT.read_text().replace("return 2000", "return 160")
    filling.write_text(script.replace("    optimizer.step()\n", f"    optimizer.step()\n    fill({str(disk)!r})\n"))
    filling.write_text(FILL + filling.read_text())
    try:
        said = vtune("probe", "--json", "--steps", "60", "--results", disk, "--", sys.executable, filling)
    finally:
        subprocess.run(["umount", disk], check=True)
    assert said.code == 3 and "No space left on device" in said.json["error"], said.stdout
    assert "make room" in said.json["hint"]
    record = measured_trial(said)
    assert record["status"] in ("completed", "crashed", "too_short") and record["steps_measured"] > 0
