"""Which batches are a validation's, and what is told of its memory: against a stand-in for torch's device module."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from emulated.accelerator import Emulated, module_of

MIB = 2**20


@pytest.fixture
def device() -> Emulated:
    made = Emulated(4 * 2**30)
    made.allocate(10 * MIB)
    return made


@pytest.fixture
def told(device: Emulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The facts that the hooks have told so far, read again at each call."""
    torch: Any = ModuleType("torch")
    torch.version = SimpleNamespace(cuda=None, hip=None)
    torch.emulated = module_of(device)
    torch.accelerator = SimpleNamespace(current_accelerator=lambda: SimpleNamespace(type="emulated"))
    monkeypatch.setitem(sys.modules, "torch", torch)
    from _vtune_hooks import memory, recorder, vram_limit

    monkeypatch.setattr(recorder, "here", recorder.Process(str(tmp_path), silent=False))
    for module in (memory, vram_limit):
        module._start_afresh()

    def read() -> list[dict[str, Any]]:
        lines = [line for path in tmp_path.glob("*.jsonl") for line in path.read_text().splitlines()]
        return [fact for fact in map(json.loads, lines) if fact["fact"] == "validation"]

    yield read
    for module in (memory, vram_limit):
        module._start_afresh()


class Script:
    """Calls the hook as the batches and backwards of a script would, a tenth of a second apart."""

    def __init__(self, device: Emulated) -> None:
        from _vtune_hooks.validation import Validation

        self.hook, self.device = Validation(), device
        self.now, self.passes = 10.0, 0

    def walk(self, key: str, loader: int = 0) -> Any:
        self.passes += 1
        return SimpleNamespace(seen=SimpleNamespace(key=key), loader=loader, number=self.passes, ended=False)

    def batch(
        self, found: Any, *, grad: bool, mib: int = 0, shape: tuple[int, ...] = (2, 3), pause: float = 0.1
    ) -> None:
        self.now += pause
        self.hook.batch_came(found, shape, self.now, self.now + 0.0005, grad)
        self.now += 0.0005
        self.device.allocate(mib * MIB)
        self.device.free(mib * MIB)

    def step(self, found: Any, *, grad: bool = True, mib: int = 100) -> None:
        self.batch(found, grad=grad, mib=mib)
        self.hook.backward_begins(self.now)


@pytest.fixture
def script(told: Any, device: Emulated) -> Script:
    return Script(device)


def peaks(told: Any) -> list[tuple[int, int, int]]:
    """Loader, batches and MiB of the last fact of each pass."""
    last = {fact["pass"]: (fact["loader"], fact["batches"], fact["allocated_peak"] // MIB) for fact in told()}
    return list(last.values())


def test_batches_without_gradients_are_a_validation_and_its_peak_is_its_own(script: Script, told: Any) -> None:
    train, validation = script.walk("train"), script.walk("val", 1)
    for _ in range(5):
        script.step(train, mib=500)
    for mib in (50, 70, 60):
        script.batch(validation, grad=False, mib=mib)
    script.step(train, mib=500)
    assert peaks(told) == [(1, 3, 80)]


def test_the_peak_is_told_while_it_lasts(script: Script, told: Any) -> None:
    """The process may be killed before a step comes."""
    train, validation = script.walk("train"), script.walk("val", 1)
    script.step(train)
    for mib in (10, 20, 300, 30):
        script.batch(validation, grad=False, mib=mib)
    assert peaks(told) == [(1, 4, 310)]


def test_gradients_left_on_are_no_disguise_once_the_trainings_loader_is_known(script: Script, told: Any) -> None:
    train, validation = script.walk("train"), script.walk("val", 1)
    for _ in range(3):
        script.step(train)
    for _ in range(3):
        script.batch(validation, grad=True, mib=200)
    script.step(train)
    assert peaks(told) == [(1, 3, 210)]


def test_two_loaders_that_feed_one_step_are_both_the_trainings(script: Script, told: Any) -> None:
    labelled, unlabelled = script.walk("a"), script.walk("b", 1)
    for _ in range(5):
        script.batch(labelled, grad=True)
        script.batch(unlabelled, grad=True, pause=0.0005)
        script.hook.backward_begins(script.now)
    assert told() == []


def test_a_loader_whose_batches_come_without_gradients_and_are_learnt_from_is_the_trainings(
    script: Script, told: Any
) -> None:
    train, validation = script.walk("train"), script.walk("val", 1)
    for _ in range(6):
        script.step(train, grad=False)
    assert told() == []
    for _ in range(3):
        script.batch(validation, grad=False, mib=200)
    script.step(train, grad=False)
    assert peaks(told) == [(1, 3, 210)]


def test_the_trainings_own_data_looked_at_without_gradients_is_a_validation(script: Script, told: Any) -> None:
    train = script.walk("train")
    for _ in range(3):
        script.step(train)
    again = script.walk("train")
    for _ in range(4):
        script.batch(again, grad=False, mib=40)
    script.step(script.walk("train"))
    assert peaks(told) == [(0, 4, 50)]


def test_a_short_sanity_check_before_the_first_step_is_told(script: Script, told: Any) -> None:
    validation, train = script.walk("val", 1), script.walk("train")
    for _ in range(2):
        script.batch(validation, grad=False, mib=90)
    script.step(train)
    script.step(train)
    assert peaks(told) == [(1, 2, 100)]


def test_a_batch_that_was_fetched_before_the_validation_does_not_hide_it(script: Script, told: Any) -> None:
    """A script that prefetches goes backward right after its validation."""
    train, validation = script.walk("train"), script.walk("val", 1)
    for _ in range(3):
        script.step(train)
    script.batch(train, grad=True)
    for _ in range(3):
        script.batch(validation, grad=False, mib=200)
    script.hook.backward_begins(script.now)
    assert peaks(told) == [(1, 3, 210)]
    # Nor is its loader taken for one that feeds steps.
    for _ in range(3):
        script.batch(script.walk("val", 1), grad=False, mib=300)
    script.hook.end(script.now)
    assert max(mib for _, _, mib in peaks(told)) == 310


def test_the_scripts_own_resets_erase_nothing_of_it(script: Script, told: Any) -> None:
    torch: Any = sys.modules["torch"]
    train, validation = script.walk("train"), script.walk("val", 1)
    script.step(train)
    script.batch(validation, grad=False, mib=10)
    script.batch(validation, grad=False, mib=400)
    torch.emulated.reset_peak_memory_stats()
    torch.emulated.empty_cache()
    script.batch(validation, grad=False, mib=20)
    assert torch.emulated.max_memory_allocated() == 30 * MIB
    script.hook.end(script.now)
    assert peaks(told) == [(1, 3, 410)]


def test_two_spans_at_once_each_know_their_own_peak(script: Script, device: Emulated) -> None:
    from _vtune_hooks import memory

    memory.meet()
    outer = memory.begin_span()
    device.allocate(300 * MIB)
    device.free(300 * MIB)
    inner = memory.begin_span()
    device.allocate(20 * MIB)
    device.free(20 * MIB)
    assert (memory.most_in(outer), memory.most_in(inner)) == (310 * MIB, 30 * MIB)
    memory.end_span(inner)
    device.allocate(500 * MIB)
    device.free(500 * MIB)
    assert (memory.most_in(outer), memory.most_in(inner)) == (510 * MIB, 30 * MIB)


def test_a_largest_shape_is_told_with_it(script: Script, told: Any) -> None:
    train, validation = script.walk("train"), script.walk("val", 1)
    script.step(train)
    for shape in ((1, 64), (1, 512), (1, 100)):
        script.batch(validation, grad=False, mib=9, shape=shape)
    script.hook.end(script.now)
    assert told()[-1]["shape"] == [1, 512]
