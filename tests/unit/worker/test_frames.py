from __future__ import annotations

import sys
import traceback
import warnings
from typing import Any

import pytest


def original(value: int) -> int:
    warnings.warn("look at the caller", stacklevel=2)
    return 1 // value


@pytest.fixture
def wrapped() -> Any:
    from _vtune_hooks.frames import leave_out_of_traceback, unseen

    @unseen
    def wrapper(*args: Any, **kwargs: Any) -> int:
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            leave_out_of_traceback(error)
            raise
        finally:
            str(args)

    return wrapper


def test_a_warning_points_at_the_line_that_called_the_wrapper(wrapped: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        wrapped(1)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(("kwargs", "deepest"), [({"value": 0}, "original"), ({"wrong": 0}, None)])
@pytest.mark.skipif(sys.version_info < (3, 11), reason="3.10 restores the traceback as it was caught")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_traceback_does_not_show_the_wrapper(wrapped: Any, kwargs: Any, deepest: str | None) -> None:
    with pytest.raises((ZeroDivisionError, TypeError)) as caught:
        wrapped(**kwargs)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names == [
        "test_a_traceback_does_not_show_the_wrapper",
        *([deepest] if deepest is not None else []),
    ]


def test_a_compiler_is_told_to_skip_functions_wrapped_before_and_after_it_was_imported(
    wrapped: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from _vtune_hooks import frames, recorder

    monkeypatch.setattr(frames, "_skip", [])
    skipped: list[Any] = []
    frames.skip_in_compiler(skipped.append, [recorder])

    @frames.unseen
    def later() -> None:
        pass

    assert wrapped.__code__ in skipped
    assert recorder.record.__code__ in skipped
    assert recorder.Process.__init__.__code__ in skipped
    assert later.__code__ in skipped
