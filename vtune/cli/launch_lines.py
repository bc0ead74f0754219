"""A launch as it runs, in lines: each event at once, how far it is ever more seldom."""

from __future__ import annotations

import time

from rich.console import Console

from vtune.domain.launch import LaunchEvent
from vtune.domain.numbers import rate, seconds
from vtune.launcher.telling import LaunchProgress
from vtune.reporting.inert import harmless
from vtune.reporting.launch_words import WHOLE

FIRST_S, LATER, SELDOM_S = 5.0, 1.3, 600.0


class LaunchLines:
    def __init__(self, out: Console) -> None:
        self._out = out
        self._apart_s = FIRST_S
        self._due_s = time.monotonic() + FIRST_S
        self._still = False

    def __call__(self, event: LaunchEvent | LaunchProgress) -> None:
        if isinstance(event, LaunchEvent):
            self._out.print(f"{_clock(event.at)} {harmless(event.text, WHOLE)}", markup=False, soft_wrap=True)
            return
        began_to_stand_still = event.still_s is not None and not self._still
        self._still = event.still_s is not None
        # By the hundredth line the next is ten minutes away, and a hang is called after two.
        if time.monotonic() < self._due_s and not began_to_stand_still:
            return
        self._apart_s = min(SELDOM_S, LATER * self._apart_s)
        self._due_s = time.monotonic() + self._apart_s
        self._out.print(f"{_clock(time.time())} {progress_text(event)}", markup=False, soft_wrap=True)


def progress_text(now: LaunchProgress) -> str:
    of = "" if now.steps_at_end is None else f" of {now.steps_at_end}"
    achieved = now.achieved.samples_per_s
    if now.achieved.counters_gone:
        return f"how far it is after {seconds(now.seconds)} is unknown: its counters are gone"
    text = f"step {now.steps}{of} after {seconds(now.seconds)}"
    if now.still_s is not None:
        text += f" · no step, batch or checkpoint for {seconds(now.still_s)}"
        if now.hang_after_s is not None:
            text += f"; with nobody of it at work, a hang is called after {seconds(now.hang_after_s)}"
        return text
    if achieved is None:
        return text
    text += f" · {rate(achieved)} samples/s"
    if now.promised:
        text += f", {achieved / now.promised:.0%} of the {rate(now.promised)} promised"
    if now.run_s is not None:
        text += f" · {seconds(now.achieved.left_s)} left: {seconds(now.run_s)} for the whole run"
        text += "" if now.promised_run_s is None else f", {seconds(now.promised_run_s)} promised"
    return text


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))
