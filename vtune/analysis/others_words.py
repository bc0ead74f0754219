"""Other programs on the cores, in words."""

from __future__ import annotations

from vtune.domain.advice import Advice
from vtune.domain.others import OthersOnCores
from vtune.domain.record import Diagnosis

# Names in one line.
SHOWN_PROGRAMS = 3
# Beside every number that was measured so.
MARK = "busy machine"
STOP_THEM = "stop them, or --anyway"


def use_text(others: OthersOnCores, verb: str = "use") -> str:
    """other programs use 1.9 of 2 cores (pid 412 ffmpeg, pid 977 python)"""
    return f"other programs {verb} {others.used:.1f} of {others.cores:g} cores{who_text(others)}"


def who_text(others: OthersOnCores) -> str:
    named = [f"pid {program.pid} {program.name}" for program in others.programs[:SHOWN_PROGRAMS]]
    more = len(others.programs) - len(named)
    named += [f"{more} more"] if more else []
    return f" ({', '.join(named)})" if named else " (none of them could be named)"


def busy_diagnosis(others: OthersOnCores) -> Diagnosis:
    """In place of a verdict, a prediction and advice."""
    return Diagnosis(
        bottleneck="unknown",
        verdict=f"no verdict, measured on a busy machine: {use_text(others, 'used')} while it ran",
        advice=(Advice("stop them and measure again"),),
    )
