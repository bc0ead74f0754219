from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from vtune.analysis.ending import Seen, status_of
from vtune.analysis.ram_guard import guard_evidence, guard_notes, with_guards_peak
from vtune.domain.experiment import Window
from vtune.domain.record import Measurement
from vtune.domain.trial import EndedBy, MemoryGroupEnd, Passed, RamGuard, TrialOutcome, TrialStatus

GIB = 2**30


def outcome(ended_by: EndedBy = "window", **more: Any) -> TrialOutcome:
    return TrialOutcome(ended_by=ended_by, exit_code=None, signal=None, seconds=10.0, **more)


def test_the_peak_is_what_the_guard_saw_between_two_samples() -> None:
    guard = RamGuard(by="watchdog", peak_bytes=3 * GIB)
    measured = Measurement(ram_peak_bytes=2 * GIB, ram_projected_bytes=2 * GIB)
    seen = with_guards_peak(measured, outcome(ram_guard=guard))
    assert (seen.ram_peak_bytes, seen.ram_projected_bytes) == (3 * GIB, 3 * GIB)


def test_a_peak_that_the_samples_saw_and_the_guard_did_not_stays() -> None:
    measured = Measurement(ram_peak_bytes=2 * GIB)
    assert with_guards_peak(measured, outcome(ram_guard=RamGuard(by="watchdog", peak_bytes=GIB))) == measured
    assert with_guards_peak(measured, outcome()) == measured


def test_a_peak_that_only_the_guard_knows_is_not_unknown() -> None:
    measured = Measurement(unknown={"ram_peak_bytes": "no readings", "vram": "no GPU"})
    seen = with_guards_peak(measured, outcome(over=Passed(what="ram", used_bytes=GIB, limit_bytes=1)))
    assert (seen.ram_peak_bytes, seen.unknown) == (GIB, {"vram": "no GPU"})


@pytest.mark.parametrize(
    ("guard", "words"),
    [
        (RamGuard(by="watchdog", limit_bytes=GIB), "1.5 GiB of RAM in use, over the limit of 1 GiB"),
        (
            RamGuard(by="cgroup v1", limit_bytes=GIB, is_default=True, reserve_bytes=2 * GIB),
            "over the default limit of 1 GiB: what the machine had left when it started less 2 GiB for everybody else; "
            "--ram-limit sets another",
        ),
    ],
)
def test_a_limit_that_nobody_named_is_told_as_such_and_how_to_change_it(guard: RamGuard, words: str) -> None:
    over = Passed(what="ram", used_bytes=3 * GIB // 2, limit_bytes=GIB)
    seen = Seen(pythons=1, hello=True, steps=7, measured=3, backwards=7, batches=7, last_words="")
    status, detail = status_of(outcome("limit", over=over, ram_guard=guard), Window(), seen)
    assert status is TrialStatus.OUT_OF_RAM
    assert detail is not None and detail.endswith(words)


def test_page_cache_that_the_group_had_no_room_for_is_told_unless_the_trial_died_there() -> None:
    full = MemoryGroupEnd(kind="cgroup v1", limit_bytes=GIB, peak_bytes=GIB, oom_kills=0, at_limit=True)
    [note] = guard_notes(outcome(group=full))
    assert "page cache" in note and "1 GiB" in note
    assert guard_notes(outcome("limit", group=full, over=Passed(what="ram"))) == []
    roomy = MemoryGroupEnd(kind="cgroup v1", limit_bytes=GIB, peak_bytes=GIB // 2, oom_kills=0, at_limit=False)
    assert guard_notes(outcome(group=roomy)) == guard_notes(outcome()) == []


def test_the_evidence_names_who_enforced_which_limit() -> None:
    guard = RamGuard(by="cgroup v2", limit_bytes=GIB, is_default=True, peak_bytes=5)
    assert guard_evidence(outcome(ram_guard=guard)) == {
        "ram_guard": {"limit_bytes": GIB, "is_default": True, "by": "cgroup v2"}
    }
    assert guard_evidence(outcome()) == {}


@pytest.mark.parametrize(("by", "held"), [("watchdog", "nothing held"), ("cgroup v1", "only the kernel held")])
def test_a_guard_that_failed_is_told(by: Any, held: str) -> None:
    guard = RamGuard(by=by, limit_bytes=GIB, failed="ValueError: no number")
    [note] = guard_notes(outcome(ram_guard=guard))
    assert "ValueError: no number" in note and "supervisor.log" in note and held in note
    assert guard_notes(outcome(ram_guard=replace(guard, failed=None))) == []


def test_a_defect_that_did_not_lose_the_trial_is_told_beside_its_result() -> None:
    [note] = guard_notes(outcome(defect="OSError: odd"))
    assert "OSError: odd" in note and "supervisor.log" in note
    assert guard_notes(outcome("lost", defect="OSError: odd")) == [], "its sentence says it"


def test_a_lost_trial_names_the_defect_that_lost_it_and_where_more_is_told() -> None:
    seen = Seen(pythons=1, hello=True, steps=7, measured=3, backwards=7, batches=7, last_words="")
    status, detail = status_of(outcome("lost", defect="KeyError: 'token'"), Window(), seen)
    assert status is TrialStatus.INTERRUPTED
    assert detail is not None and "KeyError: 'token'" in detail and "supervisor.log" in detail
    assert "was killed" not in detail
    assert "was killed" in (status_of(outcome("lost"), Window(), seen)[1] or "")
