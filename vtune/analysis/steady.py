"""What a window can know of a long run, and what keeps its rate from being called steady: docs/decisions/0020."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from vtune.analysis.costs import Costs
from vtune.analysis.courses import Course, courses_of
from vtune.analysis.doubts import with_doubts
from vtune.analysis.roles import Roles
from vtune.analysis.tail import RULE_OF_THREE
from vtune.analysis.window import StepWindow
from vtune.domain.events import Fact
from vtune.domain.experiment import PlannedRun
from vtune.domain.record import Measurement
from vtune.domain.steady import (
    GROUND_S,
    GROUND_STEPS,
    CacheFills,
    Doubt,
    FromStorage,
    Ground,
    NotComeYet,
    Order,
    PartOfEpoch,
    ShortWindow,
    Spells,
    Trend,
    TrendUnseen,
)

# A change of a window's costs is shown beyond so many standard errors (1 %, both ways) …
SURELY = 2.6
# … and felt from this share of the rate on.
FELT = 0.03
# A change of up to this share may stay unseen; 95 % of the chances lie within so many standard errors, one way.
UNSEEN = 0.10
LIKELY = 1.64
# A window has to hold so many spells; what moves the rate by less than this does not matter.
LEAST_SPELLS = 10
SPELLS_FELT = 0.02
# Read in no random order, the rest of an epoch is known from here on.
MOST_OF_EPOCH = 0.9
# The rate hangs on the loader by this much, and its workers spend this share of their time not computing.
HANGS = 0.1
WAITS_FOR_DATA = 0.5
# From this share of busy cores on, a worker that does not compute may wait for a core and not for data. Less than
# CORES_FULL: processes queue for cores before the mean over a window comes to that.
CORES_BUSY = 0.8
# Memory that grows by this share of what the samples take is a cache's.
KEPT = 0.5


def with_ground(
    measured: Measurement,
    costs: Costs | None,
    *,
    roles: Roles,
    regular: Sequence[StepWindow],
    facts: Sequence[Fact],
    planned: PlannedRun,
    cores: float | None,
) -> Measurement:
    """`costs`: those that the rate was replayed from; None where it was not."""
    if measured.samples_per_s is None or not regular:
        return measured
    ground = _ground(measured, roles, regular)
    measured = replace(measured, ground=ground)
    short = ground.steps < GROUND_STEPS or ground.seconds < GROUND_S
    courses = courses_of(costs) if costs is not None else []
    doubts = [
        *(doubt for course in courses for doubt in _of_course(course, ground, short=short)),
        *_of_cache(measured, roles, facts),
        *([ShortWindow(steps=ground.steps, seconds=ground.seconds)] if short else []),
        *_of_order(ground),
        *_of_storage(measured, courses, ground, cores),
        *_of_intervals(measured, planned, roles),
    ]
    return with_doubts(measured, *doubts)


def _ground(measured: Measurement, roles: Roles, regular: Sequence[StepWindow]) -> Ground:
    steps = len(regular)
    read = _epochs_read(measured, roles)
    return Ground(
        steps=steps,
        seconds=sum(window.duration_s for window in regular),
        order=_order(roles),
        epoch_fraction=None if read is None else min(1.0, read),
        first_epoch_only=read is None or read < 1,
        rarest_steps=max(1, int(steps / RULE_OF_THREE)),
    )


def _order(roles: Roles) -> Order | None:
    told = {one.order for one in roles.passes}
    if not roles.passes:
        return None
    return told.pop() if len(told) == 1 else Order.UNKNOWN


def _epochs_read(measured: Measurement, roles: Roles) -> float | None:
    """By all ranks together. A pass that ended is an epoch, unless each goes over a part of one."""
    by_parts = roles.goes_through_parts or measured.samples_per_part is not None
    if not by_parts and any(one.samples is not None for one in roles.passes):
        return 1.0
    if not measured.samples_per_epoch or not roles.batches:
        return None
    last = roles.batches[-1].pass_number
    own = (batch for batch in roles.batches if by_parts or batch.pass_number == last)
    return sum(batch.samples or batch.leading for batch in own) * len(roles.ranks) / measured.samples_per_epoch


def _of_course(course: Course, ground: Ground, *, short: bool) -> Iterator[Doubt]:
    change, error = course.change
    if abs(change) > SURELY * error and course.weight * abs(change) > FELT:
        yield Trend(side=course.side, change=change, seconds=ground.seconds)
    elif not short and course.weight * (abs(change) + LIKELY * error) > UNSEEN:
        yield TrendUnseen(side=course.side, change=abs(change) + LIKELY * error)
    count, lasts = len(course.ratios), course.lasts
    if count < LEAST_SPELLS * lasts and course.weight * course.error > SPELLS_FELT:
        yield Spells(side=course.side, lasts_steps=lasts * ground.steps / count, steps=ground.steps)


def _of_cache(measured: Measurement, roles: Roles, facts: Sequence[Fact]) -> list[Doubt]:
    ours = {roles.pid, *(pid for one in roles.passes for pid in one.worker_pids)}
    grown = [fact.data.get("attribute") for fact in facts if fact.name == "data_set_grows" and fact.pid in ours]
    if grown:
        return [CacheFills(attribute=str(grown[0]))]
    if not measured.batch_bytes:
        return []
    # Beside workers the main process holds no sample of the data set: its own growth is of other things, as of an
    # allocator that settles.
    reads = "workers" if roles.workers else "main"
    kept = any(
        growth.kind == "leak" and growth.who == reads and growth.bytes_per_step > KEPT * measured.batch_bytes
        for growth in measured.ram_growth
    )
    return [CacheFills()] if kept else []


def _of_order(ground: Ground) -> list[Doubt]:
    if ground.order in (None, Order.SHUFFLED) or (ground.epoch_fraction or 0.0) >= MOST_OF_EPOCH:
        return []
    assert ground.order is not None
    return [PartOfEpoch(order=ground.order, fraction=ground.epoch_fraction)]


def _of_intervals(measured: Measurement, planned: PlannedRun, roles: Roles) -> list[Doubt]:
    seen = {pause.what for pause in measured.pauses}
    return [
        NotComeYet(what=what, every_steps=steps)
        for what, steps in planned.every_steps.items()
        if what not in seen and steps > len(roles.steps)
    ]


def _of_storage(measured: Measurement, courses: Sequence[Course], ground: Ground, cores: float | None) -> list[Doubt]:
    hangs = any(course.side == "loader" and course.weight > HANGS for course in courses)
    computing = measured.worker_cost.cpu_fraction if measured.worker_cost is not None else None
    if not hangs or computing is None or (ground.epoch_fraction or 0.0) >= MOST_OF_EPOCH:
        return []
    if cores and (measured.tree_cores or 0.0) + (measured.others_cores or 0.0) > CORES_BUSY * cores:
        return []
    return [FromStorage(waiting=1 - computing)] if computing < WAITS_FOR_DATA else []
