"""What a loader's workers are forked with: memory of this process that copies on write can double in each of them.

Imports of large libraries are measured as they run, to be left out: `install` watches those that it names.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from _vtune_hooks import own_memory

# What large libraries took: mostly never written again, and no part of the training's data. How deep an import of one
# is nested, what was held when the outermost began, and what all of them took on top of what there was before.
_depth = [0]
_begun: list[int | None] = [None]
_taken: list[int | None] = [None]


def placed(module: ModuleType) -> None:
    """Of a library that is watched for its size alone, which import_begins and import_ends have taken already."""


def import_begins() -> None:
    _depth[0] += 1
    if _depth[0] == 1:
        _begun[0] = own_memory.held_bytes()
        if _taken[0] is None:
            _taken[0] = _begun[0]


def import_ends() -> None:
    _depth[0] -= 1
    if _depth[0] == 0 and _begun[0] is not None and _taken[0] is not None:
        _taken[0] += max(0, (own_memory.held_bytes() or 0) - _begun[0])


def before_workers() -> dict[str, Any]:
    """Of a pass that is about to start its workers."""
    return {"held": own_memory.held_bytes(), "held_by_imports": _taken[0]}
