"""What watching takes from the machine that is being watched."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.trainings import Training, watching


@pytest.mark.timing
def test_watching_takes_less_than_a_fiftieth_of_a_core(start: Callable[..., Training]) -> None:
    training = start("sleep", "fork")
    training.wait_for_steps()
    watched = watching(training)
    try:
        time.sleep(3.0)
        begun_s, before_s = time.monotonic(), _cpu_s(watched.pid)
        time.sleep(8.0)
        share = (_cpu_s(watched.pid) - before_s) / (time.monotonic() - begun_s)
    finally:
        watched.kill()
        watched.communicate()
    assert share < 0.02


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
