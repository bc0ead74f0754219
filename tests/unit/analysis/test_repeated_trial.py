"""Of which settings repeated data is said, what a later trial takes over, and who is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.records import a_record
from support.trial_writer import TrialWriter, replay_loader
from vtune.analysis.advice import Again, next_steps
from vtune.analysis.judge import judge
from vtune.analysis.measure import Observed
from vtune.analysis.repeated_trial import makes_invalid, shown_before
from vtune.analysis.repeated_words import how_to_mend, in_present_settings, what_repeats
from vtune.analysis.roles import find_roles
from vtune.domain.effects import Scalar
from vtune.domain.experiment import PlannedRun, Window
from vtune.domain.machine import Machine
from vtune.domain.record import Measurement, TrialRecord
from vtune.domain.repeated import Repeated, Repeats
from vtune.domain.trial import TrialOutcome, TrialSpec, TrialStatus
from vtune.journal.records import record_from_json, record_to_json
from vtune.journal.step_log import StepLog
from vtune.reporting.adopt import repeated_data

MACHINE = Machine(host="h", kernel="k", cpu_model=None, cores=16, ram_bytes=2**36, shm_bytes=2**35)
FOUND = Repeated(
    reason=Repeats.SAME_NUMBERS, workers=2, dataset="Patches", where="data.py:8", generator="self.rng", batches=6
)


def shown(trial: int, found: Repeated | None = FOUND, workers: int = 2) -> TrialRecord:
    record = a_record(trial=trial)
    return replace(
        record,
        asked={"workers": workers},
        measurement=replace(record.measurement, repeated=found, effective_settings={"workers": workers}),
    )


@pytest.mark.parametrize(
    ("asked", "own", "invalid"),
    [
        ({"workers": 2}, 0, True),
        ({"workers": 2}, 4, True),
        # The user's own, which were asked for once more.
        ({"workers": 4}, 4, False),
        ({"prefetch_factor": 4}, 4, False),
        ({"workers": 2}, None, True),
    ],
)
def test_other_workers_than_the_users_own_make_a_trial_that_repeats_invalid(
    asked: dict[str, Scalar], own: Scalar, invalid: bool
) -> None:
    assert makes_invalid(asked, own) is invalid


def test_the_latest_trial_that_has_shown_it_stands_for_one_that_was_too_short() -> None:
    taken = shown_before([shown(1), shown(3), shown(4, None)])
    assert taken is not None and (taken.trial, taken.reason, taken.where) == (3, FOUND.reason, FOUND.where)
    # As that one took it over itself.
    again = shown_before([shown(5, replace(FOUND, trial=1))])
    assert again is not None and again.trial == 1
    assert shown_before([shown(1, replace(FOUND, reason=Repeats.NOT_SHOWN))]) is None and shown_before([]) is None


def test_a_record_keeps_it_in_the_journal_also_where_a_newer_reason_is_not_known() -> None:
    told = record_to_json(shown(1))
    assert record_from_json(told).measurement.repeated == FOUND
    told["repeated"]["reason"] = "by_magic"
    read = record_from_json(told).measurement.repeated
    assert read is not None and read.reason is Repeats.NOT_SHOWN


@pytest.mark.parametrize("reason", list(Repeats))
@pytest.mark.parametrize("generator", ["self.rng", "numpy.random"])
def test_every_reason_names_the_line_to_mend(reason: Repeats, generator: str) -> None:
    found = replace(FOUND, reason=reason, generator=generator, trial=7)
    assert "data.py:8" in what_repeats(found) and "trial 7" in what_repeats(found) and "data.py:8" in how_to_mend(found)
    assert ("your present settings" in in_present_settings(found)) is (reason is not Repeats.NOT_SHOWN)


def test_more_workers_are_not_advised_where_they_would_repeat() -> None:
    waits = Measurement(samples_per_s=10.0, data_wait_fraction=0.8, effective_settings={"workers": 2})
    plain, repeating = (
        next_steps(measured, "data", MACHINE, Again()) for measured in (waits, replace(waits, repeated=FOUND))
    )
    assert any("workers=4" in one.text for one in plain)
    assert repeating[0].text == how_to_mend(FOUND) and not any(one.asks for one in repeating)


@pytest.mark.parametrize(
    ("of_trial", "workers", "of_own", "lines"),
    [
        (FOUND, 2, None, 1),
        # Shown by the user's own workers; a single one repeats nothing.
        (None, 2, FOUND, 1),
        (None, 1, FOUND, 0),
        (None, 0, FOUND, 0),
        (None, 2, None, 0),
    ],
)
def test_whoever_takes_a_trials_settings_over_is_told(
    of_trial: Repeated | None, workers: int, of_own: Repeated | None, lines: int
) -> None:
    own = replace(shown(1).measurement, repeated=of_own)
    assert len(repeated_data(shown(2, of_trial, workers), own)) == lines


OF_WORKERS = ((5000, [9, 4, 7]), (5001, [2, 8, 5]))


def judged(root: Path, asked: dict[str, Scalar], *, states: list[list[int]], seen_workers: int = 2) -> TrialRecord:
    """A training with two loader workers and the states of a generator that each has a copy of."""
    writer = TrialWriter(root)
    replay_loader(writer, steps=60, workers=2, prefetch=2, load_s=0.2, compute_s=0.1)
    for pid, keys in OF_WORKERS[:seen_workers]:
        for order, state in enumerate(states, -1):
            more = (
                {"contents": [pid + order], "keys": [keys[order]]} if order >= 0 else {"places": {"self.rng": "d.py:8"}}
            )
            writer.fact("reads", pid, worker=pid - 5000, order=order, states={"self.rng": state}, **more)
    log = StepLog(writer.paths)
    while log.refresh():
        pass
    roles = find_roles(log.steps, log.delivered, log.facts)
    observed = Observed(
        roles=roles, loaded=log.loaded, delivered=log.delivered, steps=log.steps, backwards=log.backwards,
        facts=log.facts, telemetry=(), started_s=0.0,
    )  # fmt: skip
    spec = TrialSpec(
        trial=2, origin="asked", reason="", settings=asked, effects=(), command=("python",), cwd="/", env={}, token="t"
    )
    outcome = TrialOutcome(ended_by="window", exit_code=0, signal=None, seconds=20.0)
    return judge(
        spec, outcome, observed, pythons=1, backwards=0, last_words="", window=Window(steps=40), planned=PlannedRun(),
        price=None, machine=MACHINE, current={"workers": 4}, gpu_validated=False, earlier=[shown(1)],
    )  # fmt: skip


ALIKE = [[1, 1], [2, 1], [3, 1], [4, 1]]


def test_other_workers_that_repeat_are_invalid_and_the_users_own_keep_their_rate(tmp_path: Path) -> None:
    turned = judged(tmp_path / "turned", {"workers": 2}, states=ALIKE)
    assert turned.status is TrialStatus.INVALID and turned.diagnosis.next == (how_to_mend(turned.measurement.repeated),)
    own = judged(tmp_path / "own", {}, states=ALIKE)
    assert own.status is TrialStatus.COMPLETED and (own.measurement.samples_per_s or 0) > 0
    for record in (turned, own):
        found = record.measurement.repeated
        assert found is not None and (found.reason, found.where, found.trial) == (Repeats.SAME_NUMBERS, "d.py:8", None)
    assert own.detail is None and own.notes == judged(tmp_path / "sound", {}, states=[[1, 1]] * 4).notes


def test_a_trial_whose_workers_could_not_be_compared_is_judged_by_one_whose_could(tmp_path: Path) -> None:
    short = judged(tmp_path / "short", {"workers": 2}, states=ALIKE, seen_workers=1)
    assert short.status is TrialStatus.INVALID
    assert short.measurement.repeated is not None and short.measurement.repeated.trial == 1
    # Its own workers showed that they do not.
    still = [[1, 1]] * 4
    assert judged(tmp_path / "long", {"workers": 2}, states=still).status is TrialStatus.COMPLETED
    assert judged(tmp_path / "own", {}, states=ALIKE, seen_workers=1).measurement.repeated is None
