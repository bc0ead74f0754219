"""How a training writes a knob's value: read as vtune says it, and written again as the training does."""

from __future__ import annotations

import math

from vtune.domain.effects import ConfigValue, Scalar
from vtune.domain.knob import Knob
from vtune.errors import UsageError
from vtune.knobs.settings import FALSE, TRUE, check_value, shown, spelling_of, takes

# Networks halve their input several times; no edge is asked to be rounder than this.
ROUNDEST_EDGE = 16


def read_as(knob: Knob, raw: object) -> Scalar:
    """A value of the training's config; a list of edges or widths is told by one of them."""
    if knob.of_list is None or not isinstance(raw, list):
        return check_value(knob, raw)
    if not raw:
        raise UsageError(f"{knob.name} must be a whole number, got {shown(raw)}", hint=takes(knob))
    parts = [part for part in (check_value(knob, one) for one in raw) if isinstance(part, int)]
    return parts[0] if knob.of_list == "first" else max(parts)


def written_as(knob: Knob, value: Scalar, raw: object) -> ConfigValue:
    """`raw` is what stands there now: "bf16-mixed" for bf16 where it is "32", a list where it is one."""
    if knob.kind == "text":
        return _spelt_as(knob, value, raw)
    if knob.of_list is not None and isinstance(raw, list) and raw and isinstance(value, int):
        return _list_like(raw, value, knob)
    return value


def word_as(knob: Knob, value: Scalar, text: str) -> str:
    """The same for a word of a command."""
    if knob.kind == "bool":
        words = TRUE if text.lower() in TRUE else FALSE
        word = (TRUE if value else FALSE)[words.index(text.lower())]
        return _in_the_case_of(text, word)
    return str(written_as(knob, value, text))


def _spelt_as(knob: Knob, value: Scalar, raw: object) -> Scalar:
    family = spelling_of(knob, raw)
    if family is None or value not in knob.words:
        return value
    spelt = family[knob.words.index(str(value))]
    return _in_the_case_of(raw, spelt) if isinstance(raw, str) and isinstance(spelt, str) else spelt


def _in_the_case_of(text: str, word: str) -> str:
    return word.upper() if text.isupper() else word.title() if text[:1].isupper() else word


def _list_like(raw: list[int], value: int, knob: Knob) -> tuple[int, ...]:
    """In proportion: half the first width halves them all. Edges stay as round as they are, and none grows longer than
    the longest."""
    if knob.of_list == "first":
        return tuple(max(1, _nearest(width * value / raw[0])) for width in raw)
    longest, step = max(raw), math.gcd(ROUNDEST_EDGE, *raw)
    return tuple(
        value if edge == longest else min(value, max(step, step * _nearest(edge * value / longest / step)))
        for edge in raw
    )


def _nearest(number: float) -> int:
    """Halves go up, where round() goes to the even one."""
    return math.floor(number + 0.5)
