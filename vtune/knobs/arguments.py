"""The words of a training's command, by name, and which of them are the training's own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# Of these only the script behind them says what is trained.
LAUNCHER_MODULES = frozenset(
    (
        "torch.distributed.run",
        "torch.distributed.launch",
        "accelerate.commands.launch",
        "accelerate.commands.accelerate_cli",
        "deepspeed.launcher.runner",
    )
)
FLAG = re.compile(r"--?(?P<name>[A-Za-z][\w.-]+)(?P<value>=.*)?", re.DOTALL)
OVERRIDE = re.compile(r"\+{0,2}(?P<name>[A-Za-z_][\w.]*)=(?P<value>.*)", re.DOTALL)
_PYTHON = re.compile(r"\{python\}|(?:python|pypy)[0-9.]*t?(?:\.exe)?")
_PYTHON_TAKES_VALUE = frozenset(("-W", "-X", "--check-hash-based-pycs"))
_ENV_TAKES_VALUE = frozenset(("-u", "--unset", "-C", "--chdir", "-a", "--argv0"))
_SHELLS = frozenset(("sh", "bash", "zsh", "dash", "ksh", "fish"))
# They start Python on the script or module behind their own words.
_LAUNCHERS = frozenset(("torchrun", "accelerate", "deepspeed", "horovodrun", "coverage", "debugpy", "ipython"))
# They start the program behind their own words, which is the next word where that is no option.
_RUNNERS = frozenset(("uv", "poetry", "pipenv", "pixi", "pdm", "hatch", "rye", "conda", "mamba", "micromamba"))
_PREFIXES = _RUNNERS | frozenset(
    ("time", "nice", "ionice", "nohup", "setsid", "stdbuf", "timeout", "taskset", "numactl", "chrt", "sudo", "exec",
     "srun", "mpirun", "mpiexec", "xvfb-run", "docker", "podman", "singularity", "apptainer", "ssh", "kubectl", "nsys",
     "ncu", "py-spy", "strace", "perf")
)  # fmt: skip
# Their words are jobs and variables of their own recipes.
_RECIPES = frozenset(("make", "gmake", "ninja", "just", "task", "invoke", "nox", "tox", "snakemake", "dvc", "bazel"))


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


@dataclass(frozen=True, slots=True)
class Runs:
    """Where the words of what a command runs begin."""

    start: int
    # A Python script, module or -c: its letters are its own.
    python: bool = False
    # A program whose own words nobody can tell from those of what it starts.
    behind: str | None = None


def named_arguments(command: Sequence[str]) -> Iterator[Argument]:
    for position in range(1, len(command)):
        word = command[position]
        flag = FLAG.fullmatch(word)
        override = None if flag else OVERRIDE.fullmatch(word)
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
    """Where the training's own words stand, behind its script, module or program, and whether Python runs it:
    what comes before is the launcher's or the interpreter's, what follows a bare -- is no option."""
    runs = what_runs(command)
    end = next((at for at in range(runs.start, len(command)) if command[at] == "--"), len(command))
    return range(runs.start, end), runs.python


def plain_name(name: str) -> str:
    return name.replace("-", "_")


def is_script(word: str) -> bool:
    return word.endswith(".py") and not word.startswith("-") and "=" not in word


def what_runs(command: Sequence[str]) -> Runs:
    at = 0
    while at < len(command):
        word, program = command[at], os.path.basename(command[at])
        if is_script(word):
            return Runs(at + 1, python=True)
        if _PYTHON.fullmatch(program):
            return _run_by_python(command, at)
        if program in _SHELLS:
            return _run_by_shell(command, at)
        if program in _LAUNCHERS:
            return _launched(command, at)
        if program == "env":
            at = _behind_env(command, at)
        elif program in _PREFIXES:
            following = _behind_prefix(command, at)
            if following is None:
                return Runs(at + 1, behind=program)
            at = following
        elif program in _RECIPES:
            return Runs(at + 1, behind=program)
        else:
            script = _script_ahead(command, at)
            return Runs(at + 1 if script is None else script + 1)
    return Runs(len(command))


def _run_by_python(command: Sequence[str], python: int) -> Runs:
    at = python + 1
    while at < len(command):
        word = command[at]
        if word == "-m" and at + 1 < len(command):
            return _launched(command, at + 1) if command[at + 1] in LAUNCHER_MODULES else Runs(at + 2, python=True)
        if re.fullmatch(r"-m[A-Za-z_][\w.]*", word):
            return _launched(command, at) if word[2:] in LAUNCHER_MODULES else Runs(at + 1, python=True)
        if word == "-c":
            return Runs(min(at + 2, len(command)), python=True)
        if word == "-" or not word.startswith("-"):
            return Runs(at + 1, python=True)
        at += 2 if word in _PYTHON_TAKES_VALUE else 1
    return Runs(len(command))


def _launched(command: Sequence[str], launcher: int) -> Runs:
    for at in range(launcher + 1, len(command)):
        if is_script(command[at]):
            return Runs(at + 1, python=True)
        if command[at] in ("-m", "--module") and at + 1 < len(command) and not command[at + 1].startswith("-"):
            return Runs(at + 2, python=True)
    return Runs(launcher + 1, behind=os.path.basename(command[launcher]).removeprefix("-m"))


def _run_by_shell(command: Sequence[str], shell: int) -> Runs:
    """Behind -c stand the words of a program that is text, and they may mean anything."""
    for at in range(shell + 1, len(command)):
        if re.fullmatch(r"-[a-z]*c", command[at]):
            break
        if not command[at].startswith("-"):
            return Runs(at + 1)
    return Runs(len(command))


def _behind_env(command: Sequence[str], env: int) -> int:
    at = env + 1
    while at < len(command) and (command[at].startswith("-") or "=" in command[at]):
        at += 2 if command[at] in _ENV_TAKES_VALUE else 1
    return at


def _behind_prefix(command: Sequence[str], prefix: int) -> int | None:
    at = prefix + 1
    if os.path.basename(command[prefix]) in _RUNNERS and at < len(command) and command[at] == "run":
        at += 1
    if at < len(command) and command[at] == "--":
        at += 1
    # An option, a duration or a mask is not yet the program.
    if at < len(command) and re.match(r"[A-Za-z_./{]", command[at]) and "=" not in command[at]:
        return at
    return next((ahead for ahead in range(at, len(command)) if _starts_python(command[ahead])), None)


def _starts_python(word: str) -> bool:
    program = os.path.basename(word)
    return is_script(word) or program in _LAUNCHERS or _PYTHON.fullmatch(program) is not None


def _script_ahead(command: Sequence[str], program: int) -> int | None:
    """Of an unknown program, which may be a launcher. Behind a flag it is a value, such as a config."""
    for at in range(program + 1, len(command)):
        if is_script(command[at]) and not (command[at - 1].startswith("-") and "=" not in command[at - 1]):
            return at
    return None
