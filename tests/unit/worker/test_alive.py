"""The signal that is free, and the error that ended a process, with its own place."""

from __future__ import annotations

import signal
import sys
from typing import Any

import pytest


def test_a_signal_that_somebody_handles_is_left_to_them() -> None:
    from _vtune_hooks import alive

    first = alive._free_signal()
    assert first is not None and first >= signal.SIGRTMIN
    before = signal.signal(first, lambda *_: None)
    try:
        second = alive._free_signal()
        assert second is not None and second != first
    finally:
        signal.signal(first, before)


def failing() -> BaseException:
    import json

    try:
        json.loads("{")
    except ValueError as error:
        return error
    raise AssertionError


def test_the_error_that_nobody_caught_is_told_with_the_trainings_own_place(monkeypatch: pytest.MonkeyPatch) -> None:
    from _vtune_hooks import alive, recorder

    told: list[dict[str, Any]] = []
    monkeypatch.setattr(recorder, "fact", lambda name, /, **fields: told.append({"fact": name, **fields}))
    monkeypatch.setattr(recorder.here, "greeted", True)
    monkeypatch.setattr(sys, "last_exc", None, raising=False)
    monkeypatch.setattr(sys, "last_value", None, raising=False)
    alive._tell_what_ended_it()
    assert told == []
    monkeypatch.setattr(sys, "last_value", failing(), raising=False)
    alive._tell_what_ended_it()
    (fact,) = told
    assert fact["type"] == "json.decoder.JSONDecodeError" and fact["text"].startswith("Expecting property name")
    # Not in json's own code, which is where it was raised.
    assert "test_alive.py:" in fact["where"] and fact["where"].endswith(" in failing")


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("/usr/local/lib/python3.10/dist-packages/torch/nn/modules/linear.py", True),
        ("/opt/conda/lib/python3.10/site-packages/torch/nn/modules/linear.py", True),
        ("/home/me/train.py", False),
    ],
)
def test_what_a_distribution_installed_is_a_library_too(file: str, expected: bool) -> None:
    from _vtune_hooks import alive

    assert alive._is_library(file) is expected


def test_an_error_whose_words_cannot_be_made_is_told_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from _vtune_hooks import alive, recorder

    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    told: list[dict[str, Any]] = []
    monkeypatch.setattr(recorder, "fact", lambda name, /, **fields: told.append(fields))
    monkeypatch.setattr(recorder.here, "greeted", True)
    monkeypatch.setattr(sys, "last_exc", None, raising=False)
    monkeypatch.setattr(sys, "last_value", Silent(), raising=False)
    alive._tell_what_ended_it()
    assert told[0]["text"] == "" and told[0]["where"] is None
