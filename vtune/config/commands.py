"""A training's command: its words, its program, its name."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from vtune.knobs.arguments import LAUNCHER_MODULES
from vtune.knobs.settings import shown
from vtune.knobs.spelling import nearest

PYTHON = "{python}"
CONFIG = "{config}"
PLACEHOLDERS = ("python", "config")
SHELL_WORDS = frozenset(("&&", "||", "|", ";", "&", ">", ">>", "<", "2>", "2>&1", "&>"))
LAUNCHERS = ("python", "python3", "torchrun", "accelerate", "deepspeed", "fabric", "lightning", "bash", "env", "srun")
_PYTHON_NAME = re.compile(r"(?:python|pypy)[0-9.]*t?")
_TAKES_VALUE = frozenset(("-W", "-X", "--check-hash-based-pycs"))


def parse_command(value: object) -> tuple[str, ...]:
    """From a file: text is split as a shell would, without a shell; a list is taken as it is."""
    words = _words(value)
    if not words or not words[0]:
        raise ValueError("is empty")
    for name in (name for word in words for name in re.findall(r"\{(\w+)\}", word)):
        # Other braces are the training's own; only what looks like one of ours was meant to be one.
        if name not in PLACEHOLDERS and (meant := nearest(name, PLACEHOLDERS)):
            raise ValueError(f"has the unknown placeholder {{{name}}}; did you mean {{{meant}}}?")
    if any("\0" in word for word in words):
        raise ValueError("holds a NUL character")
    return tuple(words)


def parse_resume(value: object) -> tuple[str, ...]:
    """Words behind the command that make it go on: `--resume`."""
    words = _words(value)
    if any("\0" in word for word in words):
        raise ValueError("holds a NUL character")
    return tuple(words)


def _words(value: object) -> list[str]:
    if isinstance(value, str):
        try:
            words = shlex.split(value)
        except ValueError as error:
            raise ValueError(f"cannot be split into words ({error}), got {shown(value)}") from None
        shell = next((word for word in words if word in SHELL_WORDS), None)
        if shell is not None:
            raise ValueError(f'holds "{shell}", but there is no shell; use a script, or ["bash", "-c", "..."]')
    elif isinstance(value, list):
        words = [_word(item) for item in value]
    else:
        raise ValueError(f"must be text or a list of words, got {shown(value)}")
    return words


def is_python(program: str) -> bool:
    return program == PYTHON or _PYTHON_NAME.fullmatch(os.path.basename(program)) is not None


def script_of(command: Sequence[str]) -> tuple[str | None, str | None]:
    """(script, module) that a Python command runs; (None, None) for -c, stdin and other programs."""
    if not is_python(command[0]):
        return None, None
    words = iter(command[1:])
    for word in words:
        if word in ("-c", "-") or word.startswith("-c"):
            return None, None
        if word.startswith("-m"):
            return None, word[2:] or next(words, None)
        if word in _TAKES_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            return word, None
    return None, None


def study_name_of_command(command: Sequence[str]) -> str:
    digits = hashlib.sha256("\0".join(command).encode(errors="surrogateescape")).hexdigest()[:6]
    return f"{study_name(_what_runs(command), longest=64 - 1 - len(digits))}-{digits}"


def study_name(text: str, *, longest: int = 64) -> str:
    # No dash or dot in front: it would read as an option, or hide the folder.
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:longest].rstrip("-.") or "study"


def use_placeholder(command: Sequence[str], config: Path, cwd: Path) -> tuple[str, ...]:
    """A command that names the config's own path gets {config} in its place."""

    def replaced(word: str) -> str:
        prefix, equals, value = word.rpartition("=")
        for head, path in ((prefix + equals, value), ("", word)):
            if path and os.path.basename(path) == config.name and _same_file(cwd / path, config):
                return head + CONFIG
        return word

    return (command[0], *map(replaced, command[1:]))


def program_problem(command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> tuple[str, str] | None:
    """(message, hint) when the program or the Python script that it runs cannot be started."""
    program = command[0]
    if program == PYTHON:
        pass
    elif "/" in program:
        path = cwd / program
        if not os.path.exists(path):
            return (
                f"there is no program {shown(program)} in {cwd}",
                "name it as seen from this folder, or by its whole path",
            )
        if os.path.isdir(path):
            return (
                f"{shown(program)} is a directory, not a program",
                f"name the program in it, or write python -m {os.path.basename(program)}",
            )
        if not os.access(path, os.X_OK):
            python = f"put python in front: python {program}" if path.suffix == ".py" else f"chmod +x {path}"
            return f"{shown(program)} is not executable", python
    elif shutil.which(program, path=search_path(env)) is None and program not in ("python", "python3"):
        return f"there is no program {shown(program)} on the PATH", _program_hint(program, cwd)
    script, _ = script_of(command)
    if script is not None and CONFIG not in script and not os.path.exists(cwd / script):
        meant = nearest(script, [entry.name for entry in cwd.glob("*.py")])
        return f"there is no script {shown(script)} in {cwd}", (
            f"did you mean {meant}?" if meant else "name it as seen from this folder: the command is started there"
        )
    return None


def search_path(env: Mapping[str, str]) -> str | None:
    return env.get("PATH", os.environ.get("PATH"))


def _program_hint(program: str, cwd: Path) -> str:
    if os.path.isfile(cwd / program):
        return f"put python in front: python {program}" if program.endswith(".py") else f"write ./{program}"
    if re.fullmatch(r"[A-Za-z_]\w*=.*", program):
        return "variables go into vtune.env, or in front of vtune itself"
    if " " in program:
        return "write the words of the command apart, not as one quoted text"
    meant = nearest(program, LAUNCHERS)
    return f"did you mean {meant}?" if meant else "activate its environment, or name it by its whole path"


def _what_runs(command: Sequence[str]) -> str:
    script, module = script_of(command)
    if module is not None and module not in LAUNCHER_MODULES:
        return module.removesuffix(".__main__").rpartition(".")[2]
    if script is not None:
        return Path(script).stem
    for word in command[1:]:
        if word.endswith(".py"):
            return Path(word).stem
    return "python" if command[0] == PYTHON else os.path.basename(command[0])


def _word(item: object) -> str:
    if isinstance(item, str):
        return item
    # A float may not be what was typed (0.10), a bool never is (yes).
    if isinstance(item, int) and not isinstance(item, bool):
        return str(item)
    raise ValueError(f"must be a list of words, got {shown(item)} in it; put it in quotes")


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
