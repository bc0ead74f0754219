"""JSON that reads the same everywhere."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vtune.files import write_atomically
from vtune.foreign.json_text import parse_json


def to_json(value: Any) -> Any:
    """Plain JSON types. Non-finite numbers become null: they are not JSON, and they mean that nothing is known."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def dump_json(path: Path, value: Any) -> None:
    write_atomically(path, json.dumps(to_json(value), indent=1) + "\n")


def complete_lines(text: bytes) -> list[dict[str, Any]]:
    """The JSON objects of whole lines; a torn or foreign line is dropped, never fatal."""
    found = []
    for line in text.split(b"\n")[:-1]:
        try:
            item = parse_json(line.decode("utf-8"))
        except ValueError:
            continue
        if isinstance(item, dict):
            found.append(item)
    return found
