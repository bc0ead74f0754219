"""Whole numbers that a data set keeps between its samples: counters, and the states of generators made by hand.

They are read, and none of the user's code is called.
"""

from __future__ import annotations

import ast
import dis
import inspect
import sys
import textwrap
import zlib
from types import CodeType, FunctionType
from typing import Any

from _vtune_hooks import content

MOST_NUMBERS, MOST_OBJECTS, SMALL, DEEPEST = 64, 32, 8, 2
# JSON readers take integers of any length, but nobody needs them.
MOST_BITS = 256
_LIBRARIES = ("builtins", "numpy", "torch", "random", "collections")


class Number:
    def __init__(self, value: int, owner: Any, attribute: str) -> None:
        self.value = value
        self.owner = owner
        self.attribute = attribute


def numbers_of(dataset: Any) -> dict[str, Number]:
    """By their names: self.at, self.state[0], self.noise.seed."""
    found: dict[str, Number] = {}
    waiting = [("self", dataset, 0)]
    seen: set[int] = set()
    while waiting and len(seen) < MOST_OBJECTS:
        name, thing, depth = waiting.pop(0)
        own = getattr(thing, "__dict__", None)
        if id(thing) in seen or not isinstance(own, dict):
            continue
        seen.add(id(thing))
        for attribute, value in list(own.items())[:MOST_NUMBERS]:
            whole = f"{name}.{attribute}"
            for place, number in _whole_numbers(value):
                if len(found) < MOST_NUMBERS:
                    found[whole + place] = Number(number, thing, attribute)
            if depth < DEEPEST and type(value).__module__.split(".")[0] not in _LIBRARIES:
                waiting.append((whole, value, depth + 1))
    return found


def walked_by(dataset: Any, reading: FunctionType | None, names: list[str]) -> dict[str, int]:
    """The counters among them that choose the next record, whatever the index: each with a checksum of the sequence
    that it walks along. Only where the code says so: it never reads its index, and looks a record up at the counter."""
    if reading is None or _reads_its_index(reading.__code__):
        return {}
    tree = _tree_of(reading)
    if tree is None:
        return {}
    found = {}
    for attribute in {name.partition("self.")[2] for name in names}:
        walked = _looked_up_at(tree, attribute) if attribute.isidentifier() else ()
        held = [vars(dataset)[name] for name in sorted(walked) if name in vars(dataset)]
        if held:
            # Each by itself: of a long list only the first items are summed.
            sums = [content.sums_of(part)[0] for part in held]
            found[f"self.{attribute}"] = zlib.crc32(repr(sums).encode())
    return found


def _whole_numbers(value: Any) -> list[tuple[str, int]]:
    if type(value) is int:
        return [("", value)] if value.bit_length() <= MOST_BITS else []
    if type(value) in (list, tuple):
        # A long one is data.
        if len(value) > SMALL:
            return []
        return [(f"[{at}]", one) for at, one in enumerate(value) if type(one) is int and one.bit_length() <= MOST_BITS]
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, (numpy.ndarray, numpy.integer)) or value.dtype.kind not in "iu":
        return []
    if value.ndim == 0:
        return [("", int(value))]
    return [(f"[{at}]", int(one)) for at, one in enumerate(value.reshape(-1))] if value.size <= SMALL else []


def _reads_its_index(code: CodeType) -> bool:
    """Its second argument, after self."""
    if code.co_argcount < 2:
        return True
    index = code.co_varnames[1]
    if index in code.co_cellvars:
        return True
    for instruction in dis.get_instructions(code):
        named = instruction.argval
        if instruction.opname.startswith("LOAD_") and (named == index or (type(named) is tuple and index in named)):
            return True
    return False


def _tree_of(function: FunctionType) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None


def _looked_up_at(tree: ast.AST, attribute: str) -> set[str]:
    """Attributes of the data set that are looked up at a place which this one makes, at once or by way of variables."""
    local = set[str]()
    while True:
        by_it = {
            target.id
            for one in ast.walk(tree)
            if isinstance(one, ast.Assign) and _mentions(one.value, attribute, local)
            for target in one.targets
            if isinstance(target, ast.Name)
        }
        if by_it <= local:
            break
        local |= by_it
    return {
        held
        for one in ast.walk(tree)
        if isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Load) and _mentions(one.slice, attribute, local)
        for part in ast.walk(one.value)
        if (held := _own_name(part)) is not None
    }


def _mentions(tree: ast.AST, attribute: str, local: set[str]) -> bool:
    return any(_own_name(one) == attribute or (isinstance(one, ast.Name) and one.id in local) for one in ast.walk(tree))


def _own_name(one: ast.AST) -> str | None:
    """The name in self.name; the first argument may have another name, so any variable counts."""
    return one.attr if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) else None
