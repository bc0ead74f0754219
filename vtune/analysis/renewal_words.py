"""A renewed promise in words."""

from __future__ import annotations

from typing import assert_never

from vtune.analysis.doubts import doubt_text
from vtune.domain.numbers import rate, seconds
from vtune.domain.renewal import OtherPace, RarePause, Renewal, RenewedBecause
from vtune.domain.steady import CacheFills, FromStorage, Order, PartOfEpoch, Trend


def renewal_text(renewal: Renewal) -> str:
    steps = f"{renewal.after_steps:,}".replace(",", " ")
    now, then = rate(renewal.samples_per_s), rate(renewal.samples_per_s_before)
    return f"promise renewed after {steps} steps: {now} instead of {then} samples/s, because {because(renewal.because)}"


def shown_text(pause: RarePause, launch: int) -> str:
    """A note for a trial whose window was too short to see the pause."""
    what = f"{'an unnamed stop' if pause.what == 'stop' else f'a {pause.what}'} of {seconds(pause.seconds)}"
    return f"launch {launch} has shown {what} {_often(pause)}, which the trial has not: its projection has it"


def because(reason: RenewedBecause) -> str:
    match reason:
        case RarePause(what=what, seconds=took):
            named = "the training stands still for" if what == "stop" else f"a {what} takes"
            return f"{named} {seconds(took)} {_often(reason)}, more seldom than its trial could see"
        case OtherPace(clocks=True, change=change):
            return f"its steps take {change:+.0%} of the time in the trial: the GPU's clocks are held down"
        case OtherPace(side=side, change=change):
            whose = "its loader's batches make its steps" if side == "loader" else "its steps are"
            way = "slower" if change > 0 else "faster"
            return f"{whose} {abs(change):.0%} {way} than in the trial, from the beginning"
        case FromStorage(waiting=waiting):
            return f"its storage gives less than in the trial: it waits for data {waiting:.0%} of the time"
        case PartOfEpoch(order=order):
            in_order = "in file order" if order is Order.FILE_ORDER else "in an order that vtune cannot see"
            return f"samples come {in_order}, and those that the trial did not read cost something else"
        case CacheFills() | Trend():
            return doubt_text(reason)
        case _:
            assert_never(reason)


def _often(pause: RarePause) -> str:
    return "at the end of each epoch" if pause.every_steps is None else f"every {pause.every_steps:.0f} steps"
