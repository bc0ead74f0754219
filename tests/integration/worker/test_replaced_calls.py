"""Trainings that replace `Module.__call__`, or what it calls, while a step is looked at closely."""

from __future__ import annotations

from typing import Any

import pytest

STAGE = 6
HOWS = [
    ("each step",),
    ("each step", "--at-begin"),
    ("each step", "--caught"),
    ("around each call",),
    ("restore later", "--at", 5),
    ("restore later", "--at", 12),
    ("subclass",),
    *(("once", "--at", at) for at in (4, 5, 6, 11, 12, 13)),
    ("once", "--at", 5, "--caught"),
]

pytestmark = pytest.mark.slow


def unchanged(plain: Any, watched: Any) -> None:
    assert watched.said == plain.said
    assert watched.exit_code == 0, watched.stderr
    assert watched.facts("problem") == []


def samples(run: Any) -> set[int]:
    return {record.index for record in run.records(STAGE)}


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_a_training_that_replaces_the_call_itself_runs_as_without_and_its_stages_are_seen(both: Any, how: Any) -> None:
    plain, watched = both("replacing_calls.py", *how)
    unchanged(plain, watched)
    assert samples(watched) == {5, 12, 19, 26, 33}
    assert watched.facts("unknown") == []


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_a_training_that_replaces_what_we_do_has_it_for_good(both: Any, how: Any) -> None:
    plain, watched = both("replacing_calls.py", *how, "--method", "_call_impl")
    unchanged(plain, watched)
    seen = samples(watched)
    if how == ("subclass",):
        assert seen == {5, 12, 19, 26, 33}
        return
    # Before that, the steps are looked at as anybody's.
    first = how[2] if "--at" in how else 0
    assert seen == {step for step in (5, 12, 19, 26, 33) if step < first}
    because = [fact["because"] for fact in watched.facts("unknown") if fact["what"] == "stages"]
    assert because == ([] if seen else ["the training replaces Module._call_impl itself"])
    assert len(watched.facts("precision")) >= 1
