"""Renewed promises among a launch's events: what was written is read again, and nothing else is taken for one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vtune.domain.launch import LaunchEvent
from vtune.domain.renewal import OtherPace, RarePause, Renewal
from vtune.domain.steady import CacheFills, FromStorage, Order, PartOfEpoch, Trend
from vtune.journal.launch_files import append_event
from vtune.journal.paths import StudyPaths
from vtune.journal.renewals import EVENT, read_renewals, renewal_to_json

REASONS = [
    RarePause(what="stop", seconds=1.5, seen=4, every_steps=150.5),
    RarePause(what="validation", seconds=30.0, seen=3),
    OtherPace(side="loader", change=-0.2, clocks=True),
    Trend(side="training", change=0.3, seconds=900.0),
    FromStorage(waiting=0.4),
    PartOfEpoch(order=Order.FILE_ORDER, fraction=0.01),
    CacheFills(attribute="kept"),
]


def renewal(**fields: Any) -> Renewal:
    plain = Renewal(
        trial=1, after_steps=1200, because=REASONS[0], samples_per_s_before=10.1, samples_per_s=7.1,
        steady_samples_per_s=7.1, steady_samples_per_s_ci95=(7.0, 7.2), launch=1, settings={"workers": 4},
    )  # fmt: skip
    return replace(plain, **fields)


@pytest.fixture
def study(tmp_path: Path) -> StudyPaths:
    paths = StudyPaths(tmp_path / "demo")
    for number in (1, 2):
        paths.launch(number).root.mkdir(parents=True)
    return paths


def write(study: StudyPaths, number: int, told: object, kind: str = EVENT) -> None:
    append_event(study.launch(number), LaunchEvent(at=1.0, kind=kind, text="", data={"renewal": told}))


@pytest.mark.parametrize("because", REASONS, ids=lambda one: type(one).__name__)
def test_each_reason_is_read_as_it_was_written(study: StudyPaths, because: Any) -> None:
    write(study, 1, renewal_to_json(renewal(because=because)))
    assert read_renewals(study) == (renewal(because=because),)


def test_they_come_in_the_order_of_launches_and_events(study: StudyPaths) -> None:
    later, first, second = renewal(launch=2), renewal(), renewal(after_steps=2400, steady_samples_per_s_ci95=None)
    for number, one in ((2, later), (1, first), (1, second)):
        write(study, number, renewal_to_json(one))
    assert read_renewals(study) == (first, second, later)


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        {},
        {"because": {"kind": "Unheard", "much": 3}},
        {"because": {"kind": "RarePause", "what": "checkpoint"}},
        {"because": {"kind": "ShortWindow", "steps": 3, "seconds": 2.0}},
        {"samples_per_s": "fast"},
        {"samples_per_s": 0.0},
        {"samples_per_s_before": -1.0},
        {"settings": []},
        {"because": {"kind": "RarePause", "what": "stop", "seconds": 0.0, "seen": 3, "every_steps": 150.0}},
        {"because": {"kind": "RarePause", "what": "stop", "seconds": 1.0, "seen": 3, "every_steps": 0}},
    ],
)
def test_what_is_none_that_this_vtune_understands_renews_nothing(study: StudyPaths, wrong: Any) -> None:
    write(study, 1, {**renewal_to_json(renewal()), **wrong} if wrong else wrong)
    write(study, 1, renewal_to_json(renewal()), kind="slow")
    with study.launch(1).events.open("a") as file:
        file.write(json.dumps({"kind": EVENT, "data": {"renewal": renewal_to_json(renewal())}})[:-9])
    assert read_renewals(study) == ()
