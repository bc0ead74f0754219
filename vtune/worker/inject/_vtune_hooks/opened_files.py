"""Inside a loader's worker: how many files its Python code opens.

An audit hook would see every way of opening, but it is called for each `id()`, too, of which `copy.deepcopy` makes
several an object: light samples with copied annotations took an eighth longer. What stands in for `open` costs 0.3 µs a
file and nothing else. It misses what C code opens by itself, `os.open`, and modules that took hold of `open` before.
"""

from __future__ import annotations

import builtins
import io
import itertools
from typing import Any

from _vtune_hooks.frames import leave_out_of_traceback, unseen

# Taking the next number is one step that no other thread can divide.
_numbers = itertools.count()


def opened_since(mark: int) -> int:
    # Each look takes a number, too.
    return next(_numbers) - mark - 1


def mark() -> int:
    return next(_numbers)


def listen() -> None:
    """For the rest of this process' life."""
    original: Any = builtins.open
    if isinstance(original, Open):  # a loader inside a worker of another one, forked from it
        return
    standing_in: Any = Open(original)
    builtins.open = standing_in
    # One that the training put in the place of `open` may call the other.
    if io.open is original:
        io.open = standing_in


class Open:
    """Looks like what it stands for, and unlike a function it does not become a method in somebody's class."""

    def __init__(self, original: Any) -> None:
        self.__wrapped__ = original
        self.__doc__ = getattr(original, "__doc__", None)
        self.__module__ = getattr(original, "__module__", "builtins")

    @unseen
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # A number is a file that is open already.
        if not args or type(args[0]) is not int:
            next(_numbers)
        try:
            return self.__wrapped__(*args, **kwargs)
        except BaseException as error:
            leave_out_of_traceback(error)
            raise

    def __getattr__(self, name: str) -> Any:
        if name == "__wrapped__":  # not yet there
            raise AttributeError(name)
        return getattr(self.__wrapped__, name)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def __reduce__(self) -> str:
        # Pickled by its name, as every function is.
        return "open"
