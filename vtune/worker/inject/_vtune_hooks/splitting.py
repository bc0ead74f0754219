"""Does the code of an iterable data set say that it splits itself between workers? Only a claim: what its workers
really read decides, and the claim where random augmentation hides that."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from itertools import islice
from types import CodeType, FunctionType, MethodType
from typing import Any

MOST_OBJECTS, MOST_ITEMS, DEEPEST = 200, 32, 4
# Whoever shares out samples by worker needs both: which it is, and of how many.
_ASKS, _COUNTS = "get_worker_info", "num_workers"
# All that a function that only seeds has to name.
_SEEDING = {
    "Generator", "RandomState", "SeedSequence", "abs", "cuda", "data", "default_rng", "get_worker_info", "getpid",
    "hash", "id", "initial_seed", "int", "manual_seed", "manual_seed_all", "np", "numpy", "os", "random", "rng", "seed",
    "seed_all", "seed_everything", "set_determinism", "set_num_threads", "set_seed", "time", "torch", "utils",
}  # fmt: skip


def says_it_splits(dataset: object, worker_init_fn: object = None) -> bool:
    pipe = getattr(sys.modules.get("torch.utils.data.datapipes.datapipe"), "IterDataPipe", None)
    if pipe is not None and isinstance(dataset, pipe):
        return True
    if worker_init_fn is not None and not _only_seeds(worker_init_fn):
        return True
    return any(_shares_out(function) for function in _functions_of(dataset))


def _only_seeds(function: object) -> bool:
    if not isinstance(function, FunctionType):
        return False
    return not function.__closure__ and _names(function.__code__) <= _SEEDING


def _functions_of(dataset: object) -> Iterator[FunctionType]:
    """Of its classes, and of what it is made of: stages of a pipeline, a data set that it wraps."""
    waiting: list[tuple[Any, int]] = [(dataset, 0)]
    seen: set[int] = set()
    kinds: set[type] = set()
    while waiting and len(seen) < MOST_OBJECTS:
        thing, depth = waiting.pop()
        if id(thing) in seen or isinstance(thing, (str, bytes, int, float, type(None))):
            continue
        seen.add(id(thing))
        inner: list[Any] = []
        if isinstance(thing, FunctionType):
            yield thing
            inner = [cell.cell_contents for cell in thing.__closure__ or () if _is_filled(cell)]
        elif isinstance(thing, functools.partial):
            inner = [thing.func, *thing.args, *thing.keywords.values()]
        elif isinstance(thing, MethodType):
            inner = [thing.__func__, thing.__self__]
        elif isinstance(thing, (list, tuple)):
            inner = list(thing[:MOST_ITEMS])
        elif isinstance(thing, dict):
            inner = list(islice(thing.values(), MOST_ITEMS))
        elif not isinstance(thing, type):
            for kind in type(thing).__mro__:
                if kind in kinds or kind.__module__.split(".")[0] in ("torch", "builtins", "typing", "numpy"):
                    continue
                kinds.add(kind)
                functions = (getattr(value, "__func__", value) for value in vars(kind).values())
                yield from (function for function in functions if isinstance(function, FunctionType))
            inner = list(getattr(thing, "__dict__", {}).values())[:MOST_ITEMS]
        if depth < DEEPEST:
            waiting.extend((one, depth + 1) for one in inner)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _shares_out(function: FunctionType) -> bool:
    names = _names(function.__code__)
    called = [function.__globals__.get(name) for name in names]
    # One call further: a helper that asks, or one of a library's.
    for other in called:
        if isinstance(other, FunctionType):
            names |= _names(other.__code__)
    for module in (other for other in called if type(other).__name__ == "module"):
        further = [vars(module).get(name) for name in names]
        for other in further:
            if isinstance(other, FunctionType) and not (other.__module__ or "").startswith("torch"):
                names |= _names(other.__code__)
    return {_ASKS, _COUNTS} <= names


def _names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names
