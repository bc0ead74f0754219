"""Whoever reads the output may leave at any time: it is no verdict, and no error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.cli import quiet_env
from support.studies import a_trial, write_study


def into_a_closed_pipe(*arguments: str | Path, stderr_too: bool = False, **env: str) -> tuple[int, str]:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "vtune", *map(str, arguments)], env=quiet_env(**env), timeout=60,
        stdout=write, stderr=write if stderr_too else subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(write)
    return done.returncode, done.stderr or ""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    write_study(tmp_path, a_trial(1, 10.0), a_trial(2, 20.0, asked={"workers": 2}))
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--format", "md"), ("--json",)])
def test_a_report_that_nobody_reads_is_done_and_says_what_it_wrote(results: Path, more: tuple[str, ...]) -> None:
    code, said = into_a_closed_pipe("report", "--study", "demo", "--results", results, *more)
    assert code == 0 and "written: " in said and "Broken" not in said


@pytest.mark.parametrize("command", [("--help",), ("--version",), ("knobs",), ("compare", "demo:1", "demo:2")])
def test_all_commands_end_alike(results: Path, command: tuple[str, ...]) -> None:
    more = ("--results", str(results)) if command[0] == "compare" else ()
    assert into_a_closed_pipe(*command, *more) == (0, "")


@pytest.mark.slow
def test_nor_is_it_one_where_stderr_goes_too_or_nothing_is_buffered() -> None:
    assert into_a_closed_pipe("knobs", stderr_too=True)[0] == 0
    assert into_a_closed_pipe("knobs", PYTHONUNBUFFERED="1") == (0, "")
