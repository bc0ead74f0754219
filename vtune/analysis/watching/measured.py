"""What the counters of a full run add to what shows from outside: how long it waits for data is measured there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from vtune.analysis.watching.pace import WINDOW_S
from vtune.analysis.watching.verdict import LEAST_S
from vtune.domain.counts import ProcessCounts
from vtune.domain.watching import Verdict

# From here on the data are what it spends its time on; below, nothing is to be won at them.
_MOSTLY, _HARDLY = 0.5, 0.1


def wait_share(readings: Sequence[tuple[float, Sequence[ProcessCounts]]], now_s: float) -> float | None:
    """Of the time of the window, by whoever steps. None where their files tell nothing new: they are written with a
    batch or a step, so a training that hangs writes none."""
    window = [(t_s, {one.pid: one for one in counts}) for t_s, counts in readings if t_s >= now_s - WINDOW_S]
    shares = []
    for pid, newest in (window[-1][1] if window else {}).items():
        first = next((counts[pid] for _, counts in window if pid in counts), newest)
        seconds = newest.written_s - first.written_s
        if newest.of("step") and seconds >= LEAST_S:
            # What was waited for since before the first reading is counted with the batch that came after it.
            shares.append(min(1.0, max(0.0, (_waited_s(newest) - _waited_s(first)) / seconds)))
    return fmean(shares) if shares else None


def with_measured(found: Verdict, share: float | None, *, workers: int) -> Verdict:
    """`share`: measured, it goes before what only looks so."""
    if share is None or found.kind == "still":
        return found
    words = f"waits for the next batch in {share:.0%} of the time (measured)"
    if not workers:
        words = f"makes its batches itself, which takes {share:.0%} of the time (measured)"
    measured = replace(found, evidence=(f"main process {words}", *found.evidence), wait_share=share, wait_measured=True)
    if found.kind in ("unknown", "cpu", "host") and share >= _MOSTLY:
        return replace(measured, kind="starved", sentence=f"starved for data: it {words}", evidence=found.evidence)
    if found.kind == "starved" and share < _HARDLY:
        return replace(measured, kind="unknown", sentence="cannot be told: it waits, and hardly ever for data")
    return measured


def _waited_s(process: ProcessCounts) -> float:
    return sum(one.waited_s for one in process.of("delivered") if one.main_thread and not one.nested)
