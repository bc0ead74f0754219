"""Which part of a step is the models' computing, where several of them take part."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

NAMES = ("begin", "transfer", "forward", "loss", "backward", "step")


class Model:
    """As torch's modules look from outside."""

    def __init__(self, *, learns: bool = True, empty: bool = False) -> None:
        self._modules: dict[str, Any] = {"a": None}
        self._parameters = [] if empty else [SimpleNamespace(requires_grad=learns)]

    def parameters(self) -> Any:
        return iter(self._parameters)


class Rows:
    def __init__(self, rows: int) -> None:
        self._shape = (rows, 3)

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape


class Training:
    """One iteration by a virtual clock, told to the hooks as the training's calls would."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from _vtune_hooks import module_calls, recorder, stages

        self.now, self.grad = 0.0, True
        self.records: list[tuple[str, float]] = []
        self.facts: list[tuple[str, dict[str, Any]]] = []
        calls = SimpleNamespace(watch=lambda _: True, leave_alone=lambda: None, is_lost=False, name="_call_impl")
        monkeypatch.setattr(stages, "_now", lambda: self.now)
        monkeypatch.setattr(stages.precision, "tell", lambda *_: None)
        monkeypatch.setattr(module_calls, "of_modules", lambda: calls)
        monkeypatch.setattr(recorder, "record", lambda *one: self.records.append((NAMES[one[3]], one[5])))
        monkeypatch.setattr(recorder, "fact", lambda name, **told: self.facts.append((name, told)))
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(is_grad_enabled=lambda: self.grad))  # type: ignore[arg-type]
        self.stages = stages.Stages()
        self.stages.begin(None)

    def works(self, seconds: float) -> None:
        self.now += seconds

    def forward(self, model: Model, seconds: float, *given: Any) -> None:
        told = self.stages.open and self.stages.entering(model, given)
        self.now += seconds
        if told:
            self.stages.left()

    def backward(self, seconds: float) -> None:
        if self.stages.open:
            self.stages.backward_begins()
        self.now += seconds
        if self.stages.open:
            self.stages.backward_ended()

    def step(self, *, is_last: bool) -> None:
        self.now += 1.0
        if self.stages.open:
            self.stages.stepped(5, is_last=is_last, with_closure=False)

    def over(self) -> dict[str, float]:
        """Seconds by stage."""
        if self.stages.open:
            self.stages.iteration_is_over()
        self.stages.poll(self.now)
        return sums(self.records)


def sums(records: Sequence[tuple[str, float]]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for (_, before), (stage, at) in pairwise(records):
        found[stage] += at - before
    return {stage: seconds for stage, seconds in found.items() if seconds}


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> Training:
    return Training(monkeypatch)


def test_one_model_has_its_way_through_the_stages(training: Training) -> None:
    training.works(2)
    training.forward(Model(), 10)
    training.works(3)
    training.backward(20)
    training.step(is_last=True)
    assert training.over() == {"transfer": 2, "forward": 10, "loss": 3, "backward": 20, "step": 1}


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("learns", [True, False])
def test_a_generator_between_the_discriminators_passes_computes_whatever_it_learns(
    training: Training, grad: bool, learns: bool
) -> None:
    generator, discriminator = Model(learns=learns), Model()
    training.works(1)
    training.forward(discriminator, 5)
    training.backward(5)
    training.grad = grad
    training.works(2)
    training.forward(generator, 50)
    training.grad = True
    training.forward(discriminator, 5)
    training.backward(5)
    training.step(is_last=True)
    assert training.over() == {"transfer": 1, "forward": 60, "loss": 2, "backward": 10, "step": 1}


def test_a_frozen_network_in_the_loss_computes_and_a_loss_without_parameters_does_not(training: Training) -> None:
    training.forward(Model(), 10)
    training.works(1)
    training.forward(Model(learns=False), 30)
    training.forward(Model(empty=True), 4)
    training.backward(10)
    training.step(is_last=True)
    assert training.over() == {"forward": 40, "loss": 5, "backward": 10, "step": 1}


def test_a_model_that_learns_more_seldom_computes_after_the_step_that_ends_the_others(training: Training) -> None:
    training.forward(Model(), 5)
    training.backward(5)
    training.step(is_last=True)
    training.works(2)
    training.forward(Model(), 50)
    training.backward(40)
    training.step(is_last=False)
    training.works(7)
    assert training.over() == {"forward": 55, "backward": 45, "loss": 2, "step": 2}


def test_what_fits_no_picture_after_the_step_takes_nothing_from_it(training: Training) -> None:
    training.forward(Model(), 5)
    training.backward(5)
    training.step(is_last=True)
    training.forward(Model(), 3)
    training.stages.failed()
    assert training.over() == {"forward": 5, "backward": 5, "step": 1}
    assert training.stages.taken == 1 and training.stages.spoiled == 0


def test_an_iteration_that_ends_with_another_optimizer_is_no_sample(training: Training) -> None:
    training.forward(Model(), 5)
    training.backward(5)
    training.step(is_last=False)
    assert training.over() == {} and training.stages.spoiled == 1


def test_the_rows_that_models_learn_from_are_told_for_the_whole_iteration(training: Training) -> None:
    """A batch that leads to nothing comes first; a second one begins the same step anew."""
    model, other, teacher = Model(), Model(), Model(learns=False)
    training.forward(model, 1, Rows(8), {})
    training.works(1)
    training.stages.begin(None)
    training.forward(teacher, 1, Rows(8), {})
    training.forward(other, 1, {"images": Rows(24)})
    training.forward(model, 1, Rows(8), {})
    training.backward(5)
    training.step(is_last=True)
    training.over()
    training.stages.begin(None)
    training.forward(model, 1, Rows(5), {})
    training.backward(5)
    training.step(is_last=True)
    training.over()
    told = [[(number, rows) for number, rows, _ in one["forwards"]] for _, one in training.facts]
    assert told == [[(0, 8), (1, 24), (0, 8)], [(0, 5)]]
