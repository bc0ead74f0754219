"""JSON without the package json: its import is dear at a Python's start, and impossible at its end."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_quoted: Callable[[str], str]
try:
    from _json import encode_basestring_ascii as _quoted
except ImportError:  # another Python than CPython
    from json.encoder import py_encode_basestring_ascii as _quoted


class _Scanning:
    """The settings that the standard library's scanner asks for."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None
    parse_float, parse_int, parse_constant = float, int, float
    memo: dict[str, str] = {}  # noqa: RUF012


def parsed(text: str) -> Any:
    try:
        from _json import make_scanner

        return make_scanner(_Scanning)(text.strip(), 0)[0]  # type: ignore[arg-type]
    except (ImportError, AttributeError, TypeError):
        import json

        return json.loads(text)


def text_of(item: Any) -> str:
    """Of texts, whole numbers, times, lists and mappings with texts for keys."""
    if isinstance(item, str):
        return _quoted(item)
    if item is None:
        return "null"
    if isinstance(item, dict):
        return "{" + ", ".join(f"{_quoted(key)}: {text_of(value)}" for key, value in item.items()) + "}"
    if isinstance(item, (list, tuple)):
        return "[" + ", ".join(map(text_of, item)) + "]"
    return repr(item)
