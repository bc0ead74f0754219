"""What was computed once and is the same each time: a line of JSON each, in a folder outside of the repository."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
IMPORTED = re.compile(r"^\s*(?:from|import) (vtune[\w.]*)", re.MULTILINE)


def default_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "vtune-benchmarks" / "search"


def code_hash(modules: Iterable[str], *besides: str, stages: Iterable[str] = ("",)) -> str:
    """Of these modules of vtune and of all that they rest on, in these stages: no other change counts."""
    digest = hashlib.sha256("\0".join(besides).encode())
    for path in sorted(closure(modules)):
        if any(path.is_relative_to(ROOT / "vtune" / stage) for stage in stages):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def own_code(*names: str) -> str:
    """Of this benchmark's own files."""
    return "".join((Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8") for name in names)


def closure(modules: Iterable[str]) -> set[Path]:
    found: set[Path] = set()
    left = [_path(module) for module in modules]
    while left:
        path = left.pop()
        if path is not None and path not in found:
            found.add(path)
            left += [_path(module) for module in IMPORTED.findall(path.read_text(encoding="utf-8"))]
    return found


def _path(module: str) -> Path | None:
    path = ROOT / (module.replace(".", "/") + ".py")
    return path if path.exists() else None


class Lines:
    """Keys and values. Who is killed while it writes leaves half a line, which is passed over; two that write at once
    write whole lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[str, str] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                key, tab, value = line.partition("\t")
                if tab and value.endswith(("}", "null")):
                    self._found[key] = value

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, key: str) -> bool:
        return key in self._found

    def get(self, key: str) -> Any:
        value = self._found.get(key)
        return None if value is None else json.loads(value)

    def put(self, key: str, value: Any) -> None:
        text = json.dumps(value, separators=(",", ":"))
        self._found[key] = text
        begin = "\n" if self._ends_in_half_a_line() else ""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{begin}{key}\t{text}\n")

    def _ends_in_half_a_line(self) -> bool:
        try:
            with self._path.open("rb") as file:
                file.seek(-1, os.SEEK_END)
                return file.read(1) != b"\n"
        except OSError:
            return False
