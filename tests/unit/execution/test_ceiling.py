"""What a search for the ceiling is asked: after an ordinary trial, within the user's limits."""

from __future__ import annotations

from dataclasses import replace

from support.records import a_record
from vtune.domain.experiment import PlannedRun, Window
from vtune.domain.record import TrialRecord
from vtune.execution.ceiling import ORIGIN, ceiling_asked, ceiling_proposal, ceiling_watch
from vtune.execution.observer import Watch

KEY = "train.py:9:Slow#0@1234"
WATCH = Watch(window=Window(), planned=PlannedRun())


def a_trial() -> TrialRecord:
    return replace(a_record(), evidence={"train_loader": {"key": KEY, "where": "train.py:9"}})


def test_the_loader_is_the_one_that_fed_the_ordinary_trial() -> None:
    asked = ceiling_asked(a_trial(), WATCH)
    assert asked is not None and asked.loader == KEY and asked.ladder_s == 60.0
    proposal = ceiling_proposal(a_trial(), {"workers": 4})
    assert proposal.origin == ORIGIN and proposal.settings == {"workers": 4} and "trial 1" in proposal.reason


def test_a_trial_without_a_loader_has_no_ceiling() -> None:
    assert ceiling_asked(a_record(), WATCH) is None


def test_the_machines_free_memory_is_a_limit_where_the_user_has_none() -> None:
    asked = ceiling_asked(a_trial(), WATCH)
    assert asked is not None and asked.ram_bytes is not None and asked.ram_bytes > 0
    limited = replace(WATCH, ram_limit_bytes=1000)
    tight = ceiling_asked(a_trial(), limited)
    assert tight is not None and tight.ram_bytes == 1000
    assert ceiling_watch(asked, WATCH).ram_limit_bytes == asked.ram_bytes and ceiling_watch(asked, WATCH).ceiling


def test_a_short_trial_time_leaves_room_for_the_rest_of_the_trial() -> None:
    asked = ceiling_asked(a_trial(), replace(WATCH, window=Window(trial_time_s=40.0)))
    assert asked is not None and asked.ladder_s == 20.0
