"""Other programs on the cores, in words."""

from __future__ import annotations

from vtune.domain.advice import Advice
from vtune.domain.others import OthersOnCores
from vtune.domain.record import Diagnosis

# Names in one line.
SHOWN_PROGRAMS = 3
# Beside every number that was measured so.
MARK = "busy machine"
STOP_THEM = "stop the other programs, give them longer to end (--busy-wait 5m), or measure all the same (--anyway)"
MEASURE_AGAIN = "stop the other programs and measure again"


def use_text(others: OthersOnCores, verb: str = "use") -> str:
    """other programs use 1.9 of 2 cores (pid 412 ffmpeg: 1.0, pid 977 python train.py: 0.9)"""
    return f"other programs {verb} {others.used:.1f} of {others.cores:g} cores{who_text(others)}"


def who_text(others: OthersOnCores) -> str:
    named = [f"pid {one.pid} {one.name}: {one.cores:.1f}" for one in others.programs[:SHOWN_PROGRAMS]]
    more = len(others.programs) - len(named)
    named += [f"{more} more"] if more else []
    return f" ({', '.join(named)})" if named else " (none of them could be named)"


def busy_diagnosis(others: OthersOnCores) -> Diagnosis:
    """In place of a verdict, a prediction and advice."""
    return Diagnosis(
        bottleneck="unknown",
        verdict=f"no verdict, measured on a busy machine: {use_text(others, 'used')} while it ran",
        advice=(Advice(MEASURE_AGAIN),),
    )
