"""The training's config that a plain command names: `-- python train.py --config exp.yaml`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vtune.config.commands import CONFIG
from vtune.config.document import read_training_config
from vtune.config.problems import ConfigErrors, Problem
from vtune.config.trial_config import SECTION
from vtune.domain.experiment import ConfigWord
from vtune.knobs.arguments import own_words, plain_name

ENDINGS = (".yaml", ".yml", ".json")
LONG_FLAGS = frozenset(("config", "cfg", "config_file"))
# A config that builds on others names them relative to itself; a copy elsewhere would not find them.
BUILDS_ON_OTHERS = frozenset(
    ("_base_", "__base__", "base", "base_config", "parent", "inherit", "inherits", "extends", "include", "includes",
     "imports", "defaults")
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedConfig:
    path: Path
    config: Mapping[str, Any]
    word: ConfigWord


def config_named_by(command: Sequence[str], cwd: Path) -> NamedConfig | None:
    """Where there is exactly one, and it can be read and copied; nobody has promised vtune that it can."""
    if CONFIG in " ".join(command):
        return None
    words = list(_flagged(command)) or list(_positional(command))
    existing = [(word, path) for word, path in words if path.suffix.lower() in ENDINGS and _is_file(cwd / path)]
    if len(existing) != 1:
        return None
    word, path = existing[0]
    problems: list[Problem] = []
    document = read_training_config(cwd / path, problems)
    if document is None or problems or any(str(key).lower() in BUILDS_ON_OTHERS for key in document.data):
        return None
    config = {key: value for key, value in document.data.items() if key != SECTION}
    return NamedConfig(path=(cwd / path).absolute(), config=config, word=word)


def why_unread(command: Sequence[str], cwd: Path) -> ConfigErrors | None:
    """Of the config that it names, where that is why there is none."""
    problems: list[Problem] = []
    for _, path in list(_flagged(command)) or list(_positional(command)):
        if path.suffix.lower() in ENDINGS:
            read_training_config(cwd / path, problems)
    return ConfigErrors(problems) if problems else None


def _flagged(command: Sequence[str]) -> Iterator[tuple[ConfigWord, Path]]:
    own, is_script = own_words(command)
    for at in own:
        flag, equals, value = command[at].partition("=")
        if not (_is_long(flag) or (flag == "-c" and is_script)):
            continue
        if equals:
            yield ConfigWord(position=at, prefix=f"{flag}="), Path(value)
        elif at + 1 in own:
            yield ConfigWord(position=at + 1, prefix=""), Path(command[at + 1])


def _positional(command: Sequence[str]) -> Iterator[tuple[ConfigWord, Path]]:
    """Not what stands behind a flag: that may be its value."""
    own, is_script = own_words(command)
    for at in own if is_script else ():
        if not command[at].startswith("-") and not (at > own.start and command[at - 1].startswith("-")):
            yield ConfigWord(position=at, prefix=""), Path(command[at])


def _is_long(flag: str) -> bool:
    return flag.startswith("--") and plain_name(flag[2:]) in LONG_FLAGS


def _is_file(path: Path) -> bool:
    try:
        return os.path.isfile(path)
    except (OSError, ValueError):  # a NUL, or a name too long to be one
        return False
