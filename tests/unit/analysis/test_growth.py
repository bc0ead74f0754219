from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from vtune.analysis.growth import ENOUGH_LOOKS, RunLength, is_undecided, run_length, with_growth
from vtune.analysis.growth_copies import cap_bytes, find_copies, worth_reading
from vtune.analysis.growth_leak import find_leak
from vtune.analysis.growth_series import Level
from vtune.analysis.roles import Roles, TrainPass
from vtune.analysis.window import step_windows
from vtune.domain.events import BatchDelivered, BatchLoaded, Fact, OptimizerStepped, ProcessSample, TelemetrySample
from vtune.domain.experiment import PlannedRun
from vtune.domain.record import Measurement

MIB = 2**20
MAIN, WORKERS = 10, (21, 22)
PLANNED = RunLength(epoch=400.0, run=800.0)


def levels(held: list[float], every: float = 6.0) -> list[Level]:
    return [Level(step=5 + n * every, bytes=int(value)) for n, value in enumerate(held)]


def sawtooth(count: int, height: float) -> np.ndarray:
    return height * (np.arange(count) % 4) / 4


def test_a_steady_leak_is_found_with_its_rate() -> None:
    leak = find_leak(levels([200 * MIB + n * 3 * MIB for n in range(14)]))
    assert leak is not None and leak.bytes_per_step == pytest.approx(MIB / 2)


def test_a_leak_below_batches_that_come_and_go_is_found() -> None:
    held = 200 * MIB + np.arange(40) * 3 * MIB + sawtooth(40, 30 * MIB)
    leak = find_leak(levels(list(held)))
    assert leak is not None and leak.ci95[0] < MIB / 2 < leak.ci95[1]


@pytest.mark.parametrize("height", [0.0, 4 * MIB, 200 * MIB])
def test_batches_that_come_and_go_are_no_leak(height: float) -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        count = int(rng.integers(8, 60))
        held = 300 * MIB + height * rng.random(count)
        assert find_leak(levels(list(held))) is None


def test_a_cache_that_has_filled_is_no_leak() -> None:
    assert find_leak(levels([200 * MIB + 80 * MIB * (1 - math.exp(-n / 3)) for n in range(20)])) is None


def test_one_jump_is_no_leak() -> None:
    assert find_leak(levels([200.0 * MIB] * 10 + [300.0 * MIB] * 10)) is None


def test_a_few_looks_show_no_leak() -> None:
    assert find_leak(levels([200 * MIB + n * 30 * MIB for n in range(5)])) is None


def copied(n: float, cap: float, rate: float) -> float:
    return cap * (1 - math.exp(-rate * n / cap))


@pytest.mark.parametrize("part", [0.6, 0.8, 1.0])
def test_copies_are_projected_to_where_they_saturate(part: float) -> None:
    cap, rate = 600 * MIB, 0.7 * MIB
    at = [5, 30, 70]
    found = find_copies([Level(step=n, bytes=int(copied(n, cap * part, rate))) for n in at], 0.0, cap)
    assert found is not None
    come, low, high = found.to_come(700 - 70)
    truth = copied(700, cap * part, rate) - copied(70, cap * part, rate)
    assert come == pytest.approx(truth, rel=0.2) and low <= truth <= 1.01 * high
    assert found.to_come(10**9)[2] <= cap


def test_the_projection_of_copies_never_passes_what_there_is_to_copy() -> None:
    cap = 100 * MIB
    found = find_copies([Level(step=n, bytes=n * MIB) for n in (2, 40, 60)], 0.0, cap)
    assert found is not None and found.to_come(10**6)[0] <= cap


def test_pages_that_are_still_shared_are_no_copies() -> None:
    assert find_copies([Level(step=n, bytes=-900 * MIB + n * 1000) for n in (5, 30, 70)], 0.0, 600 * MIB) is None


def passed(**more: object) -> Fact:
    data = {
        "pass": 0,
        "held": 500 * MIB,
        "held_by_imports": 200 * MIB,
        "effective": {"num_workers": 2, "start_method": "fork"},
        **more,
    }
    return Fact(pid=MAIN, t_s=0.0, name="pass", data=data)


def test_workers_can_copy_what_their_parent_holds_beyond_its_imports() -> None:
    assert cap_bytes(passed()) == 600 * MIB
    assert cap_bytes(passed(effective={"num_workers": 2, "start_method": "spawn"})) == 0
    assert cap_bytes(passed(held=None)) is None
    assert worth_reading([passed()]) and not worth_reading([passed(held=210 * MIB)])


def a_training(*, persistent: bool = False, steps: int = 80) -> Roles:
    settings = {"workers": 2, "prefetch_factor": 2, "persistent_workers": persistent, "batch_size": 4}
    one = TrainPass(number=0, begun_s=0.0, length=None, worker_pids=WORKERS, resume=0, settings=settings)
    batches = tuple(
        BatchDelivered(
            pid=MAIN, loader=0, pass_number=0, index=n, asked_s=n / 10, returned_s=n / 10 + 0.01, leading=4, samples=4,
            main_thread=True, nested=False, grad=True,
        )
        for n in range(steps)
    )  # fmt: skip
    ends = tuple(
        OptimizerStepped(pid=MAIN, optimizer=0, number=n + 1, ended_s=(n + 1) / 10, main_thread=True)
        for n in range(steps)
    )
    return Roles(
        pid=MAIN, steps=ends, optimizer=0, train=None, passes=(one,), batches=batches, others=(), other_batches=(),
        peers_worker_pids=(), ranks=(MAIN,),
    )  # fmt: skip


def samples(main: float = 0.0, workers: float = 0.0, copies: float = 0.0, noise: float = 0.0) -> list[TelemetrySample]:
    """Eight seconds of ten steps each; a dear reading every two seconds."""
    taken, rng = [], np.random.default_rng(3)
    for tick in range(1, 40):
        step = 2 * tick
        anon = {MAIN: 200 * MIB + int(main * step + noise * rng.random())}
        anon |= {pid: 220 * MIB + int(workers * step / 2) for pid in WORKERS}
        shared = 400 * MIB - int(copied(step, 600 * MIB, copies)) if copies else 400 * MIB
        dear = tick % 10 == 1
        taken.append(
            TelemetrySample(
                t_s=tick / 5,
                processes=tuple(
                    ProcessSample(
                        pid=pid, ppid=1, name="python", rss_bytes=held, cpu_s=0.0, anon_bytes=held,
                        own_bytes=held - shared // 3 if dear else None,
                    )
                    for pid, held in anon.items()
                ),
                ram_bytes=sum(anon.values()) - shared if dear else None,
                shm_used_bytes=0, others_cores=None, ram_available_bytes=None,
            )
        )  # fmt: skip
    return taken


def grown(
    telemetry: list[TelemetrySample],
    *,
    persistent: bool = False,
    length: RunLength = PLANNED,
    facts: tuple[Fact, ...] = (),
    loaded: Sequence[BatchLoaded] = (),
    batch_bytes: int | None = None,
) -> Measurement:
    roles = a_training(persistent=persistent)
    peak = max(s.ram_bytes for s in telemetry if s.ram_bytes is not None)
    return with_growth(
        Measurement(ram_peak_bytes=peak, batch_bytes=batch_bytes),
        roles=roles,
        telemetry=telemetry,
        facts=facts,
        regular=step_windows(roles)[3:],
        length=length,
        loaded=loaded,
    )


def test_without_growth_the_run_needs_what_the_trial_needed() -> None:
    measured = grown(samples(noise=3 * MIB))
    assert measured.ram_growth == ()
    assert measured.ram_projected_bytes == pytest.approx(measured.ram_peak_bytes, rel=0.02)


def test_a_leak_too_small_for_the_window_is_in_the_interval_of_a_long_run() -> None:
    leaks, run = 20_000, 128_000
    measured = grown(samples(main=leaks), length=RunLength(epoch=None, run=run))
    assert measured.ram_growth == () and measured.ram_unseen_bytes_per_step is not None
    assert measured.ram_unseen_bytes_per_step > leaks
    low, high = measured.ram_projected_ci95 or (0, 0)
    assert low <= (measured.ram_peak_bytes or 0) + leaks * run <= high
    assert grown(samples(main=leaks), length=RunLength(epoch=None, run=None)).ram_projected_ci95 is None


def test_a_leak_in_the_training_goes_on_to_the_end_of_the_run() -> None:
    measured = grown(samples(main=MIB))
    (growth,) = measured.ram_growth
    assert (growth.kind, growth.who, growth.steps) == ("leak", "main", 720)
    assert growth.bytes_per_step == pytest.approx(MIB)
    assert measured.ram_projected_bytes == pytest.approx((640 - 400 + 800) * MIB, rel=0.02)


def test_before_the_end_of_an_epoch_a_leak_may_be_a_cache_and_only_the_epoch_is_sure() -> None:
    measured = grown(samples(main=MIB))
    low, high = measured.ram_projected_ci95 or (0, 0)
    peak, projected = measured.ram_peak_bytes or 0, measured.ram_projected_bytes or 0
    # 80 of 400 steps were seen, of a run of 800.
    assert low - peak == pytest.approx(320 * MIB, rel=0.1) and projected - peak == pytest.approx(720 * MIB, rel=0.1)
    assert high >= projected
    seen_whole = grown(samples(main=MIB), length=RunLength(epoch=40.0, run=800.0)).ram_projected_ci95
    assert seen_whole is not None and seen_whole[0] - peak > 600 * MIB


def test_a_leak_in_workers_ends_with_their_epoch_unless_they_persist() -> None:
    once, lasting = grown(samples(workers=MIB)), grown(samples(workers=MIB), persistent=True)
    assert [one.steps for one in (*once.ram_growth, *lasting.ram_growth)] == [320, 720]


def test_copies_and_leaks_add_up() -> None:
    measured = grown(samples(main=MIB, copies=0.7 * MIB), persistent=True, facts=(passed(),))
    assert {one.kind for one in measured.ram_growth} == {"leak", "copy_on_write"}
    truth = (640 - 400 + 800) * MIB + copied(800, 600 * MIB, 0.7 * MIB)
    assert measured.ram_projected_bytes == pytest.approx(truth, rel=0.1)


def test_a_leak_in_a_run_of_unknown_length_has_no_projection_and_says_why() -> None:
    measured = grown(samples(main=MIB), length=RunLength(epoch=None, run=None))
    assert measured.ram_projected_bytes is None and measured.ram_growth
    assert "how many steps" in measured.unknown["ram_projected_bytes"]


def test_of_a_run_without_a_known_number_of_epochs_one_is_sure() -> None:
    measured = grown(samples(main=MIB), length=RunLength(epoch=400.0, run=None))
    (growth,) = measured.ram_growth
    assert (growth.until, growth.steps) == ("epoch", 320)
    assert measured.ram_projected_bytes == pytest.approx((640 - 400 + 400) * MIB, rel=0.02)
    assert measured.ram_projected_ci95 is None


def beside(telemetry: list[TelemetrySample], *, child: float = 0.0, shm: float = 0.0) -> list[TelemetrySample]:
    """A process that the training started, and what is in /dev/shm, with so many bytes more each step."""
    told = []
    for one in telemetry:
        step = round(10 * one.t_s)
        helper = ProcessSample(
            pid=31, ppid=MAIN, name="helper", rss_bytes=0, cpu_s=0.0, anon_bytes=50 * MIB + int(child * step)
        )
        more = 50 * MIB + int((child + shm) * step)
        ram = one.ram_bytes + more if one.ram_bytes is not None else None
        told.append(
            replace(one, processes=(*one.processes, helper), ram_bytes=ram, shm_used_bytes=int(shm * step) + 7 * MIB)
        )
    return told


@pytest.mark.parametrize(("grows", "who"), [({"child": MIB}, "others"), ({"shm": MIB}, "shared")])
def test_what_grows_beside_training_and_workers_is_projected_as_well(grows: dict[str, float], who: str) -> None:
    measured = grown(beside(samples(), **grows))
    (growth,) = measured.ram_growth
    assert (growth.kind, growth.who) == ("leak", who) and growth.bytes_per_step == pytest.approx(MIB, rel=0.05)
    assert measured.ram_projected_bytes == pytest.approx((640 - 400 + 50 + 800) * MIB, rel=0.05)
    assert grown(beside(samples())).ram_growth == ()


def test_batches_that_lie_ready_are_no_growth_and_hide_none() -> None:
    """One more of them at every step: a queue that fills. What grows beyond it is told with its own rate."""
    made = [
        BatchLoaded(
            pid=WORKERS[n % 2], worker=n % 2, resume=0, index=n, started_s=0.0, finished_s=n / 20, cpu_s=0.0,
            samples=4, files=None,
        )
        for n in range(1, 200)
    ]  # fmt: skip
    assert grown(beside(samples(), shm=MIB), loaded=made, batch_bytes=MIB).ram_growth == ()
    (growth,) = grown(beside(samples(), shm=3 * MIB), loaded=made, batch_bytes=MIB).ram_growth
    assert growth.who == "shared" and growth.bytes_per_step == pytest.approx(2 * MIB, rel=0.05)
    assert grown(beside(samples(), shm=MIB), loaded=made).ram_growth != ()


def test_what_a_neighbour_fills_shm_with_is_no_growth_of_the_tree() -> None:
    neighbours = [replace(s, shm_used_bytes=int(MIB * 10 * s.t_s)) for s in samples()]
    assert grown(neighbours).ram_growth == ()


def test_old_telemetry_without_these_readings_projects_the_peak() -> None:
    old = [
        replace(s, processes=tuple(replace(p, anon_bytes=None, own_bytes=None) for p in s.processes))
        for s in samples(main=MIB)
    ]
    assert grown(old).ram_projected_bytes == grown(old).ram_peak_bytes


def test_the_run_is_as_long_as_planned_whatever_the_batch() -> None:
    measured = Measurement(samples_per_epoch=800, effective_batch=8)
    assert run_length(measured, PlannedRun(epochs=3), 2.0) == RunLength(epoch=100.0, run=300.0)
    bounded = PlannedRun(epochs=3, iterations_per_epoch=100)
    assert run_length(measured, bounded, 2.0) == RunLength(epoch=100.0, run=150.0)
    # An epoch of a smaller batch ends no later, and more of them are needed.
    assert run_length(measured, bounded, 0.5) == RunLength(epoch=100.0, run=600.0)
    assert run_length(measured, PlannedRun(), 1.0).run is None


def looks(count: int, grown_bytes: int, *, every_s: float = 0.2) -> list[TelemetrySample]:
    """At the training's process and its workers, whose memory grows by so much from one to the next."""
    held = [{MAIN: 200 * MIB, 21: 200 * MIB + n * grown_bytes, 22: 200 * MIB} for n in range(count)]
    return [
        TelemetrySample(
            t_s=4.0 + n * every_s,
            processes=tuple(
                ProcessSample(pid=pid, ppid=1, name="python", rss_bytes=size, cpu_s=0.0, anon_bytes=size)
                for pid, size in one.items()
            ),
            ram_bytes=None,
            shm_used_bytes=None,
            others_cores=None,
            ram_available_bytes=None,
        )
        for n, one in enumerate(held)
    ]


def test_memory_that_grows_over_a_few_looks_is_undecided_until_there_are_enough() -> None:
    roles = a_training()
    assert is_undecided(looks(4, 7 * MIB), roles, 4.0)
    assert not is_undecided(looks(ENOUGH_LOOKS, 7 * MIB), roles, 4.0)
    # Looks from before the window tell nothing of it.
    assert is_undecided(looks(ENOUGH_LOOKS, 7 * MIB), roles, 5.0)


def test_memory_that_does_not_grow_keeps_no_trial_waiting() -> None:
    roles = a_training()
    assert not is_undecided(looks(4, MIB // 10), roles, 4.0)
    assert not is_undecided(looks(4, -7 * MIB), roles, 4.0)
    assert not is_undecided([], roles, 4.0)


def test_workers_that_end_too_soon_to_tell_why_they_grow_are_said_to() -> None:
    alive = [replace(one, ram_bytes=700 * MIB) for one in looks(5, 7 * MIB)]
    assert "ram_growth" in grown(alive).unknown
    assert "ram_growth" not in grown(alive, persistent=True).unknown
    still = [replace(one, ram_bytes=700 * MIB) for one in looks(5, MIB // 10)]
    assert "ram_growth" not in grown(still).unknown
    # Long enough to be told a leak.
    leaking = grown([replace(one, ram_bytes=700 * MIB) for one in looks(20, 7 * MIB)])
    assert leaking.ram_growth and "ram_growth" not in leaking.unknown


@pytest.mark.parametrize("steps", [-1.0, -70.0, -71.0, -1e3, -1e9])
def test_copies_are_never_run_back_beyond_the_workers_birth(steps: float) -> None:
    cap = 600 * MIB
    found = find_copies([Level(step=n, bytes=int(copied(n, cap, 8 * MIB))) for n in (60, 65, 70)], 0.0, cap)
    assert found is not None
    assert -cap <= found.to_come(steps)[0] <= 0


def test_looks_at_workers_of_earlier_epochs_are_not_brought_forward_by_the_growth_of_the_last() -> None:
    """Each epoch's workers begin to copy anew: what theirs held at most is what the run needs."""
    steps, epoch, cap = 400, 100, 300 * MIB
    base = a_training(steps=steps)
    passes = tuple(
        replace(base.passes[0], number=number, begun_s=10.0 * number, worker_pids=(21 + 10 * number, 22 + 10 * number))
        for number in range(4)
    )
    batches = tuple(replace(one, pass_number=one.index // epoch) for one in base.batches)
    telemetry = []
    for tick in range(1, 2 * (steps // 10)):
        step = 5 * tick
        taken = copied(step % epoch, 0.8 * cap, 6 * MIB)
        pids = passes[min(3, step // epoch)].worker_pids
        held = {MAIN: 250 * MIB, **dict.fromkeys(pids, 250 * MIB)}
        shared = 500 * MIB - int(taken)
        telemetry.append(
            TelemetrySample(
                t_s=step / 10,
                processes=tuple(
                    ProcessSample(
                        pid=pid, ppid=1, name="python", rss_bytes=size, cpu_s=0.0, anon_bytes=size,
                        own_bytes=size - shared // 3,
                    )
                    for pid, size in held.items()
                ),
                ram_bytes=sum(held.values()) - shared, shm_used_bytes=0, others_cores=None, ram_available_bytes=None,
            )
        )  # fmt: skip
    roles = replace(base, passes=passes, batches=batches)
    facts = tuple(passed(**{"pass": n, "held": 250 * MIB, "held_by_imports": 100 * MIB}) for n in range(4))
    peak = max(s.ram_bytes for s in telemetry if s.ram_bytes is not None)
    measured = with_growth(
        Measurement(ram_peak_bytes=peak), roles=roles, telemetry=telemetry, facts=facts,
        regular=step_windows(roles)[3:], length=RunLength(epoch=float(epoch), run=20.0 * epoch),
    )  # fmt: skip
    assert [one.kind for one in measured.ram_growth] == ["copy_on_write"]
    assert measured.ram_projected_bytes is not None and peak <= measured.ram_projected_bytes <= peak + cap
