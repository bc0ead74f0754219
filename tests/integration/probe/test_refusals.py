"""What is wrong is said before anything is started or written: exit 2, the place, the nearest spelling."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli import vtune_in_process as vtune

GOOD = """vtune:
  command: "{python} train.py --config {config}"
training:
  workers: 1
"""


def config(tmp_path: Path, text: str) -> Path:
    (tmp_path / "train.py").write_text("raise SystemExit('it was started')\n")
    path = tmp_path / "exp.yaml"
    path.write_text(text)
    return path


def having(line: str) -> str:
    return GOOD.replace("vtune:\n", f"vtune:\n  {line}\n")


CASES = {
    "an unknown key": (having("limitz: {ram: 85%}"), ["exp.yaml:2:3:", "limitz", "limits"]),
    "a wrong type": (having("window: {steps: fifty}"), ["exp.yaml:2:19:", "fifty"]),
    "negative workers": (having("settings: {workers: -1}"), ["exp.yaml:2:23:", "-1"]),
    "an unknown knob": (having("settings: {worker: 1}"), ["exp.yaml:2:14:", "workers"]),
    "a bad limit": (having("limits: {ram: lots}"), ["exp.yaml:2:17:", "lots", "95%"]),
    "a duplicate key": (GOOD + "training:\n  workers: 2\n", ["exp.yaml:5:1:", "training", "line 3"]),
    "no YAML": ("vtune: [\n", ["exp.yaml:2:1:"]),
    "a misspelt placeholder": (GOOD.replace("{config}", "{confg}"), ["exp.yaml:2:12:", "{confg}", "{config}"]),
    "a program that does not exist": (GOOD.replace("{python} train.py", "no-such-program"), ["no-such-program"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_config_names_its_line_and_starts_nothing(tmp_path: Path, name: str) -> None:
    text, words = CASES[name]
    said = vtune("probe", "--config", config(tmp_path, text), "--results", tmp_path / "out", cwd=tmp_path)
    assert said.code == 2, said.stderr
    assert said.stderr.startswith("error: ")
    for word in words:
        assert word in said.stderr
    assert said.stdout == ""
    assert not (tmp_path / "out").exists()


def test_all_errors_come_at_once_from_the_file_and_the_command_line(tmp_path: Path) -> None:
    text = GOOD.replace("vtune:\n", "vtune:\n  limitz: 1\n  price: cheap\n")
    said = vtune(
        "probe", "--config", config(tmp_path, text), "--set", "worker=2", "--set", "workers=-3", "--ram-limit", "120%",
        "--trial-time", "soon", "--results", tmp_path / "out", cwd=tmp_path,
    )  # fmt: skip
    assert said.code == 2
    for word in ("limitz", "price", '"worker"', "-3", "120%", "soon"):
        assert word in said.stderr


def test_with_json_the_error_is_one_object_on_stdout(tmp_path: Path) -> None:
    said = vtune("probe", "--json", "--config", tmp_path / "nothing.yaml", cwd=tmp_path)
    assert said.code == 2 and said.json["exit_code"] == 2
    assert "nothing.yaml" in said.json["error"] and said.json["hint"]


def test_a_missing_file_is_answered_with_its_neighbours(tmp_path: Path) -> None:
    config(tmp_path, GOOD)
    said = vtune("probe", "--config", tmp_path / "exb.yaml", cwd=tmp_path)
    assert said.code == 2 and "exp.yaml" in said.stderr


def test_a_program_that_does_not_exist_is_not_a_failed_training(tmp_path: Path) -> None:
    said = vtune("probe", "--results", tmp_path / "out", "--", "no-such-program-here", "train.py", cwd=tmp_path)
    assert said.code == 2 and "no-such-program-here" in said.stderr
    assert not (tmp_path / "out").exists()


def test_a_config_without_its_option_is_recognized(tmp_path: Path) -> None:
    config(tmp_path, GOOD)
    said = vtune("probe", "exp.yaml", cwd=tmp_path)
    assert said.code == 2 and "--config exp.yaml" in said.stderr


def test_an_unwritable_results_folder_is_said_before_the_start(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, not a folder")
    said = vtune("probe", "--config", config(tmp_path, GOOD), "--results", blocked, cwd=tmp_path)
    assert said.code == 3 and "blocked" in said.stderr and "--results" in said.stderr


def test_a_file_system_that_takes_no_folder_is_what_this_machine_cannot(tmp_path: Path) -> None:
    said = vtune("probe", "--config", config(tmp_path, GOOD), "--results", "/proc/vtune-results", cwd=tmp_path)
    assert said.code == 3 and "/proc/vtune-results" in said.stderr and "choose another place" in said.stderr


def test_no_config_no_command_and_no_study_says_how_to_begin(tmp_path: Path) -> None:
    said = vtune("probe", cwd=tmp_path)
    assert said.code == 2 and "vtune probe --config" in said.stderr


def test_both_a_config_and_a_command_are_one_too_many(tmp_path: Path) -> None:
    said = vtune("probe", "--config", config(tmp_path, GOOD), "--", "python", "train.py", cwd=tmp_path)
    assert said.code == 2 and "both" in said.stderr


@pytest.mark.parametrize("name", ["../up", "a/b", "", "x" * 65, "with space", ".", ".."])
def test_a_study_name_cannot_leave_the_results_folder(tmp_path: Path, name: str) -> None:
    said = vtune(
        "probe", "--config", config(tmp_path, GOOD), "--study", name, "--results", tmp_path / "out", cwd=tmp_path
    )
    assert said.code == 2
    assert not (tmp_path / "out").exists()
