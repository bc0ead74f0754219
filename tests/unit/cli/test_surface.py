"""The CLI's surface, frozen: a change here is a decision with a reason."""

from __future__ import annotations

import typer

from support.cli import vtune
from vtune.cli.main import app

SURFACE = {
    "probe": {
        "--config", "-c", "--study", "--results", "--set", "--steps", "--precise", "--validation", "--trial-time",
        "--startup-time", "--vram-limit", "--ram-limit", "--trial-disk", "--allow-writes", "--allow", "--price",
        "--ceiling", "--dry-run", "--json", "--quiet", "--wait", "--anyway",
        "--busy-wait",
    },
    "phase": {
        "--config", "-c", "--study", "--results", "--plan", "--up-to", "--extend", "--options", "--no-confirm", "--set",
        "--steps", "--precise", "--validation", "--trial-time", "--startup-time", "--vram-limit", "--ram-limit",
        "--trial-disk", "--allow-writes", "--allow", "--price", "--dry-run", "--json", "--quiet", "--wait", "--anyway",
        "--busy-wait",
    },
    "apply": {
        "--config", "-c", "--study", "--results", "--trial", "--write", "--vram-limit", "--ram-limit", "--json",
        "--quiet",
    },
    "search": {
        "--config", "-c", "--study", "--results", "--trials", "--sampler", "--budget", "--no-confirm", "--set",
        "--steps", "--precise", "--validation", "--trial-time", "--startup-time", "--vram-limit", "--ram-limit",
        "--trial-disk", "--allow-writes", "--allow", "--price", "--dry-run", "--json", "--quiet", "--wait", "--anyway",
        "--busy-wait",
    },
    "compare": {
        "--config", "-c", "--study", "--results", "--fail-if-slower", "--force", "--race", "--rounds", "--thorough",
        "--again", "--trial-disk", "--allow-writes", "--dry-run", "--json", "--quiet", "--wait", "--anyway",
        "--busy-wait",
    },
    "doctor": {"--selftest", "--results", "--python", "--json", "--quiet"},
    "knobs": {"--config", "-c", "--study", "--results", "--json", "--quiet"},
    "launch": {
        "--config", "-c", "--study", "--results", "--best", "--trial", "--set", "--resume", "--rescale-iterations",
        "--step-down", "--grace", "--vram-limit", "--ram-limit", "--dry-run", "--detach", "--force", "--json",
        "--quiet",
    },
    "report": {
        "--config", "-c", "--study", "--results", "--format", "--vram-limit", "--ram-limit", "--price", "--json",
        "--quiet",
    },
    "watch": {"--results", "--once", "--epochs", "--vram-limit", "--ram-limit", "--price", "--json", "--quiet"},
}  # fmt: skip


def test_the_commands_and_their_options_are_those_promised() -> None:
    group = typer.main.get_command(app)
    found = {
        name: {text for parameter in command.params for text in parameter.opts if text.startswith("-")} - {"--help"}
        for name, command in group.commands.items()
    }
    assert found == SURFACE


def test_a_misspelt_option_is_a_usage_error_with_the_right_one() -> None:
    said = vtune("probe", "--stpes", "5")
    assert said.code == 2
    assert "--stpes" in said.stderr and "--steps" in said.stderr and "hint:" in said.stderr
    assert said.stdout == ""


def test_without_arguments_the_help_is_shown_whole() -> None:
    said = vtune()
    assert said.code == 2 and said.stderr.startswith("Usage:") and "where its time goes" in said.stderr


def test_a_forgotten_double_dash_is_recognized() -> None:
    said = vtune("probe", "python", "train.py", "--epochs", "3")
    assert said.code == 2 and "vtune probe -- python train.py" in said.stderr


def test_nothing_after_the_double_dash_is_no_wish_for_the_last_study() -> None:
    said = vtune("probe", "--")
    assert said.code == 2 and "no command" in said.stderr


def test_with_json_an_error_is_one_object() -> None:
    said = vtune("probe", "--json", "--stpes", "5")
    assert said.code == 2
    assert set(said.json) == {"error", "hint", "exit_code"} and said.json["exit_code"] == 2


def test_a_double_dash_protects_the_trainings_own_options() -> None:
    said = vtune("probe", "--dry-run", "--json", "--", "python", "-c", "pass", "--json", "--steps", "x")
    assert said.code == 0
    assert said.json["command"][-3:] == ["--json", "--steps", "x"]
