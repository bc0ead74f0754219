"""Validation and checkpoints: when the training stood still for them, and for how long."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from vtune.analysis.roles import Roles
from vtune.analysis.window import StepWindow
from vtune.domain.events import BatchDelivered, BatchLoaded, Fact
from vtune.domain.record import Pause

What = Literal["validation", "checkpoint"]
KINDS: tuple[What, ...] = ("validation", "checkpoint")

# What happens in more of the steps is part of them.
PART_OF_STEPS = 0.5
# In mid-epoch and so often in a window, it comes as often as it was seen; seen less often, nobody knows how often.
OFTEN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The training stood still once, before the step of this number."""

    what: What
    # Counted as windows are: 0 is before the training's first step.
    step: int
    begun_s: float
    ended_s: float
    seconds: float
    # Of a validation that was cut: how many batches the seconds were scaled from.
    scaled_from_batches: int | None = None


def stops_of(roles: Roles, loaded: Sequence[BatchLoaded], facts: Sequence[Fact]) -> list[Stop]:
    """On the main thread of the leading process. One that no step follows has not ended as far as anybody knows."""
    ends = [step.ended_s for step in roles.steps]
    own = [fact for fact in facts if fact.pid == roles.pid]
    saves = [_Save.of(fact, ends) for fact in own if fact.name == "saved"]
    passes = {int(fact.data["pass"]): fact.data for fact in own if fact.name == "pass" and "pass" in fact.data}
    ended = {fact.data.get("pass") for fact in own if fact.name == "pass_end"}
    validations = [
        _validation(step, block, roles, ends, saves, passes, ended, loaded)
        for step, block in validation_blocks(roles, ends).items()
        if step < len(ends)
    ]
    by_step: dict[int, list[_Save]] = defaultdict(list)
    for save in saves:
        by_step[save.step].append(save)
    checkpoints = [
        Stop(
            what="checkpoint",
            step=step,
            begun_s=some[0].begun_s,
            ended_s=some[-1].ended_s,
            seconds=sum(save.ended_s - save.begun_s for save in some),
        )
        for step, some in by_step.items()
        if step < len(ends)
    ]
    return [*_rare(validations, len(ends)), *_rare(checkpoints, len(ends))]


def seldom(stops: Sequence[Stop], windows: Sequence[StepWindow]) -> list[Stop]:
    """Those in mid-epoch that the rate must leave out: one in fifty steps may be one in a thousand."""
    apart = {window.number for window in windows if window.boundary}
    within = [stop for stop in stops if stop.step > 0 and stop.step not in apart]
    often = {what for what in KINDS if sum(stop.what == what for stop in within) >= OFTEN}
    return [stop for stop in within if stop.what not in often]


def pauses_of(stops: Sequence[Stop], windows: Sequence[StepWindow], begin_s: float) -> tuple[Pause, ...]:
    """What the rate or the restart holds already, and what a run would pay beside them. `begin_s`: of the steps that
    are measured."""
    found = []
    rare = seldom(stops, windows)
    for what in KINDS:
        own = [stop for stop in rare if stop.what == what]
        if own:
            mean = sum(stop.seconds for stop in own) / len(own)
            apart = (own[-1].step - own[0].step) / (len(own) - 1) if len(own) > 1 else None
            found.append(Pause(what=what, seconds=mean, seen=len(own), counted=False, seldom=True, every_steps=apart))
    stops = [stop for stop in stops if stop not in rare]
    held = {window.number for window in windows if window.boundary or window.started_s >= begin_s}
    for what in KINDS:
        counted = [stop for stop in stops if stop.what == what and stop.step in held]
        if counted:
            mean = sum(stop.seconds for stop in counted) / len(counted)
            found.append(Pause(what=what, seconds=mean, seen=len(counted), counted=True))
    # A validation before the first step tells what one at the end of an epoch takes, where none was seen. A file that
    # is saved there may be anything.
    before = [stop for stop in stops if stop.what == "validation" and stop.step == 0]
    seen_an_end = any(window.boundary for window in windows)
    if before and not found and not seen_an_end:
        last = before[-1]
        found.append(
            Pause(
                what="validation",
                seconds=last.seconds,
                seen=len(before),
                counted=False,
                scaled_from_batches=last.scaled_from_batches,
            )
        )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Save:
    step: int
    begun_s: float
    ended_s: float

    @classmethod
    def of(cls, fact: Fact, ends: Sequence[float]) -> _Save:
        seconds = float(fact.data.get("seconds") or 0.0)
        begun = float(fact.data.get("begun") or fact.t_s - seconds)
        return cls(bisect_right(ends, begun), begun, begun + seconds)


def validation_blocks(roles: Roles, ends: Sequence[float]) -> dict[int, list[BatchDelivered]]:
    """Batches of other loaders, by the step before which they came, where they can be a validation: without gradients,
    or several at once of a loader that most steps do without."""
    rare = {number for loader in roles.others if loader.share < PART_OF_STEPS for number in loader.numbers}
    by_step: dict[int, list[BatchDelivered]] = defaultdict(list)
    for batch in roles.other_batches:
        if batch.main_thread and (not batch.grad or batch.loader in rare):
            by_step[bisect_right(ends, batch.returned_s)].append(batch)
    return {step: some for step, some in by_step.items() if len(some) > 1 or not some[0].grad}


def _validation(
    step: int,
    block: Sequence[BatchDelivered],
    roles: Roles,
    ends: Sequence[float],
    saves: Sequence[_Save],
    passes: Mapping[int, Mapping[str, Any]],
    ended: set[object],
    loaded: Sequence[BatchLoaded],
) -> Stop:
    since = ends[step - 1] if step else 0.0
    first, last = block[0], block[-1]
    begun = first.asked_s
    told = passes.get(first.pass_number, {}).get("begun")
    if isinstance(told, (int, float)):
        begun = max(since, min(begun, float(told)))
    # Until the training goes on, as far as it is seen.
    next_signs = [
        *(one.begun_s for one in roles.passes if one.begun_s is not None),
        *(batch.asked_s for batch in roles.batches),
        *(save.begun_s for save in saves),
        ends[step],
    ]
    end = min(sign for sign in next_signs if sign >= last.returned_s)
    saved = sum(save.ended_s - save.begun_s for save in saves if begun <= save.begun_s < end)
    whole, scaled_from = 0.0, None
    # Before the first step it is a look at whether validation works at all, and the real one goes on to its end. One
    # that the script breaks off later it will break off each time.
    for number in dict.fromkeys(batch.pass_number for batch in block if step == 0):
        own = [batch for batch in block if batch.pass_number == number]
        length = passes.get(number, {}).get("length")
        if number not in ended and isinstance(length, int) and len(own) < length:
            begins = begun if own[0] is first else own[0].asked_s
            ends_s = end if own[-1] is last else own[-1].returned_s
            missing = length - len(own)
            whole += missing * _by_batch(own, ends_s, passes.get(number, {}), loaded, begins)
            scaled_from = (scaled_from or 0) + len(own)
    return Stop(
        what="validation",
        step=step,
        begun_s=begun,
        ended_s=end,
        seconds=end - begun - saved + whole,
        scaled_from_batches=scaled_from,
    )


def _by_batch(
    own: Sequence[BatchDelivered],
    end_s: float,
    told: Mapping[str, Any],
    loaded: Iterable[BatchLoaded],
    begun_s: float,
) -> float:
    """What one more batch of a pass takes that was cut: the slower of the loader's workers and of what was done with
    a batch."""
    done_s = (end_s - own[0].returned_s) / len(own)
    pids = set(told.get("worker_pids") or ())
    loads = [load.finished_s - load.started_s for load in loaded if load.pid in pids and load.started_s >= begun_s]
    if not pids:
        # Each batch but the first was made within that time.
        return done_s + (own[0].returned_s - own[0].asked_s) / len(own)
    return max(done_s, sum(loads) / len(loads) / len(pids)) if loads else done_s


def _rare(stops: Sequence[Stop], steps: int) -> list[Stop]:
    return [] if len(stops) > PART_OF_STEPS * steps else sorted(stops, key=lambda stop: stop.step)
