"""Which commands the hooks in the training reach: known from the command alone, before anything is started."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import StrEnum

from vtune.config.commands import is_python

# Console scripts: Python starts them, and they start Python.
_LAUNCHERS = frozenset(("torchrun", "accelerate", "deepspeed", "fabric", "lightning", "composer", "coverage"))
# With these a launcher starts a program of any kind.
_ANY_PROGRAM = frozenset(("--no-python", "--no_python"))
# They start the program behind their own words, on this machine and in this environment.
_RUNNERS = frozenset(("uv", "poetry", "pipenv", "pixi", "pdm", "hatch", "rye", "conda", "mamba", "micromamba"))
_PREFIXES = frozenset(
    ("time", "nice", "ionice", "nohup", "setsid", "stdbuf", "timeout", "taskset", "numactl", "chrt", "exec", "xvfb-run")
)
_SHELLS = frozenset(("sh", "bash", "zsh", "dash", "ksh", "fish"))
# -E and -I ignore PYTHONPATH, -S does not run sitecustomize.
_WITHOUT_US = frozenset("EIS")
_LAST_OPTIONS, _TAKE_VALUES = frozenset("cm"), frozenset("WX")
_OURS = ("PYTHONPATH", "VTUNE_TRIAL")


class Reach(StrEnum):
    REACHED = "reached"
    NOT_REACHED = "not reached"
    # A shell, a container, another machine, a program that may be anything.
    UNKNOWN = "unknown"


def reach_of_hooks(command: Sequence[str]) -> Reach:
    """Programs that the training itself starts are another matter: those in Python are reached as well, others not."""
    words = list(command)
    if not words:
        return Reach.UNKNOWN
    program, rest = os.path.basename(words[0]), words[1:]
    if is_python(words[0]):
        return _of_python(rest)
    if program in _LAUNCHERS:
        return Reach.UNKNOWN if _ANY_PROGRAM & set(rest) else Reach.REACHED
    if program == "env":
        return _of_env(rest)
    if program in _PREFIXES:
        return _of_next_program(rest)
    if program in _RUNNERS and "run" in rest:
        return _of_next_program(rest[rest.index("run") + 1 :], scripts=program == "uv")
    return Reach.UNKNOWN


def _of_python(words: Sequence[str]) -> Reach:
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if word == "--check-hash-based-pycs":
            waiting = waiting[1:]
            continue
        if not word.startswith("-") or word in ("-", "--"):
            break
        letters = "" if word.startswith("--") else word[1:]
        for at, letter in enumerate(letters):
            if letter in _WITHOUT_US:
                return Reach.NOT_REACHED
            if letter in _LAST_OPTIONS:
                waiting = []
                break
            if letter in _TAKE_VALUES:
                waiting = waiting if letters[at + 1 :] else waiting[1:]
                break
    return Reach.UNKNOWN if _ANY_PROGRAM & set(words) else Reach.REACHED


def _of_env(words: Sequence[str]) -> Reach:
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if word in ("-i", "-", "--ignore-environment"):
            return Reach.NOT_REACHED
        if word in ("-u", "--unset"):
            if waiting and waiting.pop(0) in _OURS:
                return Reach.NOT_REACHED
        elif word in ("-C", "--chdir"):
            waiting = waiting[1:]
        elif word.startswith("-"):
            return Reach.UNKNOWN
        elif "=" in word:
            if word.partition("=")[0] in _OURS:
                return Reach.NOT_REACHED
        else:
            return reach_of_hooks([word, *waiting])
    return Reach.UNKNOWN


def _of_next_program(words: Sequence[str], *, scripts: bool = False) -> Reach:
    """Behind options and values that nobody tells apart: the first word that names a program we know."""
    for at, word in enumerate(words):
        program = os.path.basename(word)
        if is_python(word) or program in _LAUNCHERS or program == "env" or program in _PREFIXES | _RUNNERS:
            return reach_of_hooks(words[at:])
        if program in _SHELLS:
            return Reach.UNKNOWN
        if scripts and (word.endswith(".py") or word in ("-m", "--module")):
            return Reach.REACHED
    return Reach.UNKNOWN
