"""The guard's verdicts over a full run, from made-up counters, memory and trials."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from support.records import a_gpu_record
from support.studies import a_failure, a_trial
from vtune.analysis.guard.late_leak import KEPT_DENSE
from vtune.analysis.guard.memory import AGAIN_S, THINNED_EACH, Breach, Reading, Readings, Suspicion, predicted
from vtune.analysis.guard.pace import Pace, is_slow, least_promised
from vtune.analysis.guard.progress import Checkpoints, Progress, progress_of
from vtune.analysis.guard.room import Free, lacking
from vtune.analysis.guard.safer import next_safer
from vtune.analysis.guard.slow import why_slow
from vtune.analysis.guard.trouble import disk_is_full, trouble_of
from vtune.domain.counts import BRIEF, Counted, CountedKind, ProcessCounts
from vtune.domain.events import GpuSample, ProcessSample, TelemetrySample
from vtune.domain.launch import Promise
from vtune.domain.machine import FreeGpu
from vtune.domain.record import Measurement, TrialRecord
from vtune.domain.trial import TrialStatus
from vtune.strategies.turned import turned

MIB, GIB = 2**20, 2**30
PROMISE = Promise(trial=1, samples_per_s=20.0, samples_per_s_ci95=(19.0, 21.0), effective_batch=2, steps=1000)


def counted(kind: CountedKind, count: int, *, last_s: float = 10.0, grad: bool = True, gap_s: float = 0.5) -> Counted:
    return Counted(
        kind=kind, source=1, main_thread=True, nested=False, grad=grad, count=count, samples=2 * count, waited_s=0.0,
        last_s=last_s, longest_gap_s=gap_s,
    )  # fmt: skip


def process(*slots: Counted, pid: int = 7) -> ProcessCounts:
    return ProcessCounts(pid=pid, written_s=11.0, counted=slots)


def test_progress_is_that_of_the_rank_that_stepped_most_and_of_one_of_its_optimizers() -> None:
    first = process(counted("step", 40), counted("step", 39), counted("delivered", 41, last_s=10.2))
    other = process(counted("step", 38), pid=8)
    seen = progress_of([other, first], t_s=11.0)
    assert (seen.steps, seen.last_step_s, seen.last_sign_s, seen.saves) == (40, 10.0, 10.2, 0)


def test_a_training_that_has_counted_nothing_is_at_the_beginning() -> None:
    assert progress_of([], t_s=3.0) == Progress(t_s=3.0)
    assert progress_of([process(counted("delivered", 2, last_s=2.0))], t_s=3.0).last_sign_s == 2.0


def test_validations_checkpoints_and_new_passes_are_counted_aside() -> None:
    seen = progress_of(
        [
            process(
                counted("step", 40), counted("delivered", 40), counted("pass", 3, grad=False, last_s=10.5),
                counted("delivered", 5, grad=False), counted("saved", 2, last_s=9.0),
            )
        ],
        t_s=11.0,
    )  # fmt: skip
    assert (seen.aside, seen.saves, seen.last_save_s, seen.last_sign_s) == (10, 2, 9.0, 10.0)
    assert seen.last_aside_s == 10.5


def test_epochs_that_are_part_of_the_promised_rate_and_loaders_beside_the_steps_are_not_aside() -> None:
    steps = counted("step", 40), counted("delivered", 40), counted("pass", 38, grad=False)
    in_rate = progress_of([process(*steps)], t_s=11.0, restarts_in_rate=True)
    assert (in_rate.aside, in_rate.last_aside_s) == (0, None)
    # Another loader that is begun anew for each step.
    beside = replace(counted("delivered", 30), source=2), replace(counted("pass", 30, grad=False), source=2)
    assert progress_of([process(*steps, *beside)], t_s=11.0).aside == 38


def test_a_checkpoint_that_took_no_time_is_one_and_no_reason_to_leave_steps_out_of_the_rate() -> None:
    brief = replace(counted("saved", 7, last_s=9.5), source=BRIEF)
    seen = progress_of([process(counted("step", 40), counted("saved", 2, last_s=9.0), brief)], t_s=11.0)
    assert (seen.aside, seen.last_aside_s, seen.saves, seen.last_save_s) == (2, 9.0, 9, 9.5)


def checkpoints(*looks: tuple[float, int, float | None]) -> Checkpoints:
    seen = Checkpoints()
    for last_s, steps, save_s in looks:
        seen.look(Progress(t_s=last_s, steps=steps, last_step_s=last_s, last_save_s=save_s))
    return seen


def test_a_checkpoint_has_the_steps_that_were_surely_done_before_it() -> None:
    looks = [(float(t), 10 * t, 3.5 if t >= 4 else None) for t in range(1, 6)]
    assert checkpoints(*looks).saved_at_step == 30
    assert checkpoints(*looks[:3]).saved_at_step is None
    assert checkpoints((1.0, 10, 0.5)).saved_at_step == 0


def test_a_checkpoint_of_hours_ago_keeps_its_step() -> None:
    looks = [(float(t), 10 * t, 3.5 if t >= 4 else None) for t in range(1, 4000)]
    assert checkpoints(*looks).saved_at_step == 30


def paced(*looks: tuple[float, int, int]) -> Pace:
    pace = Pace()
    for last_s, steps, aside in looks:
        pace.look(Progress(t_s=last_s, steps=steps, last_step_s=last_s, aside=aside))
    return pace


def test_the_steady_rate_leaves_out_whatever_lies_between_steps() -> None:
    # Ten steps a second; a validation of a minute between the 30th and the 40th.
    pace = paced((1, 10, 0), (2, 20, 0), (3, 30, 0), (63, 40, 1), (64, 50, 1), (65, 60, 1))
    assert pace.whole.rate == pytest.approx(10.0)


def test_a_pause_in_which_nothing_steps_belongs_to_the_interval_after_it() -> None:
    pace = paced((1, 10, 0), (2, 20, 0), (2, 20, 4), (30, 30, 4), (31, 40, 4))
    assert pace.whole.rate == pytest.approx(10.0)


# Ten steps a second, and five validation batches at 3.1 s, after which nothing steps for twenty seconds.
BEFORE = [Progress(t_s=t, steps=10 * t, last_step_s=t) for t in (1, 2)]
AFTER = [Progress(t_s=t, steps=10 * t - 200, last_step_s=t, aside=5, last_aside_s=3.1) for t in (24, 25)]


@pytest.mark.parametrize(
    "during",
    [
        # The batches are counted one look after the last step that was before them, or in the very same look.
        [Progress(t_s=3, steps=30, last_step_s=3), Progress(t_s=4, steps=30, last_step_s=3, aside=5, last_aside_s=3.1)],
        [Progress(t_s=4, steps=30, last_step_s=3, aside=5, last_aside_s=3.1)],
        # By another process, which tells of its own later.
        [Progress(t_s=3, steps=30, last_step_s=3)],
    ],
)
def test_no_steady_interval_spans_a_validation_however_soon_its_batches_are_counted(during: list[Progress]) -> None:
    pace = Pace()
    for look in (*BEFORE, *during, *AFTER):
        pace.look(look)
    assert pace.whole.rate == pytest.approx(10.0) and pace.whole.steps in (20, 30)


def test_the_first_steps_and_a_window_that_is_not_full_tell_nothing() -> None:
    assert paced((1, 2, 0), (9, 4, 0)).whole.rate is None
    pace = paced((1, 10, 0), (2, 20, 0))
    assert pace.window is None and pace.windows == 0
    assert paced((1, 10, 0), (2, 20, 0), (3, 31, 0)).window is not None


def test_slower_than_promised_is_only_what_another_launch_would_not_explain() -> None:
    least = least_promised(PROMISE)
    assert least is not None and 17.0 < least < 18.5
    slow, fast = paced((1, 10, 0), (4, 31, 0)), paced((1, 10, 0), (3.2, 31, 0))
    assert slow.window and is_slow(slow.window, PROMISE)
    assert fast.window and not is_slow(fast.window, PROMISE)
    assert not is_slow(slow.window, replace(PROMISE, samples_per_s=None))


def test_the_time_that_is_left_pays_for_pauses_as_they_have_been_and_not_for_the_start() -> None:
    pace = paced((100, 10, 0), (101, 20, 0), (139, 40, 1), (140, 50, 1))
    assert pace.left_s(100) == 100.0
    assert pace.left_s(None) is None and paced((100, 10, 0)).left_s(100) is None and Pace().left_s(100) is None


def sample(t_s: float, **fields: Any) -> TelemetrySample:
    plain: dict[str, Any] = {
        "processes": (), "ram_bytes": None, "shm_used_bytes": None, "others_cores": 0.0, "ram_available_bytes": 8 * GIB
    }  # fmt: skip
    return TelemetrySample(**{"t_s": t_s, **plain, **fields})


def reading_process(read_bytes: int) -> ProcessSample:
    return ProcessSample(
        pid=9, ppid=7, name="python", rss_bytes=1, cpu_s=1.0, requested_bytes=read_bytes * 2, read_bytes=read_bytes
    )


@pytest.mark.parametrize(
    ("samples", "cause"),
    [
        ([sample(0, others_cores=1.5), sample(1, others_cores=2.0)], "neighbour"),
        ([sample(0, gpus=(GpuSample(uuid="a", others_util_percent=40.0),))], "neighbour"),
        ([sample(0, gpus=(GpuSample(uuid="a", throttled_by=("heat",)),))], "clocks"),
        ([sample(0, ram_available_bytes=GIB // 10)], "memory"),
        ([sample(0, processes=(reading_process(0),)), sample(9, processes=(reading_process(GIB),))], "storage"),
        ([sample(0), sample(1)], "unknown"),
    ],
)
def test_a_slow_window_has_the_cause_that_the_machine_shows(samples: list[TelemetrySample], cause: str) -> None:
    found, words = why_slow(samples, Measurement(others_cores=0.1, cold_fraction=0.0), 16 * GIB)
    assert found == cause and words


def growing(per_step: int, *, looks: int = 60, steps: int = 10, start: int = GIB, t_step: float = 1.0) -> list[Reading]:
    wobble = (0, 3, -2, 1, -3, 2)
    return [
        Reading(t_s=t_step * n, step=steps * n, bytes=start + per_step * steps * n + wobble[n % 6] * 2**14)
        for n in range(looks)
    ]


def breach(readings: list[Reading], **asked: Any) -> Breach | None:
    plain: dict[str, Any] = {"used_bytes": readings[-1].bytes, "limit_bytes": 2 * GIB, "steps_at_end": 100_000}
    return predicted("ram", readings, **{**plain, **asked})


def test_a_leak_that_passes_the_limit_before_the_end_is_predicted() -> None:
    found = breach(growing(MIB // 4))
    assert found is not None and not found.imminent
    assert found.at_end_bytes is not None and found.at_end_bytes > 20 * GIB
    assert found.bytes_per_s == pytest.approx(10 * MIB / 4, rel=0.02)


def test_the_same_leak_is_none_of_a_run_that_ends_before() -> None:
    assert breach(growing(MIB // 4), steps_at_end=2000) is None


def test_memory_that_stays_or_fills_and_stays_full_is_no_breach() -> None:
    assert breach(growing(0)) is None
    filled = growing(8 * MIB, looks=20)
    full = [Reading(t_s=20.0 + n, step=200 + 10 * n, bytes=filled[-1].bytes) for n in range(40)]
    assert breach([*filled, *full]) is None


def test_within_the_first_epoch_growth_is_sure_only_until_its_end() -> None:
    leak = growing(MIB // 4)
    assert breach(leak, epoch_steps=1000) is None
    assert breach(leak, epoch_steps=500) is not None


def test_what_is_projected_to_an_epochs_end_is_not_called_the_runs() -> None:
    leak = growing(MIB // 4, start=2 * GIB - 160 * MIB)
    ends = [(None, 1500), (100_000, 1500), (1200, 1500), (100_000, None), (100_000, 300)]
    found = [breach(leak, limit_bytes=2 * GIB, steps_at_end=end, epoch_steps=epoch) for end, epoch in ends]
    assert [one.of_epoch if one is not None else None for one in found] == [True, True, False, False, False]


def test_without_a_known_end_only_what_is_imminent_is_predicted() -> None:
    assert breach(growing(MIB // 4), steps_at_end=None) is None
    found = breach(growing(MIB), steps_at_end=None)
    assert found is not None and found.imminent and found.at_end_bytes is None


def test_nobody_looks_further_ahead_than_what_was_seen_allows() -> None:
    short = breach(growing(MIB, looks=9, t_step=0.5), steps_at_end=None)
    assert short is None


def test_a_breach_far_away_has_to_be_predicted_minutes_apart() -> None:
    far, near = breach(growing(MIB // 4)), breach(growing(MIB))
    assert far is not None and near is not None and near.imminent
    suspicion = Suspicion()
    assert not suspicion.confirmed(far, 100.0)
    assert not suspicion.confirmed(far, 100.0 + AGAIN_S / 2)
    assert suspicion.confirmed(far, 100.0 + AGAIN_S)
    assert not suspicion.confirmed(None, 400.0) and not suspicion.confirmed(far, 401.0)
    # One look alone may be a wobble.
    assert not suspicion.confirmed(near, 402.0) and suspicion.confirmed(near, 403.0)


def test_readings_of_days_are_thinned_and_those_of_late_are_kept() -> None:
    readings = Readings()
    for second in range(40_000):
        readings.add(Reading(t_s=float(second), step=second, bytes=GIB))
    times = [one.t_s for one in readings.all]
    assert times[-100:] == [float(second) for second in range(39_900, 40_000)]
    most = KEPT_DENSE * (1 + math.log2(times[-1] / KEPT_DENSE)) + THINNED_EACH
    assert times[0] < 400.0 and len(times) <= most
    # Of each stretch that ends now there are enough to judge it.
    assert all(sum(t >= 40_000 - stretch for t in times) >= 60 for stretch in (100, 1000, 10_000, 40_000))


def safer(records: list[TrialRecord], now: TrialRecord, trouble: Any, **fields: Any) -> Any:
    return next_safer(
        records, now, now.settings, trouble, turned=turned, turns_same=lambda name: name != "precision",
        **{"can_accumulate": True, **fields},
    )  # fmt: skip


def with_ram(trial: int, rate: float, gib: float, **asked: Any) -> TrialRecord:
    return a_trial(trial, rate, asked=asked, measured={"ram_peak_bytes": int(gib * GIB)}, workers=4)


def test_the_next_safer_is_the_fastest_that_needs_clearly_less_of_what_ran_out() -> None:
    now = with_ram(4, 40.0, 10, workers=8)
    others = [with_ram(1, 10.0, 3), with_ram(2, 30.0, 6, workers=4), with_ram(3, 38.0, 9.5, workers=6)]
    found = safer([*others, now], now, "ram")
    assert found.record.trial == 2 and found.settings == {"workers": 4}
    assert safer([*others, now], now, "ram", but={2}).record.trial == 1
    assert safer([others[2], now], now, "ram") is None


def test_for_workers_that_hang_or_die_safer_is_fewer() -> None:
    now = a_trial(3, 40.0, asked={"workers": 4})
    fewer, more = a_trial(1, 10.0, asked={"workers": 2}), a_trial(2, 50.0, asked={"workers": 8})
    assert safer([fewer, more, now], now, "workers").record.trial == 1
    assert safer([more, now], now, "workers") is None


def test_a_smaller_batch_is_accumulated_to_the_same_effective_one_or_is_no_way() -> None:
    def on_device(trial: int, rate: float, batch: int, gib: int) -> TrialRecord:
        asked = {"batch_size": batch}
        return a_trial(trial, rate, batch=batch, asked=asked, measured={"vram_peak_bytes": gib * GIB})

    now = on_device(3, 40.0, 8, 70)
    half, odd = on_device(2, 30.0, 4, 40), on_device(1, 35.0, 3, 30)
    assert safer([half, odd, now], now, "vram").settings == {"batch_size": 4, "accumulate_steps": 2}
    assert safer([half, odd, now], now, "vram", can_accumulate=False) is None


def test_what_computes_otherwise_failed_or_was_a_launch_itself_is_no_way_out() -> None:
    now = with_ram(5, 40.0, 10, workers=8)
    other = with_ram(1, 30.0, 3, precision="bf16")
    assert safer([other, now], replace(now, settings={**now.settings, "precision": "fp32"}), "ram") is None
    launched = replace(with_ram(2, 30.0, 3), origin="launch")
    assert safer([launched, a_failure(3), now], now, "ram") is None


def test_a_full_disk_is_known_by_the_systems_words_or_by_torchs_and_no_room() -> None:
    for sure in ("OSError: [Errno 28] No space left on device", "[Errno 122] Disk quota exceeded: 'last.pt'"):
        assert disk_is_full(sure, None) and disk_is_full(sure, GIB)
    torchs = "RuntimeError: [enforce fail at inline_container.cc:858] . PytorchStreamWriter failed writing file data/0"
    assert disk_is_full(torchs, 0) and not disk_is_full(torchs, GIB) and not disk_is_full(torchs, None)
    assert not disk_is_full("KeyError: 'space'", 0)


OPENED = 'Traceback (most recent call last):\n  File "train.py", line 21, in main\n    save()\n'
FULL = "OSError: [Errno 28] No space left on device"


@pytest.mark.parametrize(
    ("words", "full"),
    [
        (f"tensorboard: [Errno 28] No space left on device\n{OPENED}ValueError: label 7 out of range\n", False),
        # Caught and logged; what it ended of is another one.
        (f"{OPENED}{FULL}\n{OPENED}ValueError: label 7\n", False),
        (f"{OPENED}ValueError: label 7\n\n{FULL}, says a tracker at the end\n", False),
        (f"{OPENED}{FULL}\n", True),
        (f"{OPENED}ValueError: label 7\n{OPENED}{FULL}\n", True),
        # As torch.save ends on a full disk.
        (
            f"{OPENED}{FULL}\n\nDuring handling of the above exception, another exception occurred:\n\n"
            f"{OPENED}RuntimeError: unexpected pos 64 vs 0\n",
            True,
        ),
        (f"{OPENED}OSError: Caught OSError in DataLoader worker process 0.\nOriginal {OPENED}{FULL}\n", True),
        ("".join(f"[rank0]: {line}\n" for line in f"{OPENED}{FULL}".splitlines()), True),
        ("cp: error writing 'a': No space left on device\n", True),
    ],
)
def test_only_the_error_that_ended_it_tells_of_a_full_disk(words: str, full: bool) -> None:
    assert disk_is_full(words, 74 * GIB) is full


def test_under_a_launcher_with_an_error_of_its_own_the_ranks_error_is_asked() -> None:
    launchers = f"{OPENED}ChildFailedError: train.py FAILED\n"
    assert disk_is_full(launchers, 74 * GIB, FULL) and not disk_is_full(launchers, 74 * GIB, "ValueError: label 7")


def test_only_memory_and_lost_workers_call_for_safer_settings() -> None:
    lost = "RuntimeError: DataLoader worker (pid(s) 4711) exited unexpectedly"
    assert trouble_of(TrialStatus.CRASHED, lost) == "workers"
    assert trouble_of(TrialStatus.CRASHED, "KeyError: 'x'") is None
    assert trouble_of(TrialStatus.OUT_OF_VRAM, "") == "vram"
    assert trouble_of(TrialStatus.DIVERGED, "") is None


def test_room_is_lacking_where_the_trial_took_more_than_is_free_and_nowhere_else() -> None:
    needs = Measurement(
        ram_peak_bytes=4 * GIB, shm_needed_bytes=GIB, disk_bytes_per_epoch=GIB, gpus=a_gpu_record().measurement.gpus
    )
    gpu = FreeGpu(index=0, uuid="GPU-1", total_bytes=80 * GIB, used_bytes=0, util_percent=0.0)
    free = Free(ram_bytes=8 * GIB, ram_limit_bytes=7 * GIB, shm_bytes=2 * GIB, disk=("out", 100 * GIB), gpus=(gpu,))
    assert lacking(needs, free, epochs=10) == []
    assert lacking(needs, Free(), epochs=10) == []
    for changed, word in (
        ({"ram_bytes": GIB}, "available"),
        ({"ram_limit_bytes": GIB}, "its limit is"),
        ({"shm_bytes": GIB // 2}, "/dev/shm"),
        ({"disk": ("out", 5 * GIB)}, "in 10 epochs, out has 5 GiB free"),
        ({"gpus": (replace(gpu, used_bytes=60 * GIB),)}, "20 GiB are free"),
        ({"gpus": (replace(gpu, util_percent=90.0),)}, "90 % busy"),
    ):
        [said] = lacking(needs, replace(free, **changed), epochs=10)
        assert word in said


def test_a_pause_is_worth_a_word_when_it_is_longer_than_those_before() -> None:
    quick, slow = (Progress(t_s=100.0, last_sign_s=100.0, longest_gap_s=gap) for gap in (0.5, 60.0))
    assert quick.still_s(114.0, 120.0) is None and quick.still_s(156.0, 120.0) == 56.0
    assert slow.still_s(156.0, 120.0) is None and slow.still_s(230.0, 120.0) == 130.0
    # Where a hang is called soon, so is this.
    assert quick.still_s(102.0, 4.0) == 2.0
    assert Progress(t_s=100.0).still_s(999.0, 120.0) is None
    assert (quick.hang_after_s(120.0), slow.hang_after_s(120.0)) == (120.0, 600.0)


def test_what_somebody_stopped_is_in_no_rate() -> None:
    pace = paced((1, 10, 0), (2, 20, 0), (3, 30, 0))
    pace.interruptions = 60
    for last_s, steps in ((63, 32), (64, 42), (65, 52)):
        pace.look(Progress(t_s=last_s, steps=steps, last_step_s=last_s))
    assert pace.whole.rate == pytest.approx(10.0)
