"""Our wrappers stand on the user's stack; here they are kept out of warnings, tracebacks and compiled code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar

# `warnings.warn(stacklevel=n)` and `logging` do not count frames whose file name holds "importlib" and "_bootstrap",
# and torch.compile does not trace into files that begin with "<frozen importlib". So a warning that torch or a data
# set points at the user's line still points there.
UNSEEN = "<frozen importlib._bootstrap of vtune>"

F = TypeVar("F", bound=Callable[..., Any])

_codes: list[CodeType] = []
_skip: list[Callable[[CodeType], None]] = []


def unseen(function: F) -> F:
    """For every function of ours from which the user's or torch's code is called."""
    assert isinstance(function, FunctionType)
    function.__code__ = function.__code__.replace(co_filename=UNSEEN)
    _codes.append(function.__code__)
    for skip in _skip:
        skip(function.__code__)
    return function


def around(
    original: Callable[..., Any],
    *,
    before: Callable[..., Any] | None = None,
    after: Callable[..., Any] | None = None,
) -> Any:
    """Stands in for `original`; `after` gets the result, what `before` said and the arguments, and gives the result.

    For what is called rarely: on the way of each batch and step it would add two calls.
    """

    @unseen
    @functools.wraps(original)
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        known = before(args, kwargs) if before is not None else None
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            leave_out_of_traceback(error)
            raise
        return result if after is None else after(result, known, args, kwargs)

    return stand_in


def leave_out_of_traceback(error: BaseException) -> None:
    """Called by an unseen function that caught `error` and re-raises it with a bare `raise`.

    A bare `raise` adds no entry of its own, so the traceback reads as without us (from Python 3.11 on; 3.10 restores
    the traceback as it was caught, and shows one line of ours).
    """
    traceback = error.__traceback__
    if traceback is not None and traceback.tb_frame.f_code.co_filename == UNSEEN:
        error.__traceback__ = traceback.tb_next


def skip_in_compiler(skip: Callable[[CodeType], None], modules: list[ModuleType]) -> None:
    """Dynamo would trace into our functions, guard on our counters, and recompile at every step."""
    _skip.append(skip)
    for code in _codes:
        skip(code)
    for module in modules:
        for value in list(vars(module).values()):
            for function in vars(value).values() if isinstance(value, type) else (value,):
                if isinstance(function, FunctionType):
                    for code in _with_inner(function.__code__):
                        skip(code)


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_inner(constant)
