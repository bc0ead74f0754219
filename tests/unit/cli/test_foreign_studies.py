"""A study folder from somebody else is data: nothing in it crashes a command, and none waits for it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.world import STUDY, build
from vtune.cli.main import run

# They read all that a study has, and start nothing.
COMMANDS = (
    ["report", "--json"], ["apply", "--json"], ["compare", "1", "2", "--json"], ["launch", "--dry-run", "--json"],
    ["phase", "--dry-run", "--json"], ["search", "--dry-run", "--json"], ["knobs", "--json"],
    ["probe", "--dry-run", "--json"], ["compare", "1", "2", "--race", "--dry-run", "--json"],
)  # fmt: skip


def holding(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text)


SPEC = '{"command": ["a"], "cwd": ".", "env": {}, "effects": []}'
SPOILT: dict[str, tuple[str, Callable[[Path], object]]] = {
    "machine is a list": ("machine.json", holding("[1, 2]")),
    "machine has a list of nulls": ("machine.json", holding('{"gpus": 7, "host": {}}')),
    "effects are a text": ("trials/0002/spec.json", holding(SPEC.replace("[]", '"x"'))),
    "spec is deep": ("trials/0002/spec.json", holding("[" * 100_000)),
    "environment is a list": ("trials/0002/spec.json", holding(SPEC.replace("{}", "[]"))),
    "choice has half a character": ("choice.json", holding('{"best": "\\ud800"}')),
    "journal has a huge number": ("journal.jsonl", holding('{"schema": 1, "trial": ' + "9" * 5000 + "}\n")),
    "journal has half a character": ("journal.jsonl", holding('{"schema": 1, "trial": 1, "detail": "\\ud800"}\n')),
    "journal is a FIFO": ("journal.jsonl", os.mkfifo),
    "journal is a folder": ("journal.jsonl", Path.mkdir),
    "steps are a FIFO": ("trials/0002/steps-7.jsonl", os.mkfifo),
    "copy never ends": ("trials/0002/config.yaml", lambda path: path.symlink_to("/dev/zero")),
    "copy is deep": ("trials/0002/config.yaml", holding("[" * 100_000)),
    "experiment is a FIFO": ("experiment.yaml", os.mkfifo),
    "experiment merges": ("experiment.yaml", holding("a: &a {}\nb: &b {<<: [*a, *a]}\nvtune: {<<: [*b, *b]}\n")),
    "scout is a number": ("scout.json", holding("7")),
    "search is a text": ("search.json", holding('"x"')),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILT)
def test_each_command_answers_with_a_result_or_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    build(tmp_path)
    file, spoil = SPOILT[name]
    path = tmp_path / "results" / STUDY / file
    path.unlink(missing_ok=True)
    spoil(path)
    for words in COMMANDS:
        code = run(words)
        told = json.loads(capsys.readouterr().out)
        assert code in (0, 2, 4), (words, told)
        assert code != 2 or (sorted(told) == ["error", "exit_code", "hint"] and told["hint"])
