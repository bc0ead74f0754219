"""A whole run by the loader's own schedule, cut after some steps, and what the cut part says of the whole."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.trial_writer import TrialWriter
from vtune.analysis.measure import Observed, measure
from vtune.analysis.roles import find_roles
from vtune.analysis.run_words import run_lines
from vtune.domain.experiment import PlannedRun
from vtune.domain.record import Measurement
from vtune.journal.step_log import StepLog

VALIDATION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    workers: int = 2
    prefetch: int = 2
    persistent: bool = False
    load_s: float = 0.3
    own_s: float = 0.1
    spread: float = 0.0
    first_step_s: float = 0.0
    boot_s: float = 2.0
    batches: int = 60
    epochs: int = 3
    # Batches of 0.2 s, without workers, at the end of each epoch.
    validation_batches: int = 0
    # Of so many, of which the script only ever takes those.
    validation_of: int = 0
    checkpoint_s: float = 0.0
    # Before the first epoch; the validation's loader has more.
    sanity_batches: int = 0
    # Between two steps of an epoch, every so many.
    validation_every: int = 0


def write(writer: TrialWriter, run: Run, *, cut_after_steps: int) -> float:
    """The files hold what happened until the cut; told is when the whole run ends. It starts at 0."""
    dice = random.Random(1)
    cut = False
    writer.hello()
    writer.loader()
    writer.loader(VALIDATION, "train.py:9:Patches#0 bbbb")
    now, steps, passes = 3.0, 0, 0

    def validate(now: float, batches: int, of: int) -> float:
        nonlocal passes
        if not cut:
            writer.begin_pass(passes, loader=VALIDATION, workers=0, batch=1, length=of, begun=now)
        for j in range(batches):
            if not cut:
                writer.deliver(now, now + 0.1, j, loader=VALIDATION, pass_number=passes, samples=1, flags=1)
            now += 0.2
        if not cut and batches == of:
            writer.fact("pass_end", **{"pass": passes}, batches=of)
        passes += 1
        return now

    if run.sanity_batches:
        now = validate(now, run.sanity_batches, 2 * run.validation_batches)
    pids: list[int] = []
    for epoch in range(run.epochs):
        begun = now
        fresh = epoch == 0 or not run.persistent
        number, passes = passes, passes + 1
        if not cut:
            found = writer.begin_pass(
                number, workers=run.workers, prefetch=run.prefetch, length=run.batches, begun=begun,
                persistent=run.persistent, resume=0 if fresh else epoch, pids=None if fresh else pids,
            )  # fmt: skip
            pids = found
        ready = begun + (run.boot_s if fresh else 0.0)
        finished: list[float] = []
        delivered: list[float] = []
        for j in range(run.batches):
            took = run.load_s * dice.gammavariate(1 / run.spread**2, run.spread**2) if run.spread else run.load_s
            if run.workers:
                free = finished[j - run.workers] if j >= run.workers else ready
                ahead = run.workers * run.prefetch
                start = max(free, delivered[j - ahead] if j >= ahead else ready)
                finished.append(start + took)
                there = max(finished[j], now)
                if not cut:
                    w = j % run.workers
                    writer.load(pids[w], w, j, start, finished[j], resume=0 if fresh else epoch)
            else:
                there = now + took
            delivered.append(there)
            if not cut:
                writer.deliver(now, there, j, pass_number=number)
            now = there + run.own_s + (run.first_step_s if steps == 0 else 0.0)
            steps += 1
            if not cut:
                writer.step(now)
            cut = cut or steps >= cut_after_steps
            if run.validation_every and steps % run.validation_every == 0:
                now = validate(now, run.validation_batches, run.validation_batches)
        if not cut:
            writer.fact("pass_end", **{"pass": number}, batches=run.batches)
        if run.validation_batches and not run.validation_every:
            now = validate(now, run.validation_batches, run.validation_of or run.validation_batches)
        if run.checkpoint_s:
            if not cut:
                writer.fact("saved", t=now + run.checkpoint_s, begun=now, seconds=run.checkpoint_s, where="train.py:30")
            now += run.checkpoint_s
    return now


def measured(writer: TrialWriter, planned: PlannedRun) -> Measurement:
    log = StepLog(writer.paths)
    log.refresh()
    roles = find_roles(log.steps, log.delivered, log.facts)
    observed = Observed(
        roles=roles, loaded=log.loaded, delivered=log.delivered, facts=log.facts, telemetry=(), started_s=0.0
    )
    return measure(observed, planned, None)


def projected(
    tmp_path: Path, run: Run, *, cut_after_steps: int, validation_every_steps: int | None = None
) -> tuple[Measurement, float]:
    writer = TrialWriter(tmp_path)
    whole_s = write(writer, run, cut_after_steps=cut_after_steps)
    planned = PlannedRun(epochs=run.epochs, validation_every_steps=validation_every_steps)
    return measured(writer, planned), whole_s


@pytest.mark.parametrize("persistent", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "run",
    [
        Run(),
        Run(own_s=0.4),
        Run(workers=1, prefetch=1),
        Run(workers=7, load_s=1.4),
        Run(workers=6, prefetch=4, load_s=0.5, first_step_s=9.0),
        Run(workers=4, load_s=0.5, own_s=0.12, spread=0.5),
        Run(workers=0, boot_s=0.0),
    ],
    ids=["waiting", "computing", "one worker", "seven", "slow first step", "uneven", "none"],
)
@pytest.mark.parametrize("cut", [45, 100], ids=["unseen", "seen"])
def test_a_run_is_projected_to_its_end(tmp_path: Path, run: Run, persistent: bool, cut: int) -> None:
    one = Run(**{**{name: getattr(run, name) for name in run.__slots__}, "persistent": persistent})
    found, whole_s = projected(tmp_path, one, cut_after_steps=cut)
    assert (found.epoch_restart_s is not None) == (cut > 60)
    rel = 0.05 if run.spread else 0.02
    assert found.projected.run_s == pytest.approx(whole_s, rel=rel)
    assert found.samples_per_s_whole_run == pytest.approx(3 * 120 / whole_s, rel=rel)


def test_pauses_at_the_end_of_an_epoch_are_paid_once_for_each_epoch(tmp_path: Path) -> None:
    run = Run(validation_batches=30, checkpoint_s=4.0)
    found, whole_s = projected(tmp_path, run, cut_after_steps=100)
    assert {(p.what, p.seen, p.counted, round(p.seconds, 3)) for p in found.pauses} == {
        ("validation", 1, True, 6.0),
        ("checkpoint", 1, True, 4.0),
    }
    assert found.projected.run_s == pytest.approx(whole_s, rel=0.02)


def test_a_validation_that_the_script_breaks_off_each_time_takes_what_it_took(tmp_path: Path) -> None:
    run = Run(validation_batches=5, validation_of=100)
    found, whole_s = projected(tmp_path, run, cut_after_steps=100)
    [pause] = found.pauses
    assert (pause.cut_after_batches, pause.seconds) == (None, pytest.approx(1.0, abs=0.05))
    assert found.projected.run_s == pytest.approx(whole_s, rel=0.05)


def test_pauses_that_were_not_seen_are_left_out(tmp_path: Path) -> None:
    run = Run(validation_batches=30, checkpoint_s=4.0)
    found, whole_s = projected(tmp_path, run, cut_after_steps=45)
    assert found.pauses == () and found.epoch_restart_s is None
    assert found.projected.run_s == pytest.approx(whole_s - 3 * 10.0, rel=0.02)


@pytest.mark.parametrize(("cut", "counted"), [(45, False), (100, True)])
def test_a_sanity_check_of_two_batches_is_no_validation_of_an_epoch(tmp_path: Path, cut: int, counted: bool) -> None:
    run = Run(validation_batches=15, sanity_batches=2)
    found, whole_s = projected(tmp_path, run, cut_after_steps=cut)
    [pause] = found.pauses
    assert (pause.counted, pause.cut_after_batches) == (counted, None if counted else 2)
    assert pause.seconds == pytest.approx(3.0 if counted else 0.4, rel=0.02)
    unseen_s = 0.0 if counted else 3 * 3.0
    assert found.projected.run_s == pytest.approx(whole_s - unseen_s, rel=0.02)


def test_a_whole_validation_before_the_first_step_stands_for_that_of_each_epoch(tmp_path: Path) -> None:
    run = Run(validation_batches=15, sanity_batches=30)
    found, whole_s = projected(tmp_path, run, cut_after_steps=45)
    [pause] = found.pauses
    assert (pause.counted, pause.cut_after_batches, round(pause.seconds, 3)) == (False, None, 6.0)
    # The one before the first step had twice the batches of those that come.
    assert found.projected.run_s == pytest.approx(whole_s + 3 * 3.0, rel=0.02)


def test_a_validation_between_the_steps_of_an_epoch_is_in_the_rate_already(tmp_path: Path) -> None:
    run = Run(batches=400, epochs=1, own_s=0.3, validation_every=10, validation_batches=10)
    found, whole_s = projected(tmp_path, run, cut_after_steps=105)
    [pause] = found.pauses
    assert pause.counted and pause.seen == 10 and pause.seconds == pytest.approx(2.0, rel=0.02)
    # Ten steps of 0.3 s, and then a validation of ten batches, each waited for 0.1 s of its 0.2 s.
    assert pause.every_steps == 10 and pause.time_fraction == pytest.approx(2 / 5, abs=0.02)
    assert pause.wait_fraction == pytest.approx(1 / 5, abs=0.02)
    assert found.projected.run_s == pytest.approx(whole_s, rel=0.03)


@pytest.mark.parametrize("workers", [0, 2])
def test_one_validation_between_the_steps_is_in_no_rate_for_nobody_knows_how_often_it_comes(
    tmp_path: Path, workers: int
) -> None:
    # Of 10 s, among 60 steps of 0.3 s; the next one would come after 1000.
    run = Run(
        workers=workers, batches=4000, epochs=1, own_s=0.3, load_s=0.1, validation_every=30, validation_batches=50
    )
    found, _ = projected(tmp_path, run, cut_after_steps=59)
    assert found.samples_per_s == pytest.approx(2 / (0.3 if workers else 0.4), rel=0.01)
    assert found.step_time_s is not None and found.step_time_s.mean < 0.5
    assert [(p.what, p.seen, p.seldom, round(p.seconds, 2)) for p in found.pauses] == [("validation", 1, True, 10.0)]
    assert any("in no rate" in line for line in run_lines(found))


def test_two_validations_between_the_steps_tell_how_many_an_epoch_has(tmp_path: Path) -> None:
    run = Run(workers=0, batches=400, epochs=1, own_s=0.3, load_s=0.1, validation_every=40, validation_batches=10)
    found, whole_s = projected(tmp_path, run, cut_after_steps=99)
    [pause] = found.pauses
    assert (pause.seen, pause.seldom, pause.every_steps) == (2, True, 40.0)
    assert found.projected.run_s == pytest.approx(whole_s, rel=0.02)
    assert any("one every 40 steps" in line for line in run_lines(found))


def test_one_validation_of_a_known_interval_is_paid_for_as_often_as_it_comes(tmp_path: Path) -> None:
    run = Run(workers=0, batches=400, epochs=1, own_s=0.3, load_s=0.1, validation_every=40, validation_batches=10)
    found, whole_s = projected(tmp_path, run, cut_after_steps=59, validation_every_steps=40)
    [pause] = found.pauses
    assert (pause.seen, pause.seldom, pause.every_steps) == (1, True, 40)
    assert found.projected.run_s == pytest.approx(whole_s, rel=0.02)


def test_a_loader_that_most_steps_use_without_gradients_is_no_validation(tmp_path: Path) -> None:
    run = Run(batches=400, epochs=1, validation_every=1, validation_batches=1)
    found, _ = projected(tmp_path, run, cut_after_steps=80)
    assert found.pauses == ()


def test_persistent_workers_are_told_to_save_their_start_before_an_epochs_end_is_seen(tmp_path: Path) -> None:
    runs = [Run(persistent=persistent, boot_s=5.0) for persistent in (False, True)]
    told = [
        projected(tmp_path / str(run.persistent), run, cut_after_steps=45)[0].projected.run_s or 0.0 for run in runs
    ]
    assert told[0] - told[1] == pytest.approx(2 * 5.0, rel=0.01)


PART, PARTS_OF_AN_EPOCH, RESTART_S = 20, 15, 1.0


def parts(tmp_path: Path, *, passes: int, data: list[int | None], made: list[int] | None = None) -> TrialWriter:
    """Each pass is one of fifteen parts of an epoch: 20 batches of 0.1 s, and a second until the next part is there."""
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    now = 0.0
    for number in range(passes):
        writer.fact(
            "pass", **{"pass": number}, loader=0, resume=0, begun=now, ready=now, length=PART, worker_pids=[],
            made=number if made is None else made[number], data=data[number],
            effective={"num_workers": 0, "batch_size": 2, "persistent_workers": False},
        )  # fmt: skip
        now += RESTART_S
        for j in range(PART):
            writer.deliver(now, now + 0.05, j, pass_number=number)
            now += 0.1
            writer.step(now)
        writer.fact("pass_end", **{"pass": number}, batches=PART)
    return writer


def test_a_loader_built_for_each_part_of_an_epoch_tells_no_length_of_an_epoch(tmp_path: Path) -> None:
    found = measured(parts(tmp_path, passes=4, data=[0, 1, 2, 3]), PlannedRun(epochs=3))
    assert found.samples_per_epoch is None and found.projected.run_s is None and found.projected.epoch_s is None
    assert "samples_per_epoch" in found.unknown and found.loader_rebuilt
    assert any("length of an epoch is not known" in line for line in run_lines(found))
    # What it is compared by has the restarts of its parts.
    assert (found.samples_per_part, found.part_s) == (40, pytest.approx(2.0 + RESTART_S, rel=0.03))
    assert found.samples_per_s_epoch == pytest.approx(40 / 3.0, rel=0.03)


def test_a_part_starts_again_as_often_as_an_epoch_has_parts(tmp_path: Path) -> None:
    planned = PlannedRun(epochs=3, samples_per_epoch=PARTS_OF_AN_EPOCH * PART * 2)
    found = measured(parts(tmp_path, passes=4, data=[0, 1, 2, 3]), planned)
    epoch_s = PARTS_OF_AN_EPOCH * (0.1 * PART + RESTART_S)
    assert found.projected.epoch_s == pytest.approx(epoch_s, rel=0.02)
    assert found.projected.run_s == pytest.approx(3 * epoch_s, rel=0.02)
    assert found.samples_per_s_whole_run == pytest.approx(600 / epoch_s, rel=0.02)


@pytest.mark.parametrize("data", [[0, 0, 0, 0], [None] * 4])
def test_a_loader_built_anew_for_the_same_data_has_an_epoch_in_each_pass(
    tmp_path: Path, data: list[int | None]
) -> None:
    found = measured(parts(tmp_path, passes=4, data=data), PlannedRun(epochs=10))
    assert found.samples_per_epoch == 40 and found.samples_per_part is None and found.loader_rebuilt
    assert found.projected.run_s == pytest.approx(10 * 3.0, rel=0.03)


def test_one_loader_that_is_walked_over_again_and_again_is_not_built_anew(tmp_path: Path) -> None:
    found = measured(parts(tmp_path, passes=4, data=[0] * 4, made=[0] * 4), PlannedRun(epochs=10))
    assert not found.loader_rebuilt


def test_more_passes_than_planned_epochs_are_no_epochs(tmp_path: Path) -> None:
    found = measured(parts(tmp_path, passes=4, data=[None] * 4), PlannedRun(epochs=2))
    assert found.samples_per_epoch is None and "samples_per_epoch" in found.unknown


def test_a_last_batch_that_is_smaller_or_dropped_is_counted_by_the_sampler(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    effective = {"num_workers": 0, "batch_size": 64}
    writer.fact("pass", **{"pass": 0}, loader=0, begun=0.0, length=200, samples=12_740, effective=effective)
    for j in range(60):
        writer.deliver(j, j + 0.5, j, samples=64)
        writer.step(j + 1.0)
    assert measured(writer, PlannedRun()).samples_per_epoch == 12_740


def test_epochs_that_are_counted_along_one_walk_over_the_loader_do_not_start_it_again(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    whole_s = write(writer, Run(batches=150, epochs=1), cut_after_steps=100)
    found = measured(writer, PlannedRun(epochs=5, iterations_per_epoch=30))
    assert found.epoch_bound_by == "iterations" and found.projected.run_s == pytest.approx(whole_s, rel=0.02)


def test_a_walk_over_the_training_data_without_a_step_is_part_of_the_epochs_end(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    now, number = 0.0, 0
    for _ in range(3):
        for trains in (True, False):
            writer.begin_pass(number, workers=0, length=40, begun=now)
            for j in range(40):
                writer.deliver(now, now + 0.05, j, pass_number=number, flags=5 if trains else 1)
                now += 0.1 if trains else 0.06
                if trains:
                    writer.step(now)
            writer.fact("pass_end", **{"pass": number}, batches=40)
            number += 1
    assert measured(writer, PlannedRun()).epoch_restart_s == pytest.approx(40 * 0.06, rel=0.02)
