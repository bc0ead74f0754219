"""Finding the device, timing its steps, keeping its peaks: against a stand-in for torch's device module."""

from __future__ import annotations

import json
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from emulated.accelerator import Emulated, module_of

DEVICE_STEP = 5
MIB = 2**20


@pytest.fixture
def device() -> Emulated:
    made = Emulated(2**30)
    made.allocate(MIB)
    return made


@pytest.fixture
def torch(device: Emulated, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the hooks ask of it; never the real one, which these tests have no need to import."""
    fake: Any = ModuleType("torch")
    fake.version = SimpleNamespace(cuda=None, hip=None)
    fake.emulated = module_of(device)
    fake.accelerator = SimpleNamespace(current_accelerator=lambda: SimpleNamespace(type="emulated"))
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


@pytest.fixture
def recorder(tmp_path: Path, torch: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from _vtune_hooks import memory, recorder

    monkeypatch.setattr(recorder, "here", recorder.Process(str(tmp_path), silent=False))
    memory._start_afresh()
    yield recorder
    memory._start_afresh()


@pytest.fixture
def clock(recorder: Any) -> Any:
    from _vtune_hooks import device_clock, devices

    found = devices.find()
    assert found is not None
    return device_clock.clock_of(found)


def facts(folder: Path, name: str) -> list[dict[str, Any]]:
    path = folder / f"steps-{os.getpid()}.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [fact for fact in map(json.loads, lines) if fact["fact"] == name]


def timed(recorder: Any) -> list[tuple[int, float, float]]:
    """Number, seconds at work, seconds of the gap."""
    recorder.flush(wait=True)
    path = recorder.here.folder + f"/steps-{os.getpid()}.bin"
    text = Path(path).read_bytes()[16:] if os.path.exists(path) else b""
    rows = struct.iter_unpack("<BBHIqdddII", text)
    return [(row[4], row[5], row[7]) for row in rows if row[0] == DEVICE_STEP]


def iteration(clock: Any, device: Emulated, number: int, seconds: float) -> None:
    clock.batch_came(after_another=False)
    device.launch(seconds)
    clock.step_ended(0, number)
    clock.iteration_is_over(as_expected=True)


def test_a_device_is_found_only_once_the_training_has_opened_it(torch: Any, device: Emulated, recorder: Any) -> None:
    from _vtune_hooks import devices

    device.is_open = False
    assert devices.find() is None
    device.is_open = True
    found = devices.find()
    assert found is not None and found.kind == "emulated"


@pytest.mark.parametrize(("kind", "backend"), [("cuda", "CUDA 12.8"), ("xpu", None)])
def test_an_open_device_is_found_without_asking_which_accelerator_there_is(
    torch: Any, device: Emulated, recorder: Any, tmp_path: Path, kind: str, backend: str | None
) -> None:
    from _vtune_hooks import devices

    def ask() -> None:
        raise AssertionError("an early torch may count devices here")

    torch.version.cuda = "12.8"
    torch.accelerator.current_accelerator = ask
    assert devices.find() is None
    setattr(torch, kind, torch.emulated)
    found = devices.find()
    assert found is not None and found.kind == kind
    devices.tell(found, 0)
    (fact,) = facts(tmp_path, "device")
    assert (fact["type"], fact["backend"], fact["pci"]) == (kind, backend, "0000:65:00.0")


def test_a_torch_without_accelerators_has_no_device(torch: Any, recorder: Any) -> None:
    from _vtune_hooks import devices

    del torch.accelerator
    assert devices.find() is None
    torch.accelerator = SimpleNamespace(current_accelerator=lambda: None)
    assert devices.find() is None


def test_steps_are_written_once_the_device_has_passed_them_and_nobody_waits(
    clock: Any, device: Emulated, recorder: Any
) -> None:
    begun = time.monotonic()
    for number in range(3):
        iteration(clock, device, number, 0.05)
        clock.poll(time.monotonic())
    assert time.monotonic() - begun < 0.05
    assert timed(recorder) == []
    device.synchronize()
    time.sleep(0.02)
    iteration(clock, device, 3, 0.01)
    clock.poll(time.monotonic())
    # Two a step, so that a backlog shrinks without any step paying for all of it.
    assert [number for number, _, _ in timed(recorder)] == [0, 1]
    device.synchronize()
    clock.poll(time.monotonic(), at_most=10)
    seen = timed(recorder)
    assert [number for number, _, _ in seen] == [0, 1, 2, 3]
    assert [busy for _, busy, _ in seen[:3]] == pytest.approx([0.05] * 3, abs=0.005)
    # The first has no step before it, the next two came while the device was at work, before the last it had no work.
    assert seen[0][2] == -1.0
    gaps = [gap for _, _, gap in seen[1:]]
    # A sleep lasts at least as long as asked, and longer beside others.
    assert gaps[:2] == pytest.approx([0.0, 0.0], abs=0.01) and 0.01 < gaps[2] < 0.2


def test_a_training_that_runs_far_ahead_is_not_seen_and_the_old_steps_are(
    clock: Any, device: Emulated, recorder: Any
) -> None:
    for number in range(100):
        iteration(clock, device, number, 0.001)
    assert device.calls["Event"] < 210
    device.synchronize()
    clock.poll(time.monotonic(), at_most=200)
    assert [number for number, _, _ in timed(recorder)] == list(range(64))
    made = device.calls["Event"]
    for number in range(100, 160):
        iteration(clock, device, number, 0.0)
        clock.poll(time.monotonic())
    # Events are used again.
    assert device.calls["Event"] == made
    # Behind the hole there is a step before it again, whose end is known.
    assert all(gap >= 0 for number, _, gap in timed(recorder) if number)


def test_what_fits_no_picture_is_unknown(clock: Any, device: Emulated, recorder: Any) -> None:
    iteration(clock, device, 0, 0.0)
    # Another optimizer ended this one than the one before.
    clock.batch_came(after_another=False)
    clock.step_ended(0, 1)
    clock.iteration_is_over(as_expected=False)
    # Nothing is known of the end before; then two steps with one batch.
    clock.batch_came(after_another=False)
    clock.step_ended(0, 2)
    clock.step_ended(0, 3)
    clock.iteration_is_over(as_expected=True)
    # A validation's batches came in between: the step is known, the gap is not.
    clock.batch_came(after_another=False)
    clock.batch_came(after_another=True)
    clock.step_ended(0, 4)
    clock.iteration_is_over(as_expected=True)
    # Too many batches within one step.
    clock.batch_came(after_another=False)
    for _ in range(20):
        clock.next_is_asked()
        clock.further_batch_came()
    clock.step_ended(0, 5)
    clock.iteration_is_over(as_expected=True)
    iteration(clock, device, 6, 0.0)
    clock.poll(time.monotonic(), at_most=10)
    assert [(number, gap) for number, _, gap in timed(recorder)] == [(0, -1.0), (4, -1.0), (6, -1.0)]


def test_a_missing_event_is_told_once_and_leaves_the_memory_known(
    torch: Any, device: Emulated, recorder: Any, tmp_path: Path
) -> None:
    from _vtune_hooks import device_clock, devices, memory

    torch.emulated = module_of(device, without=("Event", "mem_get_info"))
    found = devices.find()
    assert found is not None
    assert device_clock.clock_of(found) is None and device_clock.clock_of(found) is None
    assert [fact["what"] for fact in facts(tmp_path, "unknown")] == ["device steps"]
    memory.use(found)
    memory.tell(0.0, 1, all_of_them=True)
    (told,) = facts(tmp_path, "memory")
    assert told["allocated_peak"] == MIB and told["outside"] is None


def test_an_allocator_that_does_not_count_leaves_the_steps_known(
    torch: Any, device: Emulated, recorder: Any, tmp_path: Path
) -> None:
    from _vtune_hooks.moments import Moments

    def memory_stats(device: object = None) -> None:
        raise RuntimeError("this allocator has no statistics")

    torch.emulated.memory_stats = memory_stats
    moments = Moments()
    moments._look_for_a_device(0.0)
    assert moments._clock is not None
    (unknown,) = facts(tmp_path, "unknown")
    assert unknown["what"] == "memory" and "has no statistics" in unknown["because"]
    moments.end()
    assert facts(tmp_path, "problem") == []


@pytest.fixture
def watched_memory(torch: Any, recorder: Any) -> Any:
    from _vtune_hooks import devices, memory

    found = devices.find()
    assert found is not None
    memory.use(found)
    return memory


def test_a_peak_before_the_scripts_reset_is_kept(
    torch: Any, watched_memory: Any, device: Emulated, tmp_path: Path
) -> None:
    device.allocate(99 * MIB)
    device.free(99 * MIB)
    torch.emulated.empty_cache()
    torch.emulated.reset_peak_memory_stats()
    assert torch.emulated.max_memory_allocated() == MIB
    watched_memory.tell(0.0, 1, all_of_them=False)
    (told,) = facts(tmp_path, "memory")
    assert (told["allocated_peak"], told["reserved_peak"]) == (100 * MIB, 100 * MIB)
    assert (told["allocated"], told["reserved"]) == (MIB, 2 * MIB)


def random_life(torch: Any, device: Emulated, between: Callable[[], object]) -> list[object]:
    """What a script reads over some allocations and resets; `between` is what others do meanwhile."""
    seen: list[object] = []
    emulated = torch.emulated
    for number, size in enumerate([50, 10, 30, 70, 5, 60, 20]):
        device.allocate(size * MIB)
        between()
        device.free(size * MIB)
        between()
        seen += [
            emulated.max_memory_allocated(),
            emulated.max_memory_reserved(0),
            dict(emulated.memory_stats("emulated:0")),
        ]
        if number in (1, 4):
            emulated.reset_peak_memory_stats(device=SimpleNamespace(index=None))
            between()
            seen += [emulated.max_memory_allocated(), emulated.memory_stats()["allocated_bytes.all.peak"]]
    return seen


def test_our_own_resets_change_nothing_that_the_script_reads(torch: Any, watched_memory: Any, device: Emulated) -> None:
    peaks: list[int] = []
    with_cuts = random_life(torch, device, lambda: peaks.append(watched_memory.cut(0)))
    other = Emulated(2**30)
    other.allocate(MIB)
    alone = random_life(SimpleNamespace(emulated=module_of(other)), other, lambda: None)
    assert with_cuts == alone
    # By cut: the allocation that came before it, then what was left of it.
    assert peaks[:4] == [51 * MIB, 51 * MIB, 11 * MIB, 11 * MIB]


def test_a_reset_that_fails_fails_as_without_us(torch: Any, watched_memory: Any, device: Emulated) -> None:
    import inspect

    reset = torch.emulated.reset_peak_memory_stats
    with pytest.raises(TypeError, match="takes from 1 to 2"):
        reset(0, 1)
    assert str(inspect.signature(reset)) == "(device: 'object' = None) -> 'None'"


def test_memory_is_asked_for_about_once_a_second(torch: Any, watched_memory: Any, device: Emulated) -> None:
    watched_memory.tell(100.0, 1, all_of_them=False)
    assert not watched_memory.is_due(100.9)
    assert watched_memory.is_due(101.0)


def test_a_forked_child_touches_no_event_of_its_parent(clock: Any, device: Emulated, recorder: Any) -> None:
    from _vtune_hooks.moments import Moments

    moments = Moments()
    moments._clock = clock
    moments.start_afresh()
    # Kept, for destroying an event asks a driver that a forked child must not ask; and never used again.
    assert any(clock in left for left in moments._left_behind)
    assert moments._clock is None
    before = dict(device.calls)
    moments.end()
    assert {name: device.calls.get(name) for name in ("record", "query")} == {
        name: before.get(name) for name in ("record", "query")
    }


@pytest.fixture
def moments(recorder: Any) -> Any:
    from _vtune_hooks.moments import Moments

    made = Moments()
    made._stages.over = True
    made._look_for_a_device(0.0)
    return made


def stepped(moments: Any, seen: Any) -> None:
    seen.steps += 1
    moments.steps += 1
    moments.stepped(seen, time.monotonic(), (), {})


def test_a_child_forked_within_a_closer_look_calls_its_modules_as_without_us(
    recorder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from _vtune_hooks import module_calls
    from _vtune_hooks.moments import Moments

    class Module:
        def __call__(self) -> str:
            return "called"

    plain = vars(Module)["__call__"]
    monkeypatch.setattr(module_calls, "_of_modules", [module_calls.Calls(Module)])
    moments = Moments()
    moments._stages.begin(None)
    assert vars(Module)["__call__"] is not plain
    marks = moments._stages._marks
    moments.start_afresh()
    assert vars(Module)["__call__"] is plain and Module()() == "called"
    assert len(marks) == 1 and moments._left_behind[-1][1]._marks is marks


def test_with_two_optimizers_an_iteration_ends_with_the_second(moments: Any, device: Emulated, recorder: Any) -> None:
    from _vtune_hooks.steps import OptimizerSeen

    first, second = OptimizerSeen(0, 10), OptimizerSeen(1, 20)
    for _ in range(6):
        moments.batch_came(0.0, time.monotonic())
        for optimizer in (first, second):
            moments.backward_begins()
            device.launch(0.01)
            stepped(moments, optimizer)
        device.synchronize()
    moments.end()
    seen = timed(recorder)
    # The first iteration shows which of the two ends it.
    assert [number for number, _, _ in seen] == [1, 2, 3, 4, 5]
    assert [busy for _, busy, _ in seen] == pytest.approx([0.02] * 5, rel=0.2)


def test_optimizers_that_take_turns_are_not_timed(moments: Any, device: Emulated, recorder: Any) -> None:
    from _vtune_hooks.steps import OptimizerSeen

    optimizers = OptimizerSeen(0, 10), OptimizerSeen(1, 20)
    for number in range(8):
        moments.batch_came(0.0, time.monotonic())
        moments.backward_begins()
        stepped(moments, optimizers[number % 2])
    moments.end()
    assert timed(recorder) == []


def test_a_device_that_fails_switches_itself_off_and_the_rest_goes_on(
    moments: Any, device: Emulated, recorder: Any, tmp_path: Path
) -> None:
    from _vtune_hooks.steps import OptimizerSeen

    device.is_capturing = True
    moments._clock.device.is_capturing = lambda: False
    for _ in range(3):
        moments.batch_came(0.0, time.monotonic())
        stepped(moments, OptimizerSeen(0, 1))
    (problem,) = facts(tmp_path, "problem")
    assert "an event was recorded while a graph is being captured" in problem["text"]
    assert facts(tmp_path, "memory")
