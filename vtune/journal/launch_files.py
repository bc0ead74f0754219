"""A launch's own files: what was asked, what happened, and how it stands this moment."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vtune.domain.launch import LaunchEvent, LaunchSpec
from vtune.domain.secrets import MASK, masked_words
from vtune.foreign.read import read_json
from vtune.journal.files import dump_json, to_json
from vtune.journal.paths import LaunchPaths

SCHEMA = 1


def write_launch(launch: LaunchPaths, spec: LaunchSpec) -> None:
    # Nobody starts anything from it again: each attempt's spec.json has the words as they are.
    hidden = {"command": masked_words(spec.command), "env": dict.fromkeys(spec.env, MASK)}
    dump_json(launch.launch, {"schema": SCHEMA, **to_json(spec), **hidden})


def append_event(launch: LaunchPaths, event: LaunchEvent) -> None:
    """On a full disk the run goes on: its events are told on the screen as well."""
    line = json.dumps(to_json(event)).encode() + b"\n"
    with contextlib.suppress(OSError):
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(launch.events, flags, 0o644)
        try:
            os.write(descriptor, line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_state(launch: LaunchPaths, state: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):
        dump_json(launch.state, {"schema": SCHEMA, **state})


def read_object(path: Path) -> dict[str, Any]:
    try:
        item = read_json(path)
    except (OSError, ValueError):
        return {}
    return item if isinstance(item, dict) else {}
