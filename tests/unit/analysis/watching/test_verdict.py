from __future__ import annotations

import pytest

from vtune.analysis.watching.growth import growth_of, passes_in_s
from vtune.analysis.watching.renting import costs_text, tuning_text
from vtune.analysis.watching.verdict import verdict_of
from vtune.domain.experiment import Price
from vtune.domain.watching import Look, ProcessNow, Role, Verdict

MIB = 2**20


def _does(
    pid: int,
    role: Role,
    *,
    cores: float = 0.0,
    queued: float | None = 0.0,
    state: str = "S",
    sleeps_in: str | None = None,
    moves: int | None = 100,
) -> tuple[int, Role, float, float | None, str, str | None, int | None]:
    """A process at an even pace."""
    return pid, role, cores, queued, state, sleeps_in, moves


def _looks(
    *processes: tuple[int, Role, float, float | None, str, str | None, int | None], seconds: int = 10, lines: int = 0
) -> list[Look]:
    return [
        Look(
            t_s=t / 2,
            log_lines=lines,
            processes=tuple(
                ProcessNow(
                    pid=pid, role=role, state=state, cpu_s=cores * t / 2,
                    queued_s=None if queued is None else queued * t / 2,
                    anon_bytes=MIB, moved_bytes=None if moves is None else moves * t, read_bytes=0, written_bytes=0,
                    sleeps_in=sleeps_in,
                )
                for pid, role, cores, queued, state, sleeps_in, moves in processes
            ),
        )
        for t in range(2 * seconds + 1)
    ]  # fmt: skip


ASLEEP = _does(1, "training", cores=0.02, sleeps_in="poll_schedule_timeout")
WORKS = [_does(pid, "worker", cores=0.98, state="R") for pid in (2, 3)]
IDLE = [_does(pid, "worker", cores=0.01, sleeps_in="poll_schedule_timeout") for pid in (2, 3)]


def test_a_sleeping_training_with_workers_at_full_cpu_is_starved() -> None:
    found = verdict_of(_looks(ASLEEP, *WORKS))
    assert found.kind == "starved" and "2 workers are at full CPU" in found.sentence
    assert found.wait_share == pytest.approx(0.98)
    assert "main process at 2% of a core, asleep in poll_schedule_timeout" in found.evidence


def test_workers_that_wait_for_a_disk_or_for_a_core_starve_it_too() -> None:
    disk = [_does(pid, "worker", cores=0.05, state="D") for pid in (2, 3)]
    assert "wait for storage" in verdict_of(_looks(ASLEEP, *disk)).sentence
    crowded = [_does(pid, "worker", cores=0.5, queued=0.45, state="R") for pid in (2, 3)]
    assert "short of cores" in verdict_of(_looks(ASLEEP, *crowded)).sentence


def test_workers_that_sleep_over_their_work_starve_it_but_those_that_wait_for_work_do_not() -> None:
    slow = [_does(pid, "worker", cores=0.01, sleeps_in="hrtimer_nanosleep") for pid in (2, 3)]
    assert verdict_of(_looks(ASLEEP, *slow)).kind == "starved"
    assert verdict_of(_looks(ASLEEP, *IDLE)).kind == "unknown"
    # Where the kernel does not tell where it sleeps, nothing is made up.
    unseen = [_does(pid, "worker", cores=0.01) for pid in (2, 3)]
    assert verdict_of(_looks(ASLEEP, *unseen)).kind == "unknown"


def test_a_training_that_pauses_by_itself_does_not_wait_for_data() -> None:
    slow = [_does(pid, "worker", cores=0.01, sleeps_in="hrtimer_nanosleep") for pid in (2, 3)]
    found = verdict_of(_looks(_does(1, "training", cores=0.03, sleeps_in="hrtimer_nanosleep"), *slow))
    assert found.kind == "unknown" and found.sentence == (
        "cannot be told: its main process sleeps by itself, for no batch, and so do its workers"
    )


def test_a_training_at_full_cpu_computes_also_while_it_waits_for_a_core() -> None:
    busy = _does(1, "training", cores=1.4, state="R")
    assert verdict_of(_looks(busy, *IDLE)).kind == "cpu"
    crowded = verdict_of(_looks(_does(1, "training", cores=0.5, queued=0.5, state="R"), *IDLE))
    assert crowded.kind == "cpu" and "short of cores" in crowded.sentence


def test_without_workers_loading_is_not_told_from_computing() -> None:
    found = verdict_of(_looks(_does(1, "training", cores=1.0, state="R")))
    assert found.kind == "cpu" and "vtune probe tells them apart" in found.sentence and found.wait_share is None
    assert verdict_of(_looks(_does(1, "training", cores=0.1, state="D"))).kind == "starved"


def test_with_a_gpu_it_decides_and_the_training_is_told_from_its_workers() -> None:
    spins = _does(1, "training", cores=1.0, state="R")
    assert verdict_of(_looks(spins, *IDLE), gpu_percent=97).kind == "gpu"
    assert verdict_of(_looks(spins, *IDLE), gpu_percent=20).kind == "host"
    starved = verdict_of(_looks(ASLEEP, *WORKS), gpu_percent=20)
    assert starved.kind == "starved" and starved.wait_share == pytest.approx(0.8)
    assert verdict_of(_looks(ASLEEP, *IDLE), gpu_percent=20).kind == "unknown"


def test_it_stands_still_only_where_nothing_at_all_moves() -> None:
    hangs = [_does(pid, "worker", sleeps_in="futex_do_wait", moves=0) for pid in (2, 3)]
    main = _does(1, "training", cores=0.001, moves=0)
    assert verdict_of(_looks(main, *hangs)).kind == "still"
    assert verdict_of(_looks(main, *hangs, seconds=5)).kind != "still"
    assert verdict_of(_looks(main, *hangs, lines=1)).kind != "still"
    assert verdict_of(_looks(main, *hangs), gpu_percent=99).kind == "gpu"
    assert verdict_of(_looks(_does(1, "training", moves=5), *hangs)).kind != "still"
    assert verdict_of(_looks(main, _does(2, "worker", state="D", moves=0))).kind != "still"


def test_two_seconds_are_no_verdict() -> None:
    assert verdict_of(_looks(ASLEEP, *WORKS, seconds=2)).kind == "unknown"
    assert verdict_of([]).kind == "unknown"


def test_a_tree_without_a_training_is_said_to_be_none() -> None:
    found = verdict_of(_looks(_does(1, "other")))
    assert found.kind == "unknown" and "no process of it holds torch" in found.sentence


def test_growth_is_told_by_the_minute_with_the_time_to_the_limit() -> None:
    levels = [(5.0 * n, 100 * MIB + n * 5 * MIB + (n % 2) * MIB // 10) for n in range(13)]
    growth = growth_of(levels)
    assert growth is not None and growth.bytes_per_s == pytest.approx(MIB, rel=0.02)
    assert passes_in_s(growth, 300 * MIB) == pytest.approx(300, rel=0.02)


def test_what_only_swings_passes_no_limit_and_a_short_look_tells_no_growth() -> None:
    swings = growth_of([(5.0 * n, 100 * MIB + (n % 2) * 20 * MIB) for n in range(13)])
    assert passes_in_s(swings, 100 * MIB) is None
    assert growth_of([(1.0 * n, n * MIB) for n in range(10)]) is None


PRICE = Price(per_hour=3.67)
STARVED = Verdict(kind="starved", sentence="", wait_share=0.8)


def test_the_hours_price_is_split_into_what_is_spent_on_waiting() -> None:
    assert costs_text(PRICE, STARVED) == "3.67 an hour, of which about 2.94 for waiting"
    assert costs_text(PRICE, Verdict(kind="gpu", sentence="")) == "3.67 an hour"
    assert costs_text(None, STARVED) is None


def test_stopping_to_tune_pays_where_much_is_left_and_is_not_told_where_that_is_unknown() -> None:
    assert tuning_text(360_000.0, STARVED).startswith("it may pay: data for free would save 3.33 d")
    assert tuning_text(1200.0, STARVED).startswith("it would hardly pay")
    assert tuning_text(None, STARVED).startswith("cannot be told") and "--epochs" in tuning_text(None, STARVED)
    assert "would not pay" in tuning_text(1e6, Verdict(kind="gpu", sentence=""))
    assert tuning_text(1e6, Verdict(kind="unknown", sentence="")).startswith("cannot be told")


def test_a_stopped_training_is_said_to_be_stopped() -> None:
    found = verdict_of(_looks(_does(1, "training", state="T", moves=0), _does(2, "worker", moves=0)))
    assert found.kind == "still" and "was stopped by a signal" in found.sentence
    # Its workers go on until their queue is full.
    assert verdict_of(_looks(_does(1, "training", state="T", moves=0), *WORKS)).kind == "still"


def test_nobody_is_told_to_signal_a_process_that_has_ended() -> None:
    looks = _looks(_does(1, "training", state="T", moves=0))
    found = verdict_of(looks, ended=True)
    assert found.kind != "still" and "kill" not in found.sentence
    assert found.sentence == "it has ended: process 1 had been stopped by a signal"


def test_workers_that_start_anew_with_each_epoch_count_also_between_two_of_them() -> None:
    looks = _looks(ASLEEP, *WORKS)
    between = [*looks[:-2], *_looks(ASLEEP)[-2:]]
    assert verdict_of(between).sentence == verdict_of(looks).sentence
    # And at the very moment when the next ones have come up.
    fresh = _looks(ASLEEP, _does(4, "worker"))[-1]
    assert verdict_of([*between[:-1], fresh]).sentence == verdict_of(looks).sentence
