"""A rate that is not shown to be steady: its doubts, in words, and what its window could not have seen."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from vtune.domain.numbers import rate, seconds, workers_text
from vtune.domain.record import Measurement
from vtune.domain.steady import (
    CacheFills,
    Contradicted,
    Doubt,
    Drained,
    FewBatches,
    FewSteps,
    FromStorage,
    Ground,
    LoaderUnseen,
    NoLoader,
    NotComeYet,
    Order,
    PartOfEpoch,
    ShortWindow,
    Side,
    Spells,
    Trend,
    TrendUnseen,
    WideInterval,
    only_unseen,
)


def with_doubts(measured: Measurement, *doubts: Doubt) -> Measurement:
    """Besides those that there are already."""
    found = (*measured.doubts, *doubts)
    because = doubt_text(found[0]) if found else None
    return replace(measured, doubts=found, steady=not found, unsteady_because=because)


def is_calm(measured: Measurement) -> bool:
    """Steady, or nothing that was seen speaks against it."""
    return measured.steady or only_unseen(measured.doubts)


def steady_lines(measured: Measurement) -> list[str]:
    """Each doubt that the ground does not tell already, and the ground."""
    told = [doubt_text(doubt) for doubt in measured.doubts if not isinstance(doubt, ShortWindow | PartOfEpoch)]
    if not measured.doubts and measured.unsteady_because:
        told = [measured.unsteady_because]  # of an older version
    because = [f"not shown to be steady: {one}" for one in told]
    return [*because, *([ground_text(measured.ground)] if measured.ground is not None else [])]


def doubt_text(doubt: Doubt) -> str:
    match doubt:
        case NoLoader():
            return "no loader was seen to feed the steps"
        case FewSteps(steps=steps):
            return f"only {steps} {'step was' if steps == 1 else 'steps were'} measured"
        case FewBatches(batches=batches, workers=workers):
            return f"only {batches} batches of {workers_text(workers)} were seen"
        case WideInterval(of=of):
            return f"the {of} vary too much for this window"
        case Contradicted(replayed=replayed, seen=seen):
            return f"the replay of its loader comes to {rate(replayed)} samples/s, the window to {rate(seen)}"
        case Drained(batches=batches):
            return f"the loader's queue drained by {batches} batches during the window: its stock hides its pace"
        case LoaderUnseen(behind="thread"):
            return "the batches pass through a thread that vtune cannot see into"
        case LoaderUnseen():
            return "the loader's workers could not be seen"
        case Trend(side=side, change=change, seconds=took):
            way = "slower" if change > 0 else "faster"
            return f"{_whose(side)} became {abs(change):.0%} {way} within {seconds(took)}"
        case TrendUnseen(side=side, change=change):
            return f"{_whose(side)} vary so much that a trend of {change:.0%} in this window could not be seen"
        case Spells(side=side, lasts_steps=lasts, steps=steps):
            return f"{_whose(side)} are slow or fast for about {lasts:.0f} steps in a row, and the window has {steps}"
        case CacheFills(attribute=None):
            return "the memory of its data set grows with the samples that it reads: later epochs may be faster"
        case CacheFills(attribute=attribute):
            return f"the data set keeps what it reads ({attribute} grows): later epochs may be faster"
        case ShortWindow(steps=steps, seconds=took):
            return f"only {steps} steps in {seconds(took)} were seen, and nothing spoke against it"
        case PartOfEpoch(order=order, fraction=fraction):
            part = "a part of an epoch" if fraction is None else f"the first {_part(fraction)} of an epoch"
            return f"{part} was read, {_in(order)}: later samples may cost something else"
        case FromStorage(waiting=waiting):
            return f"its workers wait for data {waiting:.0%} of their time: storage may be fast at first only"
        case NotComeYet(what=what, every_steps=steps):
            return f"a {what} every {steps} steps was not seen"
        case _:
            assert_never(doubt)


def ground_text(ground: Ground) -> str:
    """All that the rate can know of."""
    line = f"{ground.steps} steps in {seconds(ground.seconds)} were seen: nothing rarer than every"
    line = f"{line} {ground.rarest_steps} steps can be in this rate"
    if ground.order is None:
        return line
    if not ground.first_epoch_only:
        return f"{line}; more than one epoch was seen, {_in(ground.order)}"
    if ground.epoch_fraction is None:
        return f"{line}; samples were read {_in(ground.order)}"
    return f"{line}; the first {_part(ground.epoch_fraction)} of one epoch were read, {_in(ground.order)}"


def _whose(side: Side) -> str:
    return "its loader's batches" if side == "loader" else "its steps"


def _in(order: Order) -> str:
    match order:
        case Order.SHUFFLED:
            return "in random order"
        case Order.FILE_ORDER:
            return "in file order"
        case Order.UNKNOWN:
            return "in an order that vtune cannot see"
        case _:
            assert_never(order)


def _part(fraction: float) -> str:
    return f"{fraction:.0%}" if fraction >= 0.1 else f"{100 * fraction:.2g} %"
