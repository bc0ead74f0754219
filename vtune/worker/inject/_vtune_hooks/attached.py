"""Something of ours for an object of the user's: kept neither alive nor touched, and never mistaken for a later one."""

from __future__ import annotations

import weakref
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class Attached(Generic[V]):
    """By identity, not by `==` or hash: both may be the user's code. An id is only trusted while its object lives."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[Any], V]] = {}

    def get(self, thing: object) -> V | None:
        entry = self._entries.get(id(thing))
        return entry[1] if entry is not None and entry[0]() is thing else None

    def set(self, thing: object, value: V) -> None:
        key = id(thing)
        entries = self._entries

        def forget(dead: weakref.ref[Any]) -> None:
            entry = entries.get(key)
            if entry is not None and entry[0] is dead:
                del entries[key]

        entries[key] = (weakref.ref(thing, forget), value)

    def values(self) -> list[V]:
        return [value for thing, value in list(self._entries.values()) if thing() is not None]
