"""Which torch a Python has, by its files alone: a config may name any program, and a dry run starts none."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

# torch's own is of 300 bytes.
_MOST_BYTES = 2**16
_WITH_VERSION = re.compile(r"python(3\.\d+)t?")
# A chain of links to a Python is two or three long.
_MOST_LINKS = 10


def package_folders(python: str) -> list[Path]:
    """Where this Python looks for its packages, first come first; empty where its files do not tell."""
    settings = _environment_of(python)
    if settings is None:
        return _of_base(python)
    own = sorted(settings.parent.glob("lib*/python3*/site-packages"))
    told = _settings(settings)
    if told.get("include-system-site-packages", "").lower() == "true" and "home" in told:
        version = ".".join(told.get("version", told.get("version_info", "")).split(".")[:2])
        own += _of_base(os.path.join(told["home"], f"python{version}"))
    return own


def torch_version(packages: Sequence[Path]) -> str | None:
    """As `torch.__version__` has it: torch writes it into a module of plain assignments."""
    file = next((path for one in packages if (path := one / "torch" / "version.py").is_file()), None)
    if file is None:
        return None
    try:
        with open(file, "rb") as opened:
            text = opened.read(_MOST_BYTES + 1)
        body = ast.parse(text).body if len(text) <= _MOST_BYTES else []
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for line in body:
        targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
        value = getattr(line, "value", None)
        if any(isinstance(one, ast.Name) and one.id == "__version__" for one in targets):
            return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None
    return None


def named_folders(env_path: str | None, cwd: Path) -> list[Path]:
    """Those of PYTHONPATH, which come before all others."""
    return [cwd / part for part in (env_path or "").split(os.pathsep) if part]


def _environment_of(python: str) -> Path | None:
    """The pyvenv.cfg of a virtual environment, found beside or above the program, as Python itself looks for it."""
    for path in _links(python):
        for folder in (path.parent, path.parent.parent):
            if (folder / "pyvenv.cfg").is_file():
                return folder / "pyvenv.cfg"
    return None


def _links(python: str) -> Iterator[Path]:
    path = Path(os.path.abspath(python))
    for _ in range(_MOST_LINKS):
        yield path
        if not path.is_symlink():
            return
        path = Path(os.path.normpath(path.parent / os.readlink(path)))


def _settings(file: Path) -> dict[str, str]:
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    pairs = (line.partition("=") for line in text.splitlines())
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _of_base(python: str) -> list[Path]:
    real = os.path.realpath(python)
    found = _WITH_VERSION.fullmatch(os.path.basename(real))
    if found is None or not os.path.isfile(real):
        return []
    name, prefix = f"python{found[1]}", Path(real).parent.parent
    # As a plain Python, Debian's and a user's own `pip install --user` have them.
    folders = [
        Path(os.path.expanduser("~/.local/lib")) / name / "site-packages",
        prefix / "local" / "lib" / name / "dist-packages",
        prefix / "lib" / name / "site-packages",
        prefix / "lib64" / name / "site-packages",
        prefix / "lib" / "python3" / "dist-packages",
    ]
    return [folder for folder in folders if folder.is_dir()]
