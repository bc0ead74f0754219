"""What growing memory means, in sentences: how fast, whose, when it passes the limit, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vtune.domain.machine_use import RamGrowth
from vtune.domain.numbers import bytes_, seconds
from vtune.domain.record import Measurement

# Searching for the step at which a limit is passed: beyond so many nobody waits.
FARTHEST_STEP = 2**40
# Growth that comes to less than this share of the room for it is no reason to change a training.
MATTERS = 0.05
WHOSE = {
    "main": "the training's own process",
    "workers": "the loader's workers",
    "others": "a process beside the training and its workers",
    "shared": "shared memory",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """When a limit is passed, from the start of the run."""

    step: int
    seconds: float | None

    def text(self) -> str:
        after = f"in {seconds(self.seconds)}, " if self.seconds is not None else ""
        return f"{after}at step {_rounded(self.step)}"


def passes_limit(measured: Measurement, limit_bytes: int) -> Passes | None:
    """None where it does not, or nothing grows."""
    growing = measured.ram_growth
    known = [one.to_come_bytes for one in growing if one.to_come_bytes is not None]
    if not growing or measured.ram_peak_bytes is None:
        return None
    level: float = measured.ram_peak_bytes
    if measured.ram_projected_bytes is not None and len(known) == len(growing):
        level = measured.ram_projected_bytes - sum(known)
    low, high = 0, FARTHEST_STEP
    if _after(level, growing, high) <= limit_bytes:
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _after(level, growing, middle) > limit_bytes else (middle + 1, high)
    step = low + measured.steps_measured
    each = measured.step_time_s.mean if measured.step_time_s is not None else None
    return Passes(step=step, seconds=None if each is None else step * each)


def growth_lines(measured: Measurement, limit_bytes: int | None) -> list[str]:
    lines = [_line(one, measured) for one in measured.ram_growth]
    if lines and limit_bytes is not None and (passes := passes_limit(measured, limit_bytes)) is not None:
        lines.append(f"that passes the RAM limit of {bytes_(limit_bytes)} {passes.text()}")
    return [*lines, *_unseen_line(measured, limit_bytes)]


def _unseen_line(measured: Measurement, limit_bytes: int | None) -> list[str]:
    """Said where it decides: what is projected fits the limit, and the end of the interval does not."""
    unseen, interval, projected = (
        measured.ram_unseen_bytes_per_step,
        measured.ram_projected_ci95,
        measured.ram_projected_bytes,
    )
    if unseen is None or interval is None or projected is None or limit_bytes is None:
        return []
    if not projected <= limit_bytes < interval[1]:
        return []
    return [
        f"a leak of less than {bytes_(unseen)} a step would not have been seen in so short a time; over the planned"
        f" run the RAM limit of {bytes_(limit_bytes)} holds only less than"
        f" {bytes_(unseen * (limit_bytes - projected) / (interval[1] - projected))} a step"
    ]


def growth_advice(measured: Measurement, room_bytes: int | None) -> list[str]:
    """`room_bytes`: the limit, or the RAM that is free; None where it was used up."""
    lines = []
    for one in measured.ram_growth:
        if not _matters(one, room_bytes):
            continue
        if one.kind == "copy_on_write":
            lines.append(
                "keep what the data set knows of its samples in numpy arrays or tensors, not in Python lists and dicts:"
                " forked workers then share it for good (or fewer workers: each makes copies of its own)"
            )
        elif one.who == "shared":
            lines.append(
                "tensors in shared memory are kept: batches in a list that grows, or .share_memory_() without an end"
            )
        elif one.who == "others":
            lines.append("a process that the training started grows: a logger, a tracker or a server beside it")
        elif one.who == "main":
            lines.append(
                "the training's own process keeps something of every step: losses without .item() or .detach(), outputs"
                " or batches in a list that grows"
            )
        else:
            again = "; persistent_workers=false would let it go with each epoch" if _persistent(measured) else ""
            lines.append(f"the data set keeps something of every sample in its workers: a cache, or a list{again}")
    return lines


def _matters(one: RamGrowth, room_bytes: int | None) -> bool:
    """Where it ends with little of the room, nobody gains by a search for its cause."""
    return room_bytes is None or one.to_come_bytes is None or one.to_come_bytes >= MATTERS * room_bytes


def _line(one: RamGrowth, measured: Measurement) -> str:
    pace = f"{bytes_(one.bytes_per_step)} a step"
    come = ""
    if one.to_come_bytes is not None:
        come = f", {bytes_(one.to_come_bytes)} more by the end of {_end(one, measured)}"
    if one.kind == "copy_on_write":
        workers = measured.effective_settings.get("workers")
        count = f"{workers} " if isinstance(workers, int) else ""
        most = f" (at most {bytes_(one.cap_bytes)})" if one.cap_bytes is not None else ""
        return f"RAM grows by {pace}{come}{most}: {count}forked workers copy the data set's pages as they touch them"
    whose = WHOSE[one.who]
    return f"RAM grows by {pace}{come}: {whose} leaks, or fills a cache whose end was not seen"


def _end(one: RamGrowth, measured: Measurement) -> str:
    if one.until is not None:
        return "an epoch" if one.until == "epoch" else "the run"
    return "an epoch" if one.who == "workers" and not _persistent(measured) else "the run"


def _persistent(measured: Measurement) -> bool:
    return measured.effective_settings.get("persistent_workers") is True


def _after(level: float, growing: Sequence[RamGrowth], steps: int) -> float:
    return level + sum(_grown(one, steps) for one in growing)


def _grown(one: RamGrowth, steps: int) -> float:
    lasting = steps if one.steps is None else min(steps, one.steps)
    if one.kind == "leak":
        return one.bytes_per_step * lasting
    if not one.to_come_bytes:
        return 0.0
    if one.steps is None:
        return one.to_come_bytes * -math.expm1(-one.bytes_per_step * lasting / one.to_come_bytes)
    # The same law, made to come to its projected sum at its end.
    cap = max(one.cap_bytes or 0, one.to_come_bytes)
    whole = -math.expm1(-one.bytes_per_step * one.steps / cap)
    return one.to_come_bytes * -math.expm1(-one.bytes_per_step * lasting / cap) / whole if whole > 0 else 0.0


def _rounded(step: int) -> str:
    digits = max(0, len(str(step)) - 3)
    return f"{round(step, -digits):,}".replace(",", " ")
