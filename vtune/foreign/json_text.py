"""JSON that somebody else may have written."""

from __future__ import annotations

import json
import re
from typing import Any

from vtune.foreign.bounds import MOST_DIGITS, BadText, check_values, too_deep

_LONG = re.compile(rf"[0-9]{{{MOST_DIGITS + 1}}}")
# A text without any of these needs no second look: lone surrogates, integers too long.
_SUSPECT = re.compile(rf"\\u[dD][89a-fA-F]|{_LONG.pattern}")
# So many brackets can nest too deeply; a record of a journal has some hundred, side by side.
_MANY_BRACKETS = 200


def parse_json(text: str, **hooks: Any) -> Any:
    """`hooks`: as json.loads takes them. Raises BadText."""
    try:
        data = json.loads(text, **hooks)
    except json.JSONDecodeError as error:
        raise BadText(
            f"not JSON: {error.msg}",
            hint="correct it there; a reader of JSON such as `python -m json.tool` shows the same place",
            line=error.lineno,
            column=error.colno,
        ) from None
    except RecursionError:
        raise too_deep() from None
    except ValueError as error:
        # Python's own bound on integers, which says nothing of where; or a hook's error.
        raise BadText(
            f"an integer of more than {MOST_DIGITS} digits" if _LONG.search(text) else f"not JSON: {error}",
            hint="write it shorter, or put it in quotes if it is text",
        ) from None
    if _SUSPECT.search(text) or text.count("[") + text.count("{") > _MANY_BRACKETS:
        check_values(data)
    return data
