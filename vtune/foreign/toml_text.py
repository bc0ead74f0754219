"""TOML that somebody else may have written."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from vtune.foreign.bounds import DEEPEST, IN_REASON, BadText, check_values, too_deep

MOST_BYTES = 4 * 1024 * 1024
# The parser's time and memory grow with the square of a key's parts: 100 KB of `a.a.a…` take 8 GB.
_PART = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![A-Za-z0-9_-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{DEEPEST},}}")
_AT = re.compile(r"\s*\(at line (\d+), column (\d+)\)$")


def parse_toml(text: str) -> dict[str, Any]:
    """Raises BadText."""
    if len(text) > MOST_BYTES:
        raise BadText(f"is larger than {MOST_BYTES // 1024**2} MiB", hint=IN_REASON)
    long = _LONG_KEY.search(text)
    if long is not None:
        before = text[: long.start()].split("\n")
        message = f"a key of more than {DEEPEST} parts"
        raise BadText(message, hint=IN_REASON, line=len(before), column=len(before[-1]) + 1)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = _AT.search(str(error))
        said = str(error) if at is None else str(error)[: at.start()]
        line = int(at[1]) if at is not None else None
        column = int(at[2]) if at is not None else None
        hint = "correct it there; texts need quotes, and each key stands once"
        raise BadText(f"not TOML: {said}", hint=hint, line=line, column=column) from None
    except RecursionError:
        raise too_deep() from None
    except ValueError as error:
        raise BadText(f"not TOML: {str(error).partition(';')[0]}", hint="write shorter numbers") from None
    check_values(data)
    return data
