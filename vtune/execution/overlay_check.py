"""Tries the overlays of a trial before the first one starts; a process of its own, which ends in their namespace.

Answers with one JSON object: folder → why it cannot be covered.
"""

from __future__ import annotations

import json
import sys

from vtune.execution.overlay import failures, read_protection


def main() -> None:
    place = sys.argv[2]
    json.dump(failures(read_protection(place), place), sys.stdout)
