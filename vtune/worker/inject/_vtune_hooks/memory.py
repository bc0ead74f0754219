"""What the device's allocator held at most: whatever the script resets, and without the script noticing our own resets.

`kept` are the peaks before any reset; `erased` are those that we reset away, and that the script must still be told.
"""

from __future__ import annotations

import inspect
from typing import Any

from _vtune_hooks import devices, recorder, vram_limit
from _vtune_hooks.counters import ALLOCATED, RESERVED, index_of, number, peaks
from _vtune_hooks.devices import ORIGINAL, Device
from _vtune_hooks.frames import around

# Asking the driver how much of the device is free takes its lock: rarely.
OUTSIDE_EVERY_S = 10.0
TELL_EVERY_S = 1.0


class Span:
    """Most that was allocated from its beginning on, by device as far as it was seen: whoever else resets the
    allocator's own peaks meanwhile."""

    def __init__(self) -> None:
        self.most: dict[int, int] = {}


class _State:
    def __init__(self) -> None:
        self.device: Device | None = None
        self.kept: dict[int, dict[str, int]] = {}
        self.erased: dict[int, dict[str, int]] = {}
        # Taken at our own resets; looked through only when somebody wants to know.
        self.snapshots: dict[int, list[Any]] = {}
        self.spans: list[Span] = []
        self.told: dict[int, dict[str, Any]] = {}
        self.outside: dict[int, int | None] = {}
        self.looked_s = self.swept_s = self.outside_s = -1e9


_state = _State()


def _start_afresh() -> None:
    global _state
    _state = _State()


recorder.in_each_child.append(_start_afresh)


def placed(module: Any) -> None:
    """After one of torch's memory modules has run, so that names imported from it are ours already."""
    watch(module)


def watch(module: Any) -> None:
    for name, wrap in _WRAPPED.items():
        function = getattr(module, name, None)
        if callable(function) and not hasattr(function, ORIGINAL):
            wrapper = wrap(function)
            setattr(wrapper, ORIGINAL, function)
            try:
                wrapper.__signature__ = inspect.signature(function)
            except (TypeError, ValueError):
                pass
            setattr(module, name, wrapper)
    vram_limit.watch(module)


def use(device: Device) -> None:
    """From now on; its functions may have been made after torch was imported."""
    _state.device = device
    watch(device.module)
    if device.stats is None:
        devices.unknown("memory", f"torch.{device.kind} has no memory_stats")
        return
    try:
        device.stats(int(device.index_now()))
    except Exception as error:
        # An allocator of the training's own need not count.
        device.stats = None
        devices.unknown("memory", f"torch.{device.kind}.memory_stats fails: {error!r}")


def is_used(device: Device) -> bool:
    """A device that was opened and holds nothing computes nothing. Where nobody counts, it may."""
    if device.stats is None:
        return True
    return any(has_held(device, index) for index in range(device.count()))


def has_held(device: Device, index: int) -> bool:
    return device.stats is not None and bool(peaks(device.stats(index)).get(f"{ALLOCATED}.peak"))


def cut(index: int) -> int | None:
    """Most that was allocated since the last cut; the allocator counts anew from here on."""
    device = _state.device
    if device is None or device.stats is None or device.reset_peaks is None:
        return None
    stats = device.stats(index)
    _state.snapshots.setdefault(index, []).append(stats)
    device.reset_peaks(index)
    _raise_since(index, stats)
    return number(stats, f"{ALLOCATED}.peak")


def begin_span() -> Span:
    """On the device that is current now."""
    span, device = Span(), _state.device
    if device is not None:
        index = int(device.index_now())
        if cut(index) is not None:
            span.most[index] = 0
            _state.spans.append(span)
    return span


def most_in(span: Span) -> int | None:
    device = _state.device
    if device is None or device.stats is None:
        return None
    for index in span.most:
        _raise_since(index, device.stats(index))
    return max(span.most.values(), default=None)


def end_span(span: Span | None) -> None:
    if span in _state.spans:
        _state.spans.remove(span)


def meet() -> Device | None:
    """The device that the training has opened, looked for where it is not known yet."""
    if _state.device is None:
        device = devices.find()
        if device is not None:
            use(device)
    return _state.device


def tell(now: float, step: int, *, all_of_them: bool) -> None:
    """Of each device that this process uses: when something changed, at most once a second but for `all_of_them`."""
    state, device = _state, _state.device
    if device is None or device.stats is None:
        return
    state.looked_s = now
    sweep = all_of_them or now - state.swept_s >= OUTSIDE_EVERY_S
    if sweep:
        state.swept_s = now
    indices = range(device.count()) if sweep else sorted({*state.told, int(device.index_now())})
    for index in indices:
        stats = device.stats(index)
        _keep(index, stats)
        kept = state.kept[index]
        if not kept.get(f"{ALLOCATED}.peak"):
            continue
        told = {
            "allocated_peak": kept.get(f"{ALLOCATED}.peak"),
            "reserved_peak": kept.get(f"{RESERVED}.peak"),
            "allocated": number(stats, f"{ALLOCATED}.current"),
            "reserved": number(stats, f"{RESERVED}.current"),
            "retries": number(stats, "num_alloc_retries"),
            "ooms": number(stats, "num_ooms"),
        }
        if index not in state.told:
            devices.tell(device, index)
        if sweep or index not in state.told:
            state.outside[index] = _outside(device, index, told["reserved"])
        told["outside"] = state.outside.get(index)
        if told != state.told.get(index) or all_of_them:
            state.told[index] = told
            recorder.fact("memory", device=index, step=step, **told)


def outside_now(device: Device, index: int) -> int | None:
    return None if device.stats is None else _outside(device, index, number(device.stats(index), f"{RESERVED}.current"))


def is_due(now: float) -> bool:
    return now - _state.looked_s >= TELL_EVERY_S


def _outside(device: Device, index: int, reserved: int | None) -> int | None:
    """Of the whole device, other processes included: whoever reads it must know whether there are any."""
    try:
        free, total = device.module.mem_get_info(index)
        return None if reserved is None else max(0, int(total) - int(free) - reserved)
    except Exception:
        return None


def _raise_since(index: int, stats: Any) -> None:
    for span in _state.spans:
        if index in span.most:
            span.most[index] = max(span.most[index], number(stats, f"{ALLOCATED}.peak") or 0)


def _keep(index: int, stats: Any) -> None:
    _raise_since(index, stats)
    kept = _state.kept.setdefault(index, {})
    for name, value in {**_erased(index), **peaks(stats)}.items():
        kept[name] = max(value, kept.get(name, 0), _state.erased.get(index, {}).get(name, 0))


def _erased(index: int) -> dict[str, int]:
    """What the allocator would still call its peaks, had we not reset them."""
    erased = _state.erased.setdefault(index, {})
    for stats in _state.snapshots.pop(index, ()):
        for name, value in peaks(stats).items():
            erased[name] = max(value, erased.get(name, 0))
    return erased


def _resetting(original: Any) -> Any:
    return around(original, before=_before_a_reset, after=_after_a_reset)


def _after_a_reset(result: Any, index: int | None, args: Any, kwargs: Any) -> Any:
    if index is not None:
        _state.erased.pop(index, None)
    return result


def _before_a_reset(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    if recorder.here.silent or recorder.here.off:
        return None
    try:
        device = meet()
        if device is None:
            return None
        index = index_of(device, args, kwargs)
        if index is not None and device.stats is not None:
            _keep(index, device.stats(index))
        return index
    except Exception as error:
        recorder.problem(f"before the peaks were reset: {error!r}")
        return None


def _reading(original: Any) -> Any:
    """`memory_stats`, flat or nested."""

    def after(result: Any, _: None, args: Any, kwargs: Any) -> Any:
        if _state.erased or _state.snapshots:
            _with_erased(result, args, kwargs)
        return result

    return around(original, after=after)


def _reading_one(name: str) -> Any:
    def after(result: Any, _: None, args: Any, kwargs: Any) -> Any:
        seen = {name: result}
        if _state.erased or _state.snapshots:
            _with_erased(seen, args, kwargs)
        return seen[name]

    return lambda original: around(original, after=after)


def _with_erased(stats: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    try:
        device = _state.device
        index = None if device is None or recorder.here.silent else index_of(device, args, kwargs)
        if index is not None:
            _raise_to(stats, _erased(index), "")
    except Exception as error:
        recorder.problem(f"the script's own view of the peaks: {error!r}")


def _raise_to(stats: Any, at_least: dict[str, int], prefix: str) -> None:
    for name, value in stats.items():
        if isinstance(value, dict):
            _raise_to(value, at_least, f"{prefix}{name}.")
        elif value < at_least.get(prefix + name, value):
            stats[name] = at_least[prefix + name]


_WRAPPED = {
    "reset_peak_memory_stats": _resetting,
    "memory_stats": _reading,
    "memory_stats_as_nested_dict": _reading,
    "max_memory_allocated": _reading_one(f"{ALLOCATED}.peak"),
    "max_memory_reserved": _reading_one(f"{RESERVED}.peak"),
}
