"""How much room a disk has."""

from __future__ import annotations

import os
from pathlib import Path


def free_bytes(place: Path) -> int | None:
    """Of the disk that a folder is on, or would be made on."""
    try:
        status = os.statvfs(existing(place))
    except OSError:
        return None
    return status.f_bavail * status.f_frsize


def existing(place: Path) -> Path:
    """The folder itself, or the nearest above it that is there."""
    while not place.exists() and place != place.parent:
        place = place.parent
    return place
