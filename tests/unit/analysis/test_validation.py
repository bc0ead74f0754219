from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.trial_writer import TrialWriter
from vtune.analysis.roles import Roles, find_roles
from vtune.analysis.validation import (
    ENOUGH_BATCHES,
    ended_in_validation,
    has_seen_validation,
    validation_note,
    validation_seen,
    with_validation,
)
from vtune.domain.experiment import Window
from vtune.domain.record import Measurement, ValidationSeen
from vtune.execution.stopping import waits_for_validation
from vtune.journal.step_log import StepLog

NO_GRADIENTS = 1
GIB = 2**30


class Training(TrialWriter):
    """A step a second; a validation's batch every tenth of one."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.now = 0.0
        self.hello()
        self.loader(0, "train.py:4:Train#0")
        self.loader(1, "train.py:5:Val#0")
        self.begin_pass(0, loader=0, workers=0)
        self.passes = 1

    def steps(self, count: int) -> Training:
        for j in range(count):
            self.deliver(self.now, self.now + 0.1, j, loader=0, pass_number=0)
            self.now += 1.0
            self.step(self.now)
        return self

    def validate(self, batches: int, *, of: int = 10, to_its_end: bool = False) -> Training:
        number, self.passes = self.passes, self.passes + 1
        self.begin_pass(number, loader=1, workers=0, length=of, begun=self.now)
        for j in range(batches):
            self.deliver(self.now, self.now + 0.05, j, loader=1, pass_number=number, flags=NO_GRADIENTS)
            self.now += 0.1
        if to_its_end:
            self.fact("pass_end", t=self.now, **{"pass": number}, batches=batches)
        return self

    def read(self) -> tuple[Roles, list[Any]]:
        log = StepLog(self.paths)
        log.refresh()
        roles = find_roles(log.steps, log.delivered, log.facts)
        assert roles is not None
        return roles, log.facts

    def seen(self) -> ValidationSeen | None:
        return validation_seen(*self.read())


@pytest.fixture
def training(tmp_path: Path) -> Training:
    return Training(tmp_path)


def test_without_one_nothing_was_seen_and_it_is_waited_for(training: Training) -> None:
    assert training.steps(50).seen() is None
    assert not has_seen_validation(None)
    assert waits_for_validation(Window(validation=True), *training.read())
    assert not waits_for_validation(Window(), *training.read())


def test_one_that_runs_is_waited_for_until_enough_of_its_batches_came(training: Training) -> None:
    assert not has_seen_validation(training.steps(30).validate(ENOUGH_BATCHES - 1, of=500).seen())


def test_twenty_batches_are_enough(training: Training) -> None:
    seen = training.steps(30).validate(ENOUGH_BATCHES, of=500).seen()
    assert has_seen_validation(seen)
    assert seen is not None and (seen.batches, seen.of_batches, seen.whole) == (20, 500, False)


def test_one_that_came_to_its_end_is_enough_however_short(training: Training) -> None:
    seen = training.steps(30).validate(3, of=3, to_its_end=True).seen()
    assert seen == ValidationSeen(batches=3, of_batches=3, whole=True, largest_shape_known=True)
    assert has_seen_validation(seen)


def test_a_sanity_check_before_the_first_step_is_not_the_validation(training: Training) -> None:
    seen = training.validate(2, of=100).steps(30).seen()
    assert seen is not None and not seen.cut_by_script and not has_seen_validation(seen)


def test_one_that_the_script_itself_cuts_is_whole_enough(training: Training) -> None:
    seen = training.steps(30).validate(2, of=100).steps(5).seen()
    assert seen is not None and seen.cut_by_script and has_seen_validation(seen)


def test_the_fullest_of_several_looks_is_told(training: Training) -> None:
    seen = training.validate(2).steps(20).validate(10, to_its_end=True).steps(20).validate(5).seen()
    assert seen is not None and seen.whole and seen.batches == 10


def test_a_second_loader_in_every_step_is_none(training: Training) -> None:
    for _ in range(30):
        training.validate(1).steps(1)
    assert training.seen() is None


def test_batches_of_one_shape_tell_the_largest_and_others_do_not(training: Training) -> None:
    training.steps(30).validate(20, of=500)
    # The last batch of a pass may hold fewer samples.
    for shape in ([8, 3, 32, 32], [5, 3, 32, 32]):
        training.fact("shape", loader=1, shape=shape)
    seen = training.seen()
    assert seen is not None and seen.largest_shape_known
    training.fact("shape", loader=1, shape=[8, 3, 64, 32])
    seen = training.seen()
    assert seen is not None and not seen.largest_shape_known


def test_the_peak_is_that_of_the_largest_pass(training: Training) -> None:
    training.steps(30).validate(20, of=500)
    for peak in (2 * GIB, 5 * GIB, 3 * GIB):
        training.fact("validation", device=0, loader=1, batches=4, allocated_peak=peak)
    training.fact("validation", pid=77, device=0, loader=1, batches=4, allocated_peak=9 * GIB)
    roles, facts = training.read()
    assert with_validation(Measurement(), roles, facts).vram_validation_peak_bytes == 5 * GIB
    assert with_validation(Measurement(), None, facts).vram_validation_peak_bytes == 9 * GIB
    assert with_validation(Measurement(), roles, []).vram_validation_peak_bytes is None


def test_what_it_died_in_is_known_by_what_came_last(training: Training) -> None:
    assert not ended_in_validation(training.steps(20).read()[0])
    assert ended_in_validation(training.validate(3).read()[0])
    assert not ended_in_validation(training.steps(1).read()[0])
    assert not ended_in_validation(None)


@pytest.mark.parametrize(
    ("seen", "peak", "asked", "said"),
    [
        (None, None, False, []),
        (None, None, True, ["no validation was seen within the trial"]),
        (ValidationSeen(batches=3, whole=True), None, False, []),
        (ValidationSeen(batches=3, whole=True), None, True, ["validation was seen to its end (3 batches)"]),
        (ValidationSeen(batches=3, whole=True), 2 * GIB, False, ["(3 batches), 2 GiB of VRAM allocated at its most"]),
        (ValidationSeen(batches=20, of_batches=90), 2 * GIB, True, ["20 of 90 batches, of several shapes: a larger"]),
        (ValidationSeen(batches=20, largest_shape_known=True), 2 * GIB, True, ["for 20 batches, all of one shape, 2"]),
        (ValidationSeen(batches=9, cut_by_script=True), 2 * GIB, True, ["9 batches, after which the training went on"]),
    ],
)
def test_what_was_asked_for_is_answered_and_a_part_is_not_told_as_the_whole(
    seen: ValidationSeen | None, peak: int | None, asked: bool, said: list[str]
) -> None:
    notes = validation_note(Measurement(validation=seen, vram_validation_peak_bytes=peak), asked=asked)
    assert len(notes) == len(said)
    assert all(part in note for part, note in zip(said, notes, strict=True))


def test_a_peak_of_a_validation_that_ran_out_of_memory_is_not_told_as_its_need() -> None:
    measured = Measurement(validation=ValidationSeen(batches=6), vram_validation_peak_bytes=GIB)
    assert "allocated" not in validation_note(measured, asked=True, died_in_it=True)[0]
