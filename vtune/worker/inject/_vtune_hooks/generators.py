"""Random generators that a data set draws from, found as attributes, and the state that each is in.

States are read, which changes nothing; no number is drawn.
"""

from __future__ import annotations

import dis
import functools
import linecache
import random
import re
import sys
import zlib
from collections import deque
from collections.abc import Iterator
from itertools import islice
from types import CodeType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

# Of the data set's tree of attributes.
MOST_OBJECTS, MOST_ITEMS, DEEPEST = 400, 64, 6
MOST_GENERATORS = 16
_PLAIN = (str, bytes, bytearray, int, float, bool, complex, type(None), range, slice, ModuleType)
# Of numpy's bit generators: what stays as long as numbers are drawn, and another seed changes.
_STREAM = {"PCG64": "inc", "PCG64DXSM": "inc", "Philox": "key", "MT19937": "key"}
# Their states are a linear sequence: by what each is multiplied before the increment is added (numpy's pcg64.h).
_MULTIPLIER = {"PCG64": 0x2360ED051FC65DA44385DF649FCCF645, "PCG64DXSM": 0xDA942042E4DD58B5}
_BITS = 128
# Checksums of its state, and of the part of it that drawing leaves as it is; how far along that sequence it is.
State = tuple[int, "int | None", "int | None"]


# Its name, what holds it, the thing itself, the attribute or variable that it is, and how deep it lies.
Part = tuple[str, Any, Any, str, int]


class Found:
    """One generator: by what name the data set holds it, and which line puts it there."""

    def __init__(self, name: str, generator: Any, where: str | None) -> None:
        self.name = name
        self.generator = generator
        self.where = where


def generators_of(dataset: Any) -> list[Found]:
    """The process's own three first."""
    found = [Found(name, generator, None) for name, generator in _of_the_process()]
    known = {id(one.generator) for one in found}
    waiting: deque[Part] = deque([("self", None, dataset, "", 0)])
    seen: set[int] = set()
    kinds: set[type] = set()
    while waiting and len(seen) < MOST_OBJECTS and len(found) < MOST_GENERATORS:
        name, owner, thing, attribute, depth = waiting.popleft()
        if isinstance(thing, _PLAIN) or id(thing) in seen:
            continue
        seen.add(id(thing))
        if is_generator(thing):
            if id(thing) not in known:
                known.add(id(thing))
                found.append(Found(name, thing, where_set(owner, attribute)))
        elif depth < DEEPEST:
            waiting.extend(_parts(name, owner, thing, attribute, depth + 1, kinds))
    return found


def is_generator(thing: Any) -> bool:
    if isinstance(thing, random.Random):
        return not isinstance(thing, random.SystemRandom)
    numpy, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    if numpy is not None and isinstance(thing, (numpy.Generator, numpy.RandomState)):
        return True
    return torch is not None and isinstance(thing, torch.Generator) and thing.device.type == "cpu"


def state_of(generator: Any) -> State | None:
    """None where it cannot be read."""
    try:
        if isinstance(generator, random.Random):
            _, words, gauss = generator.getstate()
            whole, own_words = repr((hash(words), gauss)), repr(hash(words[:-1]))
            return zlib.crc32(whole.encode()), zlib.crc32(own_words.encode()), words[-1]
        if hasattr(generator, "initial_seed"):
            state = generator.get_state().numpy().tobytes()
            # Torch's has no jumps: one seed, one sequence.
            return zlib.crc32(state), zlib.crc32(repr(generator.initial_seed()).encode()), 0
        bits = getattr(generator, "bit_generator", None)
        told = bits.state if bits is not None else generator.get_state(legacy=False)
        stream = told["state"].get(_STREAM.get(told["bit_generator"], "")) if isinstance(told["state"], dict) else None
        return _sum(told), None if stream is None else _sum(stream), _place(told)
    except Exception:
        return None


def _place(told: dict[str, Any]) -> int | None:
    """A jump leaves the stream as it is, and goes far along it."""
    kind, state = told["bit_generator"], told["state"]
    if kind == "MT19937":
        return int(state["pos"])
    if kind == "Philox":
        return sum(int(word) << (64 * at) for at, word in enumerate(state["counter"]))
    if kind in _MULTIPLIER:
        return _steps_to(int(state["state"]), _MULTIPLIER[kind], int(state["inc"]))
    return None


def _steps_to(state: int, multiplier: int, increment: int) -> int:
    """From nought: bit by bit, by the sequence's 1, 2, 4, ... steps at once."""
    mask = (1 << _BITS) - 1
    at = steps = 0
    for bit in range(_BITS):
        if (at ^ state) >> bit & 1:
            at = at * multiplier + increment & mask
            steps |= 1 << bit
        increment = (multiplier + 1) * increment & mask
        multiplier = multiplier * multiplier & mask
    return steps


def innermost(dataset: Any) -> Any:
    """The training's own, where torch's classes (a subset, several in a row) are all that is around it."""
    for _ in range(DEEPEST):
        several = getattr(dataset, "datasets", None)
        inner = several[0] if isinstance(several, (list, tuple)) and several else getattr(dataset, "dataset", None)
        if inner is None or type(dataset).__module__.split(".")[0] != "torch":
            break
        dataset = inner
    return dataset


def reading_function(dataset: Any, *, iterable: bool) -> FunctionType | None:
    for name in ("__iter__",) if iterable else ("__getitems__", "__getitem__"):
        function = getattr(type(dataset), name, None)
        if isinstance(function, FunctionType) and not _is_torchs(function):
            return function
    return None


def place_of(function: Any) -> str | None:
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if not isinstance(code, CodeType):
        code = getattr(vars(type(function)).get("__call__"), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if isinstance(code, CodeType) else None


def _of_the_process() -> list[tuple[str, Any]]:
    numpy, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    found = [("random", getattr(random, "_inst", None))]
    found.append(("numpy.random", getattr(getattr(numpy, "mtrand", None), "_rand", None)))
    found.append(("torch", getattr(torch, "default_generator", None)))
    return [(name, generator) for name, generator in found if generator is not None]


def _parts(name: str, owner: Any, thing: Any, attribute: str, depth: int, kinds: set[type]) -> list[Part]:
    if isinstance(thing, dict):
        items = list(islice(thing.items(), MOST_ITEMS))
        words = [repr(key) if type(key) in (str, int) else "..." for key, _ in items]
        return [
            (f"{name}[{word}]", owner, value, attribute, depth) for word, (_, value) in zip(words, items, strict=True)
        ]
    if isinstance(thing, (list, tuple, set, frozenset, deque)):
        # Never all: in a forked worker each item that is touched is copied with its page.
        items = list(islice(thing, MOST_ITEMS))
        return [(f"{name}[{at}]", owner, value, attribute, depth) for at, value in enumerate(items)]
    if isinstance(thing, functools.partial):
        inner = [thing.func, *thing.args, *thing.keywords.values()]
        return [(name, owner, value, attribute, depth) for value in inner]
    if isinstance(thing, MethodType):
        return [(name, owner, thing.__self__, attribute, depth), (name, owner, thing.__func__, attribute, depth)]
    if isinstance(thing, FunctionType):
        return _of_function(name, thing, depth)
    if isinstance(thing, GeneratorType):
        # What a generator function draws from lives in its frame, between two items too.
        inside = {} if thing.gi_frame is None else thing.gi_frame.f_locals
        return [(f"{name}:{word}", thing.gi_code, value, word, depth) for word, value in list(inside.items())]
    if isinstance(thing, type):
        return []
    own = getattr(thing, "__dict__", None)
    found = []
    if isinstance(own, dict):
        found = [(f"{name}.{key}", thing, value, str(key), depth) for key, value in list(own.items())[:MOST_ITEMS]]
    for kind in type(thing).__mro__:
        if kind in kinds or kind.__module__.split(".")[0] in ("torch", "builtins", "typing", "numpy", "abc"):
            continue
        kinds.add(kind)
        for key, value in list(vars(kind).items()):
            function = getattr(value, "__func__", value)
            if isinstance(function, FunctionType):
                found += _of_function(name, function, depth)
            elif not key.startswith("__") and is_generator(value):
                found.append((f"{name}.{key}", thing, value, key, depth))
    return found


def _of_function(name: str, function: FunctionType, depth: int) -> list[Part]:
    """Generators that it closes over, has for defaults, or finds in its module."""
    code, inside = function.__code__, function.__globals__
    found = [
        (word, function, inside[word], word, depth)
        for word in code.co_names
        if word in inside and is_generator(inside[word])
    ]
    for word, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        try:
            found.append((word, function, cell.cell_contents, word, depth))
        except ValueError:  # not filled yet
            continue
    return found + [(name, function, value, "", depth) for value in function.__defaults__ or ()]


def where_set(owner: Any, attribute: str) -> str | None:
    """The line that puts it there."""
    try:
        if isinstance(owner, CodeType):
            return f"{owner.co_filename}:{owner.co_firstlineno}"
        if isinstance(owner, FunctionType):
            return _line_of_name(owner, attribute)
        kinds = type(owner).__mro__
        functions = [value for kind in kinds for value in vars(kind).values() if isinstance(value, FunctionType)]
        functions.sort(key=lambda function: function.__name__ != "__init__")
        stores = [
            (is_none, f"{function.__code__.co_filename}:{line}")
            for function in functions
            if attribute in function.__code__.co_names
            for is_none, line in _stores(function.__code__, attribute)
            if line is not None
        ]
        if stores:
            return min(stores, key=lambda store: store[0])[1]
        return next((place_of(function) for function in functions), None)
    except Exception:
        return None


def _stores(code: CodeType, attribute: str) -> Iterator[tuple[bool, int | None]]:
    """Of each line that sets the attribute, whether it only says that there is none yet."""
    line, before = None, [False, False]
    for instruction in dis.get_instructions(code):
        starts = instruction.starts_line
        if starts is not None and starts is not True and starts is not False:
            line = starts
        line = getattr(instruction, "line_number", None) or line
        if instruction.opname == "STORE_ATTR" and instruction.argval == attribute:
            yield before[0], line
        # The value, then the object that it is stored in.
        before = [before[1], instruction.opname == "LOAD_CONST" and instruction.argval is None]


def _line_of_name(function: FunctionType, name: str) -> str | None:
    file = function.__code__.co_filename
    makes = re.compile(rf"\s*{re.escape(name)}\s*(:[^=]*)?=[^=]")
    for number, line in enumerate(linecache.getlines(file), 1):
        if makes.match(line):
            return f"{file}:{number}"
    return place_of(function)


def _is_torchs(function: FunctionType) -> bool:
    return (function.__module__ or "").split(".")[0] == "torch"


def _sum(told: Any) -> int:
    if hasattr(told, "tobytes"):
        return zlib.crc32(told.tobytes())
    if isinstance(told, dict):
        return zlib.crc32(repr([(key, _sum(value)) for key, value in told.items()]).encode())
    return zlib.crc32(repr(told).encode())
