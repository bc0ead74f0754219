"""Whether parameters are still numbers: seen without asking torch for anything, and told when it changes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    from _vtune_hooks import recorder

    facts: list[dict[str, Any]] = []
    monkeypatch.setattr(recorder, "fact", lambda name, /, **fields: facts.append({"fact": name, **fields}))
    return facts


def optimizer_of(*parameters: torch.nn.Parameter) -> Any:
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    return torch.optim.SGD(list(parameters), lr=0.1)


def seen() -> Any:
    return SimpleNamespace(number=0, finite=None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("value", "expected"), [(1.5, None), (-0.0, None), (float("nan"), "nan"), (float("-inf"), "inf")]
)
def test_a_value_is_read_where_it_lies(dtype: torch.dtype, value: float, expected: str | None) -> None:
    from _vtune_hooks import finite

    tensor = torch.tensor([1.0, 60000.0, value], dtype=dtype)
    assert finite.value_of(tensor) == expected


def test_it_is_told_once_with_the_step_and_again_when_the_script_went_back(told: list[dict[str, Any]]) -> None:
    from _vtune_hooks import finite

    weight = torch.nn.Parameter(torch.zeros(4))
    optimizer, one = optimizer_of(weight), seen()
    finite.stepped(one, optimizer, 0, 0.0)
    weight.data[2] = float("nan")
    finite.stepped(one, optimizer, 1, 1.0)
    finite.stepped(one, optimizer, 2, 2.0)
    weight.data[2] = 0.0
    finite.stepped(one, optimizer, 9, 3.0)
    assert [(fact["finite"], fact["step"], fact["value"]) for fact in told] == [(False, 1, "nan"), (True, 9, None)]


def test_later_steps_are_looked_at_now_and_then_only(told: list[dict[str, Any]]) -> None:
    from _vtune_hooks import finite

    weight = torch.nn.Parameter(torch.zeros(4))
    optimizer, one = optimizer_of(weight), seen()
    finite.stepped(one, optimizer, 100, 10.0)
    weight.data[:] = float("inf")
    finite.stepped(one, optimizer, 101, 10.1)
    assert told == []
    finite.stepped(one, optimizer, 102, 10.3)
    assert [(fact["step"], fact["value"]) for fact in told] == [(102, "inf")]


def test_small_parameters_that_learn_are_chosen_and_nothing_that_stands_for_a_tensor() -> None:
    from _vtune_hooks import finite

    class Sharded(torch.nn.Parameter):
        pass

    small, large = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(500))
    foreign = Sharded(torch.zeros(1))
    optimizer = optimizer_of(large, small, foreign)
    frozen = torch.nn.Parameter(torch.zeros(1))
    optimizer.add_param_group({"params": [frozen]})
    assert [parameter.numel() for parameter in finite.choose(optimizer)] == [2, 500]


def test_a_parameter_that_lies_otherwise_since_it_was_chosen_is_not_read_beyond_its_end(
    told: list[dict[str, Any]],
) -> None:
    from _vtune_hooks import finite

    weight = torch.nn.Parameter(torch.zeros(16))
    optimizer, one = optimizer_of(weight), seen()
    finite.stepped(one, optimizer, 0, 0.0)
    memory = torch.tensor([0.0, *[float("nan")] * 31])
    weight.data = memory[:1].expand(16)
    finite.stepped(one, optimizer, 1, 1.0)
    assert told == []
    weight.data = memory[:16]
    finite.stepped(one, optimizer, 2, 2.0)
    assert [(fact["step"], fact["value"]) for fact in told] == [(2, "nan")]


def test_a_script_that_watches_all_calls_of_torch_sees_none_of_ours(told: list[dict[str, Any]]) -> None:
    from _vtune_hooks import finite

    class Watching(torch.overrides.TorchFunctionMode):
        def __init__(self) -> None:
            super().__init__()
            self.calls: list[str] = []

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.calls.append(str(function))
            return function(*args, **(kwargs or {}))

    weight = torch.nn.Parameter(torch.zeros(16))
    optimizer, one = optimizer_of(weight), seen()
    weight.data[3] = float("nan")
    with Watching() as watching:
        finite.stepped(one, optimizer, 0, 0.0)
        assert watching.calls == []
        weight.sum()
    assert len(told) == 1 and watching.calls != []


def test_a_copy_from_a_device_is_looked_at_once_the_device_has_passed_it_and_never_waited_for(
    told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from _vtune_hooks import finite

    event = SimpleNamespace(passed=False)
    event.query = lambda: event.passed
    there = SimpleNamespace(device=SimpleNamespace(type="cuda"))
    copy = torch.tensor([float("nan")])
    monkeypatch.setattr(finite, "_copies", lambda parameters, number: (event, [copy], number))
    one = seen()
    one.finite = finite.Watched()
    one.finite.chosen = [there]
    finite.stepped(one, None, 5, 1.0)
    finite.stepped(one, None, 6, 2.0)
    assert told == []
    event.passed = True
    finite.stepped(one, None, 7, 3.0)
    assert [(fact["step"], fact["value"]) for fact in told] == [(5, "nan")]


def test_what_goes_wrong_switches_it_off_and_is_told_once(told: list[dict[str, Any]]) -> None:
    from _vtune_hooks import finite, recorder

    recorder.here.problems.clear()
    one = seen()
    for number in range(3):
        finite.stepped(one, SimpleNamespace(param_groups=None), number, float(number))
    assert len(told) == 1 and told[0]["fact"] == "problem"


def test_an_optimizer_without_gradients_is_not_looked_through_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    from _vtune_hooks import finite

    looked: list[object] = []
    monkeypatch.setattr(finite, "choose", lambda optimizer: looked.append(optimizer) or [])
    one = seen()
    for number in range(10):
        finite.stepped(one, None, number, float(number))
    assert len(looked) == finite.CHOICES
