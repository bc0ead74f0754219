"""Validation and checkpoints: when the training stood still for them, and for how long."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from vtune.analysis.roles import Roles
from vtune.analysis.window import StepWindow
from vtune.domain.events import BatchDelivered, Fact
from vtune.domain.record import Measurement, Pause

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
    # Of a validation before the first step that was cut: so many batches of it were seen.
    cut_after_batches: int | None = None


def stops_of(roles: Roles, facts: Sequence[Fact]) -> list[Stop]:
    """On the main thread of the leading process. One that no step follows has not ended as far as anybody knows."""
    ends = [step.ended_s for step in roles.steps]
    own = [fact for fact in facts if fact.pid == roles.pid]
    saves = sorted((_Save.of(fact, ends) for fact in own if fact.name == "saved"), key=lambda save: save.begun_s)
    passes = {int(fact.data["pass"]): fact.data for fact in own if fact.name == "pass" and "pass" in fact.data}
    ended = {fact.data.get("pass") for fact in own if fact.name == "pass_end"}
    goes_on = sorted(
        [
            *(one.begun_s for feeder in roles.feeders for one in feeder.passes if one.begun_s is not None),
            *(batch.asked_s for batch in roles.fed),
            *(save.begun_s for save in saves),
            *ends,
        ]
    )
    blocks = validation_blocks(roles, ends)
    validations = [
        _validation(step, block, ends, goes_on, saves, passes, ended)
        for step, block in blocks.items()
        if step < len(ends)
    ]
    shown = [fact for fact in own if fact.name == "evaluated"]
    validations += [stop for stop in _without_loader(shown, roles, ends, saves) if stop.step not in blocks]
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


def pauses_of(
    stops: Sequence[Stop],
    windows: Sequence[StepWindow],
    regular: Sequence[StepWindow],
    every_steps: Mapping[What, int] | None = None,
) -> tuple[Pause, ...]:
    """What the rate or the restart holds already, and what a run would pay beside them. `regular`: the steps that are
    measured. `every_steps`: as the training's own words have it."""
    found = []
    rare = {(stop.what, stop.step) for stop in seldom(stops, windows)}
    begin_s = regular[0].started_s
    held = {window.number for window in windows if window.boundary or window.started_s >= begin_s}
    for what in KINDS:
        own = [stop for stop in stops if stop.what == what and (what, stop.step) in rare]
        if own:
            apart = _steps_apart(own) or (every_steps or {}).get(what)
            found.append(Pause(what=what, seconds=_mean_s(own), seen=len(own), seldom=True, every_steps=apart))
    for what in KINDS:
        counted = [stop for stop in stops if stop.what == what and (what, stop.step) not in rare and stop.step in held]
        if counted:
            found.append(_counted(what, counted, regular))
    # A whole validation before the first step tells what one at the end of an epoch takes, where none was seen. A file
    # that is saved there may be anything.
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
                cut_after_batches=last.cut_after_batches,
            )
        )
    return tuple(found)


def _counted(what: What, stops: Sequence[Stop], regular: Sequence[StepWindow]) -> Pause:
    by_number = {window.number: window for window in regular}
    within = [stop for stop in stops if stop.step in by_number]
    total_s = sum(window.duration_s for window in regular)
    waited_s = sum(
        batch.returned_s - batch.asked_s
        for stop in within
        for batch in by_number[stop.step].other_batches
        if batch.main_thread and stop.begun_s <= batch.asked_s < stop.ended_s
    )
    in_rate = bool(within) and total_s > 0
    return Pause(
        what=what,
        seconds=_mean_s(stops),
        seen=len(stops),
        counted=True,
        every_steps=_steps_apart(within),
        time_fraction=min(1.0, sum(stop.seconds for stop in within) / total_s) if in_rate else None,
        wait_fraction=min(1.0, waited_s / total_s) if in_rate else 0.0,
    )


def paused(measured: Measurement) -> float:
    """Share of the time in pauses that the rate holds, their waiting for batches apart."""
    return sum(max(0.0, (one.time_fraction or 0.0) - one.wait_fraction) for one in measured.pauses)


def _mean_s(stops: Sequence[Stop]) -> float:
    return sum(stop.seconds for stop in stops) / len(stops)


def _steps_apart(stops: Sequence[Stop]) -> float | None:
    return (stops[-1].step - stops[0].step) / (len(stops) - 1) if len(stops) > 1 else None


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
    ends: Sequence[float],
    goes_on: Sequence[float],
    saves: Sequence[_Save],
    passes: Mapping[int, Mapping[str, Any]],
    ended: set[object],
) -> Stop:
    """`goes_on`: when the training is seen to do something else, in order; so are `saves`."""
    since = ends[step - 1] if step else 0.0
    first, last = block[0], block[-1]
    begun = first.asked_s
    told = passes.get(first.pass_number, {}).get("begun")
    if isinstance(told, (int, float)):
        begun = max(since, min(begun, float(told)))
    # Until the training goes on, as far as it is seen.
    end = goes_on[bisect_left(goes_on, last.returned_s)]
    first_save = bisect_left(saves, begun, key=_begun)
    saved = sum(save.ended_s - save.begun_s for save in saves[first_save : bisect_left(saves, end, key=_begun)])
    # Before the first step a cut one is a look at whether validation works at all, and the real one goes on to its end.
    # One that the script breaks off later it will break off each time.
    cut = 0
    for number in dict.fromkeys(batch.pass_number for batch in block if step == 0):
        seen = sum(batch.pass_number == number for batch in block)
        length = passes.get(number, {}).get("length")
        if number not in ended and isinstance(length, int) and seen < length:
            cut += seen
    return Stop(
        what="validation",
        step=step,
        begun_s=begun,
        ended_s=end,
        seconds=end - begun - saved,
        cut_after_batches=cut or None,
    )


def _without_loader(
    shown: Sequence[Fact], roles: Roles, ends: Sequence[float], saves: Sequence[_Save]
) -> Iterator[Stop]:
    """Forwards without gradients were seen in some of the pauses between a step and the next batch; those that last
    half as long, saving apart, are the same."""
    if not shown:
        return
    least_s = min(float(fact.data["ended"]) - float(fact.data["begun"]) for fact in shown) / 2
    asked = sorted(batch.asked_s for batch in (*roles.fed, *roles.other_batches) if batch.main_thread)
    for step, (ended_s, next_s) in enumerate(pairwise(ends), 1):
        place = bisect_left(asked, ended_s)
        if place == len(asked) or asked[place] >= next_s:
            continue  # several steps of one batch
        first, last = bisect_left(saves, ended_s, key=_begun), bisect_left(saves, asked[place], key=_begun)
        pause_s = asked[place] - ended_s - sum(save.ended_s - save.begun_s for save in saves[first:last])
        if pause_s >= least_s:
            yield Stop(what="validation", step=step, begun_s=ended_s, ended_s=asked[place], seconds=pause_s)


def _begun(save: _Save) -> float:
    return save.begun_s


def _rare(stops: Sequence[Stop], steps: int) -> list[Stop]:
    return [] if len(stops) > PART_OF_STEPS * steps else sorted(stops, key=lambda stop: stop.step)
