"""The words of a training's command, by name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# Of these only the script behind them says what is trained.
LAUNCHER_MODULES = frozenset(("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"))
FLAG = re.compile(r"--?(?P<name>[A-Za-z][\w.-]+)(?P<value>=.*)?", re.DOTALL)
_OVERRIDE = re.compile(r"\+{0,2}(?P<name>[A-Za-z_][\w.]*)=(?P<value>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One `--name value`, `--name=value` or `name=value` of a command."""

    # Without dashes in front, _ for -.
    name: str
    value: str
    position: int
    # What stands before the value in the same word.
    prefix: str
    # The flag or key in the user's spelling.
    typed: str


def named_arguments(command: Sequence[str]) -> Iterator[Argument]:
    for position in range(1, len(command)):
        word = command[position]
        flag = FLAG.fullmatch(word)
        override = None if flag else _OVERRIDE.fullmatch(word)
        if flag and flag["value"] is not None:
            prefix = word[: len(word) - len(flag["value"]) + 1]
            yield Argument(
                name=plain_name(flag["name"]),
                value=flag["value"][1:],
                position=position,
                prefix=prefix,
                typed=prefix[:-1],
            )
        elif flag and position + 1 < len(command) and not command[position + 1].startswith("-"):
            yield Argument(
                name=plain_name(flag["name"]), value=command[position + 1], position=position + 1, prefix="", typed=word
            )
        elif override:
            prefix = word[: len(word) - len(override["value"])]
            yield Argument(
                name=override["name"], value=override["value"], position=position, prefix=prefix, typed=prefix[:-1]
            )


def own_words(command: Sequence[str]) -> tuple[range, bool]:
    """Where the training's own words stand, behind its script or module, and whether there was one to stand behind:
    what comes before is the launcher's or the interpreter's, what follows a bare -- is no option."""
    start = _behind_what_runs(command)
    first = 1 if start is None else start
    end = next((at for at in range(first, len(command)) if command[at] == "--"), len(command))
    return range(first, end), start is not None


def plain_name(name: str) -> str:
    return name.replace("-", "_")


def _behind_what_runs(command: Sequence[str]) -> int | None:
    interpreter = "python" in os.path.basename(command[0]) if command else False
    for at in range(1, len(command)):
        word = command[at]
        if word.endswith(".py"):
            return at + 1
        if word == "-m" and at + 1 < len(command):
            if command[at + 1] not in LAUNCHER_MODULES:
                return at + 2
        elif interpreter and word == "-c":
            return at + 2
        elif interpreter and re.fullmatch(r"-m[A-Za-z_][\w.]*", word) and word[2:] not in LAUNCHER_MODULES:
            return at + 1
    return None
