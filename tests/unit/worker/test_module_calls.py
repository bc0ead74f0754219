"""Who may exchange the method by which modules are called, and what is left of ours when somebody else does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest


class Listening:
    def __init__(self, calls: Any) -> None:
        self.calls = calls
        self.heard: list[str] = []

    def entering(self, module: Any, given: tuple[Any, ...]) -> bool:
        self.heard.append("entering")
        return True

    def left(self) -> None:
        self.heard.append("left")

    def failed(self) -> None:
        self.heard.append("failed")
        self.calls.leave_alone()


@pytest.fixture
def owner() -> type:
    class Module:
        def _call_impl(self, value: int) -> int:
            return 12 // value

        def _wrapped_call_impl(self, value: int) -> int:
            return self._call_impl(value)

        __call__ = _wrapped_call_impl

    return Module


def standing(owner: type) -> Any:
    return vars(owner)["_call_impl"]


@pytest.fixture
def calls(owner: type) -> Any:
    from _vtune_hooks.module_calls import Calls

    return Calls(owner)


def theirs_over(what: Callable[..., int]) -> Callable[..., int]:
    return lambda self, value: what(self, value) + 100


def test_calls_are_heard_while_somebody_listens_and_the_original_stands_after_it(owner: Any, calls: Any) -> None:
    original = standing(owner)
    listening = Listening(calls)
    assert calls.watch(listening) and owner()(3) == 4
    calls.leave_alone()
    assert owner()(3) == 4 and standing(owner) is original
    assert listening.heard == ["entering", "left"] and not calls.is_lost


def test_an_error_is_the_trainings_and_is_told(owner: Any, calls: Any) -> None:
    listening = Listening(calls)
    calls.watch(listening)
    with pytest.raises(ZeroDivisionError):
        owner()(0)
    assert listening.heard == ["entering", "failed"]


def test_somebody_elses_method_is_never_exchanged(owner: Any, calls: Any) -> None:
    theirs = theirs_over(standing(owner))
    owner._call_impl = theirs
    assert not calls.watch(Listening(calls)) and calls.is_lost
    assert standing(owner) is theirs and owner()(3) == 104


def test_ours_beneath_somebody_elses_passes_on_for_ever(owner: Any, calls: Any) -> None:
    listening = Listening(calls)
    calls.watch(listening)
    owner._call_impl = theirs = theirs_over(standing(owner))
    assert owner()(3) == 104
    assert calls.is_lost and standing(owner) is theirs
    assert not calls.watch(listening)
    assert owner()(3) == 104 and standing(owner) is theirs
    assert listening.heard == ["failed"]


def test_ours_put_back_later_gives_its_place_to_the_original(owner: Any, calls: Any) -> None:
    original = standing(owner)
    listening = Listening(calls)
    calls.watch(listening)
    ours = standing(owner)
    calls.leave_alone()
    owner._call_impl = theirs_over(ours)
    owner._call_impl = ours
    assert owner()(3) == 4
    assert standing(owner) is original and calls.is_lost and not calls.watch(listening)
    owner._call_impl = ours
    calls.leave_alone()
    assert standing(owner) is original and listening.heard == []


def test_the_original_put_back_beneath_us_ends_it(owner: Any, calls: Any) -> None:
    original = standing(owner)
    calls.watch(Listening(calls))
    owner._call_impl = original
    calls.leave_alone()
    assert calls.is_lost and standing(owner) is original


def test_other_threads_pass_through_unheard(owner: Any, calls: Any) -> None:
    listening = Listening(calls)
    calls.watch(listening)
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(owner()(3)))
    thread.start()
    thread.join()
    assert found == [4] and listening.heard == [] and not calls.is_lost


def test_before_torch_2_1_it_is_the_call_itself() -> None:
    from _vtune_hooks.module_calls import Calls

    class Module:
        def _call_impl(self, value: int) -> int:
            return value

        __call__ = _call_impl

    calls, listening = Calls(Module), Listening(None)
    assert calls.name == "__call__" and calls.watch(listening) and Module()(3) == 3
    assert listening.heard == ["entering", "left"]


def test_the_first_module_class_is_taken_and_no_later_one(owner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from _vtune_hooks import module_calls

    monkeypatch.setattr(module_calls, "_of_modules", [])
    for module in (SimpleNamespace(Module=owner), SimpleNamespace(Module=type("Module", (), {}))):
        module_calls.placed(module)
    found = module_calls.of_modules()
    assert found is not None and found.owner is owner


def test_who_took_hold_of_ours_to_recognize_the_original_gets_it(owner: Any, calls: Any) -> None:
    original = standing(owner)
    calls.watch(Listening(calls))
    module: Any = SimpleNamespace(unpatched=standing(owner))
    calls.not_known_to(module)
    calls.not_known_to(None)
    assert module.unpatched is original
