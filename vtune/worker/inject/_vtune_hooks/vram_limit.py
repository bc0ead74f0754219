"""A limit of a device's memory, held by the training's own allocator: what asks for more gets torch's own error.

Only where spec.json asks for it (LimitVram), only on a device that this process has memory on already, for telling the
allocator of another one would open it. A smaller fraction that the script sets itself stays. Not yet run on a GPU.
"""

from __future__ import annotations

import glob
import json
import os
import time
from typing import Any

from _vtune_hooks import devices, recorder
from _vtune_hooks.counters import index_of
from _vtune_hooks.devices import ORIGINAL, Device
from _vtune_hooks.frames import around

# Once one device is held, further ones, and further processes on it, come seldom.
LOOK_FIRST_S, LOOK_AT_MOST_S = 0.25, 10.0
# As long as none is open: asking for it takes microseconds, and a step may take no more.
LOOK_FOR_IT_S = 0.005
# Of another process's facts: those that name its devices are among the first.
MOST_READ = 256 * 1024
NOTHING_SET = 1.0
# The context is opened, and libraries take their own, at the first steps; what comes to the device later is others'.
CONTEXT_LOOKS = 4
# More than a context and its libraries ever take: others have come to the device since the trial began.
MOST_CONTEXT = 2 * 2**30

_now = time.monotonic


class Held:
    def __init__(self, fraction: float, by_script: float) -> None:
        self.fraction = fraction
        # What the script had set by itself, or what it was given.
        self.by_script = by_script


class _State:
    def __init__(self) -> None:
        self.wanted: dict[str, Any] | None = None
        self.is_read = False
        self.due_s = 0.0
        self.pause_s = LOOK_FIRST_S
        self.held: dict[int, Held] = {}
        # Set by the script before the device was met.
        self.by_script: dict[int, float] = {}
        self.told: dict[int, dict[str, Any]] = {}
        # Of this process alone, and how often it was read.
        self.context: dict[int, int] = {}
        self.context_looks: dict[int, int] = {}


_state = _State()


def _start_afresh() -> None:
    global _state
    _state = _State()


recorder.in_each_child.append(_start_afresh)


def is_wanted() -> bool:
    if not _state.is_read:
        _state.is_read = True
        # In a full run its own allocator is left as it is.
        _state.wanted = None if recorder.here.light else _read_spec()
    return _state.wanted is not None


def is_due(now: float) -> bool:
    return now >= _state.due_s


def is_held() -> bool:
    return bool(_state.held)


def watch(module: Any) -> None:
    """The functions of one of torch's memory modules that set and tell a fraction."""
    if not is_wanted():
        return
    for name, after in (("set_per_process_memory_fraction", _was_set), ("get_per_process_memory_fraction", _was_asked)):
        function = getattr(module, name, None)
        if callable(function) and not hasattr(function, ORIGINAL):
            wrapper = around(function, after=after)
            setattr(wrapper, ORIGINAL, function)
            setattr(module, name, wrapper)


def watch_moves(owner: Any) -> None:
    """`Module.to` and `Module.cuda`: a model is often the first that a device gets."""
    if not is_wanted():
        return
    for name in ("to", "cuda", "xpu"):
        function = vars(owner).get(name)
        if callable(function) and not hasattr(function, ORIGINAL):
            wrapper = around(function, after=_was_moved)
            setattr(wrapper, ORIGINAL, function)
            setattr(owner, name, wrapper)


def look(now: float) -> None:
    """Whether a device has been opened that is not held yet."""
    state = _state
    if not is_wanted() or recorder.here.silent or recorder.here.off:
        state.due_s = float("inf")
        return
    try:
        from _vtune_hooks import memory

        device = memory.meet()
        if device is None or device.is_capturing():
            state.due_s = now + LOOK_FOR_IT_S
            return
        if device.stats is None:
            _tell_cannot(device, f"torch.{device.kind} does not tell what its allocator holds")
            return
        for index in range(device.count()):
            if memory.has_held(device, index):
                _hold(device, index)
        if state.held:
            state.due_s = now + state.pause_s
            state.pause_s = min(2 * state.pause_s, LOOK_AT_MOST_S)
    except Exception as error:
        state.wanted = None
        recorder.problem(f"the VRAM limit is not held inside of the training: {error!r}")


def _hold(device: Device, index: int) -> None:
    state = _state
    assert state.wanted is not None
    set_fraction = devices.original_of(device.module, "set_per_process_memory_fraction")
    if set_fraction is None:
        _tell_cannot(device, f"torch.{device.kind} has no set_per_process_memory_fraction")
        return
    properties = device.module.get_device_properties(index)
    total, uuid = int(properties.total_memory), str(getattr(properties, "uuid", "") or f"{device.kind}:{index}")
    others = _others_on(uuid)
    sharing = _sharing(device, others)
    asked = _asked_of(state.wanted, total)
    # The allocator gives its cache back when it meets its own limit, and must meet it before the device's user is
    # found over the whole one from outside.
    context = _context(device, index, uuid, alone=sharing == 1, others=others) if asked < NOTHING_SET else 0
    fraction = max(0.0, asked / sharing - context / total)
    held = state.held.get(index)
    before = held.by_script if held is not None else _set_before(device, index)
    by = "limit" if fraction < before else "script"
    smaller = min(fraction, before)
    if smaller < NOTHING_SET and by == "limit" and (held is None or held.fraction != smaller):
        try:
            _set(device, set_fraction, smaller, index)
        except Exception as error:
            # An allocator of the training's own may not know of limits.
            _tell_cannot(device, f"torch.{device.kind}.set_per_process_memory_fraction fails: {error!r}")
            return
    state.held[index] = Held(smaller, before)
    told = {
        "uuid": uuid,
        "bytes": int(smaller * total),
        "context": context,
        "total": total,
        "by": by,
        "sharing": sharing,
    }
    if smaller < NOTHING_SET and state.told.get(index) != told:
        state.told[index] = told
        recorder.fact("vram_limit", device=index, **told)


def _set(device: Device, set_fraction: Any, fraction: float, index: int) -> None:
    """An early torch makes the device the current one by it."""
    current = int(device.index_now())
    set_fraction(fraction, index)
    if int(device.index_now()) != current:
        device.module.set_device(current)


def _asked_of(wanted: dict[str, Any], total: int) -> float:
    size, share = wanted.get("bytes"), wanted.get("fraction")
    return min(NOTHING_SET, size / total if size is not None else share if share is not None else NOTHING_SET)


def _set_before(device: Device, index: int) -> float:
    """By the script, or by the allocator's own configuration; an early torch does not tell the latter."""
    if index in _state.by_script:
        return _state.by_script[index]
    ask = devices.original_of(device.module, "get_per_process_memory_fraction")
    try:
        return float(ask(index)) if ask is not None else NOTHING_SET
    except Exception:
        return NOTHING_SET


def _context(device: Device, index: int, uuid: str, *, alone: bool, others: list[dict[str, Any]]) -> int:
    """What this process takes of the device beyond its allocator. With others of the trial on it nobody can tell whose
    it is: then what was read before they came, or what one of them has told. 0 where it is not known."""
    state = _state
    looks = state.context_looks.get(index, 0)
    if alone and looks < CONTEXT_LOOKS:
        from _vtune_hooks import memory

        state.context_looks[index] = looks + 1
        outside, before = memory.outside_now(device, index), _used_before(uuid)
        if outside is not None and before is not None and 0 <= outside - before <= MOST_CONTEXT:
            state.context[index] = outside - before
    if index in state.context:
        return state.context[index]
    return max((size for one in others if isinstance(size := one.get("context"), int)), default=0)


def _used_before(uuid: str) -> int | None:
    """Of the whole device, as the parent saw it before the training was started."""
    try:
        with open(os.path.join(recorder.here.folder, "telemetry.jsonl"), encoding="utf-8") as file:
            gpus = json.loads(file.readline()).get("gpus", ())
    except (OSError, ValueError):
        return None
    used = [gpu.get("used_bytes") for gpu in gpus if _bare(str(gpu.get("uuid"))) == _bare(uuid)]
    return used[0] if used and isinstance(used[0], int) else None


def _bare(uuid: str) -> str:
    """The driver's has a prefix that torch's has not."""
    return uuid.lower().replace("gpu-", "", 1).replace("mig-", "", 1)


def _sharing(device: Device, others: list[dict[str, Any]]) -> int:
    """Processes of this trial on the device, as far as they have told; ranks that outnumber the devices share them."""
    count = 1 + len(others)
    ranks = recorder._number_in_environment("LOCAL_WORLD_SIZE") or 1
    hidden = any(name in os.environ for name in devices.VISIBLE.get(device.kind, ()))
    # Where a launcher shows each rank a device of its own, one device for many ranks is none that they share.
    if not (hidden and device.count() == 1):
        count = max(count, -(-ranks // max(1, device.count())))
    return count


def _others_on(uuid: str) -> list[dict[str, Any]]:
    """What each other process of this trial on the device has told last of its limit."""
    paths = glob.glob(os.path.join(recorder.here.folder, "steps-*.jsonl"))
    return [told for path in paths if (told := _told_on(path, uuid)) is not None]


def _told_on(path: str, uuid: str) -> dict[str, Any] | None:
    pid = os.path.basename(path)[len("steps-") : -len(".jsonl")]
    if pid == str(os.getpid()) or not os.path.exists(f"/proc/{pid}"):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(MOST_READ)
    except (OSError, ValueError):
        return None
    told = None
    for line in text.splitlines():
        if '"fact": "vram_limit"' in line and json.dumps(uuid) in line:
            try:
                told = json.loads(line)
            except ValueError:
                # Cut off by MOST_READ, or not yet written to its end: it is on the device all the same.
                told = told or {}
    return told


def _was_set(result: Any, _: None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """By the script: the smaller of the two holds."""
    try:
        from _vtune_hooks import memory

        device = memory.meet()
        fraction = kwargs["fraction"] if "fraction" in kwargs else args[0]
        index = None if device is None else index_of(device, args[1:], {"device": kwargs.get("device")})
        if device is not None and index is not None and not recorder.here.silent:
            _state.by_script[index] = float(fraction)
            if _state.held.pop(index, None) is not None:
                _hold(device, index)
    except Exception as error:
        recorder.problem(f"the script's own fraction of memory: {error!r}")
    return result


def _was_asked(result: Any, _: None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The script is told what it would be told without us."""
    try:
        from _vtune_hooks import memory

        device = memory._state.device
        held = None if device is None else _state.held.get(index_of(device, args, kwargs) or 0)
        return result if held is None else held.by_script
    except Exception:
        return result


def _was_moved(result: Any, _: None, args: Any, kwargs: Any) -> Any:
    if not is_held() and recorder.is_main_thread():
        look(_now())
    return result


def _tell_cannot(device: Device, because: str) -> None:
    _state.wanted = None
    devices.unknown("a VRAM limit held inside of the training", because)


def _read_spec() -> dict[str, Any] | None:
    try:
        with open(os.path.join(recorder.here.folder, "spec.json"), encoding="utf-8") as file:
            effects = json.load(file).get("effects", ())
        return next((effect for effect in effects if effect.get("kind") == "LimitVram"), None)
    except (OSError, ValueError):
        return None
