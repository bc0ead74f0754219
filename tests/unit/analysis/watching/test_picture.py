from __future__ import annotations

import re
from dataclasses import replace

import pytest

from vtune.analysis.watching.picture import Known, picture_of
from vtune.domain.events import GpuSample
from vtune.domain.experiment import Limit
from vtune.domain.machine import Gpu
from vtune.domain.watching import LaunchSeen, Look, ProcessNow
from vtune.reporting.watch_rows import fitted, watch_line, watch_rows

GIB = 2**30


def _looks(util: float, *, leak_bytes: int = 0, available: int = 100 * GIB) -> list[Look]:
    return [
        Look(
            t_s=t / 2,
            ram_bytes=GIB + leak_bytes * t // 2 if t % 10 == 0 else None,
            ram_available_bytes=available,
            gpus=(GpuSample(uuid="a", util_percent=util),),
            processes=(
                ProcessNow(
                    pid=7, role="training", state="S", cpu_s=t / 100, queued_s=0.0, anon_bytes=GIB, moved_bytes=t,
                    read_bytes=t * 1000, written_bytes=None, sleeps_in="futex_do_wait",
                ),
            ),
        )
        for t in range(121)
    ]  # fmt: skip


def _known(*, used: int | None = None, on_gpu: bool = False, **more: object) -> Known:
    gpu = Gpu(index=0, uuid="a", name="A100", memory_bytes=80 * GIB)
    sample = GpuSample(uuid="a", util_percent=12.0, used_bytes=40 * GIB, own_bytes=used, throttled_by=("sw_power_cap",))
    return Known(
        pid=7, command="python train.py", ran_s=99.0, seen_s=60.0, on_gpu=on_gpu, gpus=(gpu,), newest_gpu={"a": sample},
        ram_limit_bytes=10 * GIB, cores=4.0, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def test_a_gpu_counts_in_the_verdict_where_the_training_is_on_it() -> None:
    looks = _looks(95.0)
    assert picture_of(looks, looks, _known(used=GIB)).verdict.kind == "gpu"
    # In a container the driver names other numbers: the device file that it holds open tells.
    assert picture_of(looks, looks, _known(on_gpu=True)).verdict.kind == "gpu"
    assert picture_of(looks, looks, _known()).verdict.kind != "gpu"


def test_vram_stands_against_the_limit_and_throttled_clocks_are_told() -> None:
    looks = _looks(12.0)
    seen = picture_of(looks, looks, _known(used=GIB, vram=Limit(fraction=0.5, text="50%")))
    assert any("busy 12 %, VRAM 40 GiB of 40 GiB, clocks throttled: sw_power_cap" in row for row in watch_rows(seen))


def test_memory_that_grows_is_told_with_the_time_to_the_limit_or_to_a_full_machine() -> None:
    looks = _looks(12.0, leak_bytes=2**20)
    seen = picture_of(looks, looks, _known())
    assert seen.ram_limit_in_s is not None and 9000 < seen.ram_limit_in_s < 9400
    assert "+63 MB/min, full in about 2.5" in watch_line(seen)
    full = _looks(12.0, leak_bytes=2**20, available=60 * 2**20)
    sooner = picture_of(full, full, _known()).ram_limit_in_s
    assert sooner is not None and 55 < sooner < 65


def test_even_memory_passes_no_limit() -> None:
    looks = _looks(12.0)
    assert picture_of(looks, looks, _known()).ram_limit_in_s is None


def test_what_may_not_be_read_is_unknown_and_not_nothing() -> None:
    looks = _looks(12.0)
    seen = picture_of(looks, looks, _known())
    assert seen.read_bytes_per_s == 2000.0 and seen.written_bytes_per_s is None
    assert "disk      reads 1.95 KiB/s, writes unknown" in watch_rows(seen)


def test_no_row_is_wider_than_the_terminal_and_no_sentence_is_cut() -> None:
    looks = _looks(12.0)
    rows = watch_rows(picture_of(looks, looks, _known(missing=("a sentence of many words that goes on and on",))))
    narrow = fitted(rows, 40, 100)
    assert max(map(len, narrow)) <= 40
    assert "on and on" in " ".join(" ".join(narrow).split())


def test_a_window_that_is_too_small_gives_the_command_one_row_and_says_how_many_are_missing() -> None:
    looks = _looks(12.0)
    rows = watch_rows(picture_of(looks, looks, replace(_known(), command="python " + "x" * 100)))
    whole = fitted(rows, 40, 100)
    assert len(fitted(rows, 40, len(whole) - 1)) < len(whole)
    small = fitted(rows, 40, 5)
    assert len(small) == 5 and small[0] == rows[0][:40]
    assert re.match(r"… \d+ more rows: in a taller window", small[-1])


def test_before_the_first_look_there_is_a_picture_without_numbers() -> None:
    seen = picture_of((), (), _known())
    assert seen.verdict.kind == "unknown" and seen.ram_bytes is None and watch_line(seen)


def test_one_worker_is_one_worker() -> None:
    def with_workers(many: int) -> list[Look]:
        looks = _looks(12.0)
        return [
            replace(
                look,
                processes=(
                    *look.processes,
                    *(replace(look.processes[0], pid=8 + n, role="worker") for n in range(many)),
                ),
            )
            for look in looks
        ]

    one, two, many = (picture_of(looks, looks, _known()) for looks in map(with_workers, (1, 2, 17)))
    assert " · 1 worker 2% · " in watch_line(one) and " · 2 workers 2% each · " in watch_line(two)
    assert any("and 1 more worker," in row for row in watch_rows(many))


def _launch(**other: object) -> LaunchSeen:
    plain: dict[str, object] = {
        "study": "demo", "launch": 1, "attempt": 1, "trial": 2, "settings": {"workers": 4}, "guard_pid": 70,
        "guard_lives": True, "supervisor_pid": 71, "ending": None, "step_downs": 0, "retries": 0, "steps": 40,
        "resumed": False,
        "steps_at_end": 100, "left_s": 90.0, "promised_samples_per_s": 20.0, "achieved_samples_per_s": 19.0,
        "achieved_by": "guard",
    }  # fmt: skip
    return LaunchSeen(**{**plain, **other})  # type: ignore[arg-type]


def test_of_a_launch_its_promise_its_steps_and_its_measured_waiting_are_told() -> None:
    looks = _looks(12.0)
    seen = picture_of(looks, looks, _known(launch=_launch(), wait_share=0.8))
    text = "\n".join(watch_rows(seen))
    assert "launch 1 of study demo, with the settings of trial 2: workers=4" in text
    assert "19 of 20 samples/s promised (95%)" in text and "step 40 of 100, about 90 s left" in text
    assert "process 70 lives" in text
    assert seen.verdict.wait_measured and seen.verdict.wait_share == 0.8
    assert "72 s at most of the 90 s left" in seen.tuning
    assert "launch 1 of demo · step 40 of 100, about 90 s left · 19 of 20 samples/s" in watch_line(seen)
    resumed = picture_of(looks, looks, _known(launch=_launch(resumed=True, steps_at_end=None, left_s=None)))
    assert "done      step 40 since it was resumed" in watch_rows(resumed)


@pytest.mark.parametrize(
    ("attempt", "step_downs", "retries", "told"),
    [
        (1, 0, 0, ""),
        (2, 1, 0, ", attempt 2 after 1 step-down"),
        (2, 0, 1, ", attempt 2 after 1 retry"),
        (3, 1, 1, ", attempt 3 after 1 step-down and 1 retry"),
        (6, 3, 2, ", attempt 6 after 3 step-downs and 2 retries"),
        # As a state of an older vtune has it.
        (2, 0, 0, ", attempt 2"),
    ],
)
def test_an_attempt_past_the_first_tells_what_it_came_after(
    attempt: int, step_downs: int, retries: int, told: str
) -> None:
    launch = _launch(attempt=attempt, step_downs=step_downs, retries=retries)
    rows = watch_rows(picture_of(_looks(12.0), _looks(12.0), _known(launch=launch)))
    assert any(row.startswith(f"launch    launch 1 of study demo{told}, with the settings") for row in rows)


def test_a_launch_without_its_guard_says_what_nobody_does_any_more_and_how_to_end_it() -> None:
    seen = picture_of(
        _looks(12.0), _looks(12.0), _known(launch=_launch(guard_lives=False, achieved_samples_per_s=None))
    )
    text = " ".join("\n".join(watch_rows(seen)).split())
    assert "none lives: process 70 is gone" in text and "held to its RAM limit by its supervisor" in text
    assert "kill -TERM 71" in text and "20 samples/s promised, not known yet what is achieved" in text
    assert watch_line(seen).count("no guard lives") == 1
