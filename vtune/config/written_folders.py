"""The folders that a training may write to: its working folder, its named outputs, and those the user names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vtune.config.output import INPUT_SECTIONS, OUTPUT_NAMES, output_folders
from vtune.domain.experiment import Workload
from vtune.knobs.arguments import is_script
from vtune.knobs.doubts import sure_arguments

# A key or flag with one of these words says where something is written: save_path, --out, ckptFile.
_WORDS = frozenset((
    "checkpoint", "checkpoints", "ckpt", "ckpts", "dump", "export", "log", "logs", "out", "output", "outputs",
    "result", "results", "run", "runs", "save", "saved", "snapshot", "snapshots", "tensorboard", "workdir",
))  # fmt: skip
# Links are looked for among so many entries: a working folder may hold a data set of millions of files.
MOST_ENTRIES = 20_000
# No output that is only guessed is below these. A working folder may be: /usr/src/app, /run/media/me/disk.
_SYSTEM = frozenset(("bin", "boot", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys", "usr"))
_NO_FILES = frozenset(("dev", "proc", "sys"))
_NOT_LOOKED_INTO = frozenset((".git", ".venv", "venv", "__pycache__", "node_modules"))
# Of an output that is not there yet the folder above is taken, but not `/data`, which holds everything of everybody.
_LEAST_PARTS = 3


def written_folders(workload: Workload, protect: Sequence[Path] = ()) -> tuple[Path, ...]:
    """Real paths, none inside another."""
    named = [*output_folders(workload), *(workload.cwd / text for text in _named_outputs(workload))]
    sure = [folder for path in (*protect, workload.cwd) if (folder := _existing(path, is_sure=True)) is not None]
    found = [folder for path in (*named, *_scripts(workload)) if (folder := _existing(path)) is not None]
    roots = list(_outermost([*sure, *_writable_below(workload.cwd), *found]))
    for root in roots:  # it grows: a link may lead to a folder with links
        roots += [folder for folder in dict.fromkeys(_linked_from(root)) if not _is_within(folder, roots)]
    return _outermost(roots)


def can_be_protected(folder: Path) -> bool:
    return _existing(folder, is_sure=True) is not None


def _scripts(workload: Workload) -> Iterator[Path]:
    """A script often writes beside itself."""
    script = next((word for word in workload.command if is_script(word)), None)
    if script is not None and "site-packages" not in script:
        yield (workload.cwd / script).parent


def _writable_below(cwd: Path) -> Iterator[Path]:
    """Where the working folder itself cannot be written, folders in it may be."""
    top = Path(os.path.realpath(cwd))
    if len(top.parts) < 2 or os.access(top, os.W_OK):
        return
    waiting, seen = [top], 0
    while waiting and seen < MOST_ENTRIES:
        for entry in _entries(waiting.pop(0)):
            seen += 1
            if not entry.is_dir(follow_symlinks=False) or entry.name in _NOT_LOOKED_INTO:
                continue
            if os.access(entry.path, os.W_OK):
                yield Path(entry.path)
            else:
                waiting.append(Path(entry.path))


def _existing(path: Path, *, is_sure: bool = False) -> Path | None:
    """The folder itself, or the nearest one above it that is there and deep enough to be somebody's own."""
    try:
        folder = Path(os.path.realpath(path))
        is_there = folder.exists()
        while not folder.is_dir():
            folder = folder.parent
    except (OSError, ValueError):
        return None
    least = 2 if is_there else _LEAST_PARTS
    return folder if len(folder.parts) >= least and _may_be_written(folder, is_sure=is_sure) else None


def _is_within(folder: Path, roots: Sequence[Path]) -> bool:
    return any(folder.is_relative_to(root) for root in roots)


def _may_be_written(folder: Path, *, is_sure: bool = False) -> bool:
    left_out = _NO_FILES if is_sure else _SYSTEM
    return len(folder.parts) > 1 and folder.parts[1] not in left_out and os.access(folder, os.W_OK)


def _outermost(folders: Sequence[Path]) -> tuple[Path, ...]:
    unique = dict.fromkeys(folders)
    return tuple(one for one in unique if not any(one != other and one.is_relative_to(other) for other in unique))


def _named_outputs(workload: Workload) -> Iterator[str]:
    yield from _values(workload.config or {})
    for argument in sure_arguments(workload.command):
        if argument.value and _says_output(argument.name) and "{config}" not in argument.value:
            yield argument.value


def _values(config: Mapping[Any, Any]) -> Iterator[str]:
    for key, value in config.items():
        if isinstance(value, Mapping):
            if str(key).lower() not in INPUT_SECTIONS:
                yield from _values(value)
        elif isinstance(value, str) and _says_output(str(key)) and _is_path(value):
            yield value


def _says_output(name: str) -> bool:
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().replace("-", "_")
    return plain.rpartition(".")[2] in OUTPUT_NAMES or not _WORDS.isdisjoint(re.split(r"[_.]", plain))


def _is_path(value: str) -> bool:
    return bool(value.strip()) and "://" not in value and "\0" not in value


def _linked_from(root: Path) -> Iterator[Path]:
    """Folders outside that a link in here leads to; of a link to a file, the folder that holds it."""
    waiting, seen = [root], 0
    while waiting:
        for entry in _entries(waiting.pop(0)):
            seen += 1
            if seen > MOST_ENTRIES:
                return
            if entry.is_symlink():
                target = Path(os.path.realpath(entry.path))
                folder = target if target.is_dir() else target.parent
                if target.exists() and not target.is_relative_to(root) and _may_be_written(folder):
                    yield folder
            elif entry.is_dir(follow_symlinks=False) and entry.name not in _NOT_LOOKED_INTO:
                waiting.append(Path(entry.path))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
