"""Where an iterable data set is: the plain values that its generators hold between two samples."""

from __future__ import annotations

import sys
import zlib
from types import GeneratorType
from typing import Any

from _vtune_hooks.generators import Found, is_generator

MOST_GENERATORS, MOST_VALUES, MOST_TEXT = 12, 32, 300
_PLAIN = (int, str, bytes, float)


def cursor_of(iterator: Any) -> tuple[dict[str, int], list[Found]]:
    """Checksums of the values by their names, and the random generators among them."""
    values: dict[str, int] = {}
    random: list[Found] = []
    waiting: list[Any] = [iterator]
    seen: set[int] = set()
    while waiting and len(seen) < MOST_GENERATORS:
        thing = waiting.pop(0)
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        named = _named_values(thing)
        for name, value in list(named.items())[:MOST_VALUES]:
            at = f"{len(seen)}.{name}"
            if isinstance(value, GeneratorType):
                waiting.append(value)
            elif is_generator(value):
                random.append(Found(name, value, None))
            elif len(values) < MOST_VALUES and _is_plain(value):
                values[at] = zlib.crc32(repr(value)[:MOST_TEXT].encode("utf-8", "replace"))
        if isinstance(thing, GeneratorType):
            if thing.gi_yieldfrom is not None:
                waiting.append(thing.gi_yieldfrom)
            if sys.version_info < (3, 13):
                # A copy that the frame keeps: it would keep a sample alive with it.
                named.clear()
    return values, random


def _named_values(thing: Any) -> dict[str, Any]:
    if isinstance(thing, GeneratorType):
        frame = thing.gi_frame
        return frame.f_locals if frame is not None else {}
    own = getattr(thing, "__dict__", None)
    return dict(own) if isinstance(own, dict) else {}


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return len(value) <= 8 and all(isinstance(part, _PLAIN) for part in value)
    return isinstance(value, _PLAIN)
