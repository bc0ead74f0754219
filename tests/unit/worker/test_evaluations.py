"""A validation without a loader is looked for only where a pause is due."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

STEP_S, BETWEEN_S = 0.010, 0.0005
MODEL = SimpleNamespace(parameters=lambda: iter([1]))
CRITERION = SimpleNamespace(parameters=lambda: iter([]))


class Training:
    """By a virtual clock; `watched` counts how often the modules' calls were listened to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, can_watch: bool = True) -> None:
        from _vtune_hooks import evaluations, recorder

        self.now, self.grad, self.watched = 0.0, True, 0
        self.told: list[dict[str, Any]] = []
        self.listener: Any = None
        self.can_watch = can_watch
        monkeypatch.setattr(recorder, "fact", lambda name, **told: self.told.append(told))
        monkeypatch.setattr(recorder.here, "light", False)
        monkeypatch.setattr(evaluations.module_calls, "of_modules", lambda: self)
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(is_grad_enabled=lambda: self.grad))  # type: ignore[arg-type]
        self.evaluations = evaluations.Evaluations()

    def watch(self, listener: Any) -> bool:
        self.watched += 1
        self.listener = listener if self.can_watch else None
        return self.can_watch

    def leave_alone(self) -> None:
        self.listener = None

    def calls(self, module: Any, *, grad: bool) -> None:
        self.grad = grad
        if self.listener is not None:
            self.listener.entering(module, ())

    def step(self, *, pause_s: float = 0.0, evaluates: bool = False, batches: int = 1, may_look: bool = True) -> None:
        for _ in range(batches):
            self.evaluations.batch_came(self.now, self.now)
            self.calls(MODEL, grad=True)
            self.now += STEP_S / batches
        self.evaluations.stepped(self.now, may_look=may_look)
        if evaluates:
            self.calls(CRITERION, grad=False)
            for _ in range(3):
                self.calls(MODEL, grad=False)
        self.now += BETWEEN_S + pause_s


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> Training:
    return Training(monkeypatch)


@pytest.mark.parametrize("batches", [1, 2])
def test_three_that_come_every_few_steps_are_shown_and_no_other_step_is_looked_at(
    training: Training, batches: int
) -> None:
    for step in range(200):
        due = step % 15 == 14
        training.step(pause_s=0.2 if due else 0.0, evaluates=due, batches=batches)
    assert training.watched == 3
    # The first two say when the next is due.
    assert [one["ended"] - one["begun"] for one in training.told] == pytest.approx([0.2 + BETWEEN_S] * 3)
    assert training.told[0]["begun"] == pytest.approx(45 * (STEP_S + BETWEEN_S) + 0.4 - BETWEEN_S)
    assert training.evaluations.over and training.listener is None


def test_a_pause_without_a_forward_is_none(training: Training) -> None:
    for step in range(100):
        training.step(pause_s=0.2 if step % 15 == 14 else 0.0)
    assert training.told == [] and training.watched > 0


def test_a_model_that_learns_after_the_step_is_none(training: Training) -> None:
    for step in range(100):
        due = step % 5 == 4
        training.step(pause_s=0.03 if due else 0.0)
        if training.listener is not None:
            training.calls(MODEL, grad=True)
    assert training.told == []


def test_work_after_each_step_is_not_looked_at(training: Training) -> None:
    for _ in range(100):
        training.step(pause_s=0.05, evaluates=True)
    assert training.watched == 0


def test_while_somebody_else_listens_nobody_looks(training: Training) -> None:
    for step in range(100):
        training.step(pause_s=0.2 if step % 10 == 9 else 0.0, evaluates=True, may_look=False)
    assert training.watched == 0


def test_where_the_calls_cannot_be_watched_it_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(monkeypatch, can_watch=False)
    for step in range(100):
        training.step(pause_s=0.2 if step % 10 == 9 else 0.0, evaluates=True)
    assert training.watched == 1 and training.told == []


def test_after_a_thousand_iterations_it_stops_looking(training: Training) -> None:
    for _ in range(1001):
        training.step()
    assert training.evaluations.over
