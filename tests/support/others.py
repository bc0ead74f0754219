"""Other programs on the cores: as facts of a record, and as real ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from vtune.analysis.others import without_prediction
from vtune.analysis.others_words import busy_diagnosis
from vtune.domain.others import LEAST_BUSY_CORES, OtherProgram, OthersOnCores, others_on_cores
from vtune.domain.record import TrialRecord
from vtune.telemetry.other_programs import VARIABLE, load_now

CORES = len(os.sched_getaffinity(0))
# For a command that is to look at the machine as it is.
LOOKS = {VARIABLE: ""}


def others(used: float = 1.9, cores: float = 2.0, *pids: int) -> OthersOnCores:
    programs = [OtherProgram(pid=pid, name="ffmpeg", cores=used / len(pids)) for pid in pids]
    return others_on_cores(cores=cores, wanted=cores, used=used, taken=used, programs=programs)


def disturbed(record: TrialRecord, *pids: int) -> TrialRecord:
    """The same trial as a busy machine would have it."""
    found = others(1.9, 2.0, *(pids or (412,)))
    measurement = replace(without_prediction(record.measurement), others=found)
    return replace(record, measurement=measurement, diagnosis=busy_diagnosis(found))


def skip_where_others_are() -> None:
    """For a test that has to begin on a quiet machine, or to name its own burners and no others."""
    used = load_now(1.0).others_cores
    # Its own subject stands in its way: nobody can show a quiet machine on one that somebody else keeps busy.
    if used is not None and used >= LEAST_BUSY_CORES:
        pytest.skip(f"other programs use {used:.1f} cores of this machine already")


@contextmanager
def burners(number: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Each keeps a core busy until the test has done with it."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()
