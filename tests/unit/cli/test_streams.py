"""Exit codes and JSON when a stream is full or closed, and the one object that --json prints on each error."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.cli import ROOT, quiet_env
from support.studies import a_trial, write_study
from vtune.cli.main import run

ERROR = ["error", "exit_code", "hint"]


def started(words: Sequence[str | Path], redirected: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`redirected`: as a shell has it."""
    command = ["sh", "-c", f'exec "$@" {redirected}', "sh", sys.executable, "-m", "vtune", *map(str, words)]
    return subprocess.run(
        command, cwd=cwd, env=quiet_env(PYTHONPATH=str(ROOT)), capture_output=True, text=True, timeout=100,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["probe", "--config", "nothing.yaml"], 2),
        (["report", "--results", "nowhere", "--json"], 2),
        (["nope"], 2),
        ([], 2),
    ],
)
@pytest.mark.parametrize("redirected", ["2>/dev/full", "2>&-"])
def test_nothing_that_happens_to_stderr_changes_the_exit_code(
    tmp_path: Path, words: list[str], code: int, redirected: str
) -> None:
    done = started(words, redirected, tmp_path)
    assert done.returncode == code and ("--json" in words) == bool(done.stdout)


def test_a_report_is_done_where_stderr_is_full(tmp_path: Path) -> None:
    write_study(tmp_path, a_trial(1, 10.0), a_trial(2, 20.0, asked={"workers": 2}))
    done = started(["report", "--results", tmp_path, "--json"], "2>/dev/full", tmp_path)
    assert done.returncode == 0 and json.loads(done.stdout)["study"] == "demo"


@pytest.mark.parametrize("redirected", [">/dev/full", ">&-"])
@pytest.mark.parametrize("more", [[], ["--json"], ["--format", "md"]])
def test_a_result_that_stdout_does_not_take_is_lost_and_no_success(
    tmp_path: Path, more: list[str], redirected: str
) -> None:
    write_study(tmp_path, a_trial(1, 10.0), a_trial(2, 20.0, asked={"workers": 2}))
    done = started(["report", "--results", tmp_path, *more], redirected, tmp_path)
    assert done.returncode == 3 and "error: " in done.stderr and "\nhint: " in done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""


@pytest.mark.parametrize("redirected", [">/dev/full", ">&-", ">/dev/full 2>/dev/full", ">&- 2>&-"])
def test_an_error_keeps_its_code_where_stdout_does_not_take_it(tmp_path: Path, redirected: str) -> None:
    done = started(["report", "--results", "nowhere", "--json"], redirected, tmp_path)
    assert done.returncode == 2 and ("2>" in redirected or "\nhint: " in done.stderr)


@pytest.mark.parametrize(
    "words",
    [
        [], ["nope"], ["probe", "--stpes", "3"], ["compare"], ["compare", "a", "b", "c"],
        ["probe", "--", "no-such-program"], ["probe", "--config", "no.yaml"], ["launch"], ["apply"],
        ["search", "--trials", "x"], ["phase", "--plan", "x"],
        ["report", "--format", "docx"],
        ["watch", "no-such-study"], ["knobs", "--study", "../.."], ["probe", "--steps"],
        ["knobs", "--results", "x" * 300, "--study", "s"], ["doctor", "--quiet=1"],
    ],
)  # fmt: skip
def test_with_json_each_error_is_one_object_of_three_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    at = words.index("--") if "--" in words else len(words)
    code = run([*words[:at], "--json", *words[at:]])
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert sorted(told) == ERROR and told["exit_code"] == code == 2
    assert told["error"] and told["hint"] and list(tmp_path.iterdir()) == []
    assert run(words) == code and "\nhint: " in capsys.readouterr().err


def test_a_machine_that_cannot_is_one_object_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").write_text("no folder")
    assert run(["doctor", "--json", "--python", sys.executable]) == 3
    told = json.loads(capsys.readouterr().out)
    assert sorted(told) == ERROR and told["exit_code"] == 3 and told["hint"]


def test_a_defect_is_one_object_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(*given: object, **named: object) -> None:
        raise ZeroDivisionError("of vtune")

    monkeypatch.setattr("vtune.cli.asked.asked_experiment", broken)
    monkeypatch.setattr("vtune.reporting.study_report.find_report", broken)
    assert run(["report", "--json"]) == 70
    told = json.loads(capsys.readouterr().out)
    assert sorted(told) == ERROR and told["exit_code"] == 70
    Path(told["hint"].rpartition(" ")[2]).unlink()


@pytest.mark.parametrize("name", ["../..", "/etc", "a\0b", "x" * 300, ".hidden", "-v", "a/b"])
@pytest.mark.parametrize("command", [["knobs"], ["probe", "--dry-run"], ["report"], ["compare", "1", "2"]])
def test_a_last_study_that_is_no_name_of_one_is_as_if_there_were_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "experiment.yaml").write_text("vtune: {command: python train.py}\n")
    (tmp_path / "train.py").touch()
    (tmp_path / "results" / ".last-study").write_bytes(name.encode() + b"\n")
    assert run(command) == (0 if command == ["knobs"] else 2)
    (tmp_path / "results" / ".last-study").write_bytes(b"\xff\xfe\n")
    assert run(command) == (0 if command == ["knobs"] else 2)
