"""Whether others left a trial the cores that it would have used, from its telemetry."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from vtune.analysis.others import with_others
from vtune.analysis.others_words import use_text
from vtune.analysis.window import StepWindow
from vtune.domain.events import ProcessSample, TelemetrySample
from vtune.domain.others import OtherProgram, OthersOnCores
from vtune.domain.record import Measurement

Level = Callable[[float], float]
WINDOW_S = 20.0


def sample(t_s: float, own_s: float, used: float, *, named: bool = True) -> TelemetrySample:
    process = ProcessSample(pid=10, ppid=1, name="python", rss_bytes=1, cpu_s=own_s)
    half = (OtherProgram(pid=412, name="ffmpeg", cores=used / 2), OtherProgram(pid=977, name="python", cores=used / 2))
    return TelemetrySample(
        t_s=t_s, processes=(process,), ram_bytes=None, shm_used_bytes=None, others_cores=used,
        ram_available_bytes=None, programs=(half if used else ()) if named else None,
    )  # fmt: skip


def found(used: Level, *, cores: float, own: float, regular: list[StepWindow] | None = None, named: bool = True):
    """A trial of twenty seconds that keeps `own` cores busy."""
    telemetry = [sample(n / 5, own * n / 5, used(n / 5), named=named) for n in range(int(5 * WINDOW_S))]
    return with_others(Measurement(), telemetry, regular or [], cores).others


def busy(used: Level, *, cores: float, own: float) -> OthersOnCores:
    others = found(used, cores=cores, own=own)
    assert others is not None and others.busy
    return others


def quiet(used: Level, *, cores: float, own: float) -> OthersOnCores:
    others = found(used, cores=cores, own=own)
    assert others is not None and not others.busy
    return others


def test_two_burners_on_two_cores_leave_nothing_to_measure_by() -> None:
    others = busy(lambda t_s: 1.9, cores=2.0, own=0.1)
    assert others.used == pytest.approx(1.9) and others.taken == pytest.approx(1.9)
    assert [program.pid for program in others.programs] == [412, 977]
    # Of 0.95 each.
    assert use_text(others) == "other programs use 1.9 of 2 cores (pid 412 ffmpeg: 1.0, pid 977 python: 1.0)"


def test_half_of_a_window_is_enough_and_who_left_used_half() -> None:
    others = busy(lambda t_s: 1.9 if t_s < WINDOW_S / 2 else 0.0, cores=2.0, own=0.1)
    assert others.used == pytest.approx(0.95, abs=0.02)
    assert others.programs[0].cores == pytest.approx(0.475, abs=0.02)


@pytest.mark.parametrize("own", [0.1, 0.9])
def test_one_of_two_that_leaves_in_the_middle_leaves_a_busy_machine(own: float) -> None:
    busy(lambda t_s: 1.9 if t_s < WINDOW_S / 2 else 1.0, cores=2.0, own=own)


def test_a_burst_is_no_busy_machine() -> None:
    quiet(lambda t_s: 1.9 if 5 <= t_s < 6.5 else 0.0, cores=2.0, own=1.0)


def test_one_busy_neighbour_of_many_cores_takes_nothing() -> None:
    quiet(lambda t_s: 1.0, cores=64.0, own=60.0)
    quiet(lambda t_s: 20.0, cores=64.0, own=10.0)
    busy(lambda t_s: 20.0, cores=64.0, own=44.0)


def test_a_daemon_beside_it_is_no_reason_to_refuse() -> None:
    quiet(lambda t_s: 0.15, cores=2.0, own=1.85)
    quiet(lambda t_s: 0.2, cores=1.0, own=0.8)


def test_only_the_window_counts() -> None:
    window = StepWindow(number=1, started_s=10.0, ended_s=WINDOW_S, batches=(), other_batches=(), boundary=False)
    before = found(lambda t_s: 1.9 if t_s < 9.5 else 0.0, cores=2.0, own=1.0, regular=[window])
    assert before is not None and not before.busy and before.used == 0.0


def test_where_nobody_looked_nothing_is_known() -> None:
    assert found(lambda t_s: 1.9, cores=2.0, own=0.1, named=False) is None
