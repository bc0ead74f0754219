from __future__ import annotations

from dataclasses import replace

import pytest

from support.choices import choose
from support.records import a_gpu_record, a_record
from vtune.analysis.device import with_device
from vtune.analysis.fit import excess_of
from vtune.analysis.roles import Roles
from vtune.analysis.vram_held import enforced_limit, held_notes, whose_room
from vtune.analysis.window import StepWindow
from vtune.domain.events import Fact, OptimizerStepped
from vtune.domain.experiment import Limit, Limits
from vtune.domain.machine_use import GpuUse
from vtune.domain.record import Measurement, TrialRecord

GIB = 2**30
ENDED = "the training ended with exit code 1 after 5 steps: torch.OutOfMemoryError: CUDA out of memory"
GPUS = (GpuUse(index=3, uuid="GPU-aa"),)


def facts(
    *, allowed: int = 8 * GIB, outside: int | None = GIB, by: str = "limit", ooms: int = 1, sharing: int = 1
) -> list[Fact]:
    limit = {"device": 0, "uuid": "aa", "bytes": allowed, "total": 80 * GIB, "by": by, "sharing": sharing}
    memory = {"device": 0, "reserved": 7 * GIB, "outside": outside, "ooms": ooms}
    return [Fact(pid=7, t_s=1.0, name=name, data=data) for name, data in (("vram_limit", limit), ("memory", memory))]


def test_an_end_at_the_limit_is_told_as_that_with_the_drivers_number_and_what_was_left() -> None:
    said = whose_room(ENDED, facts(), GPUS)
    assert said == (
        "it asked for more than the VRAM limit of 8 GiB that it is held to on GPU 3; the device itself had 72 GiB left"
        f": {ENDED}"
    )


HALF = Limit(fraction=0.5, text="50%")


def test_the_limit_that_it_died_of_is_recorded_as_it_was_asked_for() -> None:
    assert enforced_limit(ENDED, facts(), HALF) == {"limit_bytes": 40 * GIB, "device_bytes": 80 * GIB}


@pytest.mark.parametrize(
    "told",
    # Full, or too small for what was asked; held by the script itself; and it was no memory that it died of.
    [facts(outside=73 * GIB), facts(by="script"), facts(ooms=0), []],
)
def test_where_it_was_not_the_limit_none_is_recorded(told: list[Fact]) -> None:
    assert enforced_limit(ENDED, told, HALF) is None


def test_nothing_is_recorded_without_a_limit_or_where_more_was_asked_for_than_was_left() -> None:
    assert enforced_limit(ENDED, facts(), None) is None
    assert enforced_limit(f"{ENDED}. Tried to allocate 75.00 GiB", facts(), HALF) is None


def test_what_the_context_takes_of_the_limit_is_said() -> None:
    told = facts(allowed=7 * GIB)
    told[0].data["context"] = GIB
    said = whose_room(ENDED, told, GPUS)
    assert said is not None and said.startswith(
        "it asked for more than the VRAM limit of 8 GiB (1 GiB of it for its context) that it is held to on GPU 3"
    )


def test_a_device_that_others_have_filled_is_not_the_limits_doing() -> None:
    said = whose_room(ENDED, facts(outside=73 * GIB), GPUS)
    assert said is not None and "GPU 3 itself had too little room (" in said
    assert " left), below the limit of 8 GiB: " in said


@pytest.mark.parametrize(
    ("told", "part"),
    [
        (facts(by="script"), "more than the script's own limit of 8 GiB"),
        (facts(sharing=4), "8 GiB (its share: 4 processes are on it)"),
        (facts(outside=None), "held to on GPU 3: the training"),
    ],
)
def test_whose_limit_it_is_stands_in_the_sentence(told: list[Fact], part: str) -> None:
    assert part in (whose_room(ENDED, told, GPUS) or "")


def test_without_a_limit_that_was_held_the_end_is_told_as_it_was() -> None:
    assert whose_room(ENDED, facts()[1:], GPUS) == ENDED
    assert whose_room(ENDED, facts(ooms=0), GPUS) == ENDED
    assert whose_room(ENDED, [], GPUS, in_validation=True) == f"in its validation {ENDED}"
    assert whose_room(None, facts(), GPUS) is None


def test_running_out_and_going_on_is_a_note_of_a_trial_that_completed() -> None:
    assert held_notes(facts(ooms=0), GPUS, completed=True) == []
    assert "ran out of VRAM once and went on" in held_notes(facts(), GPUS, completed=True)[0]
    assert held_notes(facts(ooms=3), GPUS, completed=False) == []
    assert (
        "the script holds itself to 8 GiB on GPU 3" in held_notes(facts(by="script", ooms=0), GPUS, completed=True)[0]
    )


ROLES = Roles(
    pid=7, steps=(OptimizerStepped(pid=7, optimizer=0, number=1, ended_s=1.0, main_thread=True),), optimizer=0,
    train=None, passes=(), batches=(), others=(), other_batches=(), peers_worker_pids=(), ranks=(7,),
)  # fmt: skip
WINDOW = [
    StepWindow(number=0, started_s=10.0, ended_s=11.0, batches=(), other_batches=(), boundary=False),
]


def retries(*told: tuple[float, int, int]) -> int | None:
    seen = [Fact(pid=7, t_s=t, name="memory", data={"device": 0, "retries": r, "ooms": o}) for t, r, o in told]
    roles = replace(ROLES, steps=(replace(ROLES.steps[0], ended_s=11.0),))
    return with_device(Measurement(), device_steps=(), stages=(), facts=seen, roles=roles, regular=WINDOW).alloc_retries


def test_retries_of_the_warm_up_are_nobodys() -> None:
    assert retries((1.0, 9, 0), (10.5, 9, 0), (12.0, 9, 0)) == 0


def test_retries_that_helped_after_it_count_and_those_of_a_search_for_kernels_do_not() -> None:
    assert retries((10.5, 9, 0), (12.0, 12, 0)) == 3
    assert retries((10.5, 9, 9), (12.0, 12, 12)) == 0
    assert retries((10.5, 9, 1), (12.0, 12, 2)) == 2


def fast(trial: int, rate: float, workers: int, **measured: object) -> TrialRecord:
    record = a_record(trial=trial)
    measurement = replace(
        record.measurement, samples_per_s=rate, samples_per_s_ci95=(0.98 * rate, 1.02 * rate),
        samples_per_s_whole_run=rate, **measured,
    )  # fmt: skip
    settings = {"workers": workers}
    return replace(record, settings=settings, asked={} if trial == 1 else settings, measurement=measurement)


def test_a_faster_trial_whose_allocator_lives_on_what_it_gives_back_loses() -> None:
    own, cramped, next_best = fast(1, 10.0, 1), fast(2, 30.0, 4, alloc_retries=3), fast(3, 20.0, 2, alloc_retries=0)
    choice = choose([own, cramped, next_best])
    assert choice.best is not None and choice.best.trial == 3
    lost = {one.trial: one for one in choice.lost}
    assert lost[2].reason == "out_of_room"
    assert lost[2].why == "its allocator gave memory back 3 times after warm-up: it is out of room"
    assert choice.cramped == (2,)


def test_where_no_trial_has_room_none_is_chosen() -> None:
    choice = choose([fast(1, 10.0, 1, alloc_retries=1)])
    assert choice.best is None and choice.cramped == (1,)
    assert choice.lost[0].why.startswith("its allocator gave memory back 1 time after")


def test_a_validation_that_takes_more_than_the_device_was_seen_to_hold_is_what_is_needed() -> None:
    record = a_gpu_record()
    limits = Limits(vram=Limit(bytes=75_000_000_000, text="75GB"))
    assert excess_of(record, limits, None) == ()
    larger = replace(record.measurement, vram_validation_peak_bytes=76_000_000_000)
    (excess,) = excess_of(replace(record, measurement=larger), limits, None)
    assert (excess.memory, excess.needs_bytes) == ("VRAM", 76_000_000_000)
    smaller = replace(record.measurement, vram_validation_peak_bytes=70_000_000_000)
    assert excess_of(replace(record, measurement=smaller), limits, None) == ()


def test_what_the_whole_device_has_no_room_for_is_not_the_limits_doing() -> None:
    asked = f"{ENDED}. Tried to allocate 90.00 GiB."
    said = whose_room(asked, facts(), GPUS) or ""
    assert said.startswith("GPU 3 itself had too little room (72 GiB left), whatever its limit: ")
    assert (whose_room(f"{ENDED}. Tried to allocate 20.00 GiB.", facts(), GPUS) or "").startswith("it asked for more")
