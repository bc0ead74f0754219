"""When one batch, doubled again and again, is enough: decided inside the training, told as facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def ladder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    from _vtune_hooks import ladder, recorder

    monkeypatch.setattr(recorder, "here", recorder.Process(str(tmp_path), silent=False))
    # Steps of a test take no time: as many as the shortest rung has.
    monkeypatch.setattr(ladder, "RUNG_S", 0.0)
    monkeypatch.setattr(ladder, "FIRST_RUNG_S", 0.0)
    return ladder


def climb(ladder: Any, *, batches: int = 400, batches_a_step: int = 1, **asked: Any) -> list[int]:
    """The sizes that a training was given."""
    options = {"at_most_s": 60.0, "ram_bytes": None, "resident_before": None, "workers": (), "most_samples": None}
    made = ladder.Ladder(np.zeros((4, 2)), 4, **{**options, **asked})
    given = []
    for number in range(1, batches + 1):
        given.append(len(made.batch(ladder._now())))
        if number % batches_a_step == 0:
            ladder.moments.steps += 1
    return given


def told(folder: Path, name: str) -> list[dict[str, Any]]:
    [path] = folder.glob("steps-*.jsonl")
    return [fact for line in path.read_text().splitlines() if (fact := json.loads(line))["fact"] == name]


def test_no_batch_is_larger_than_an_epoch(ladder: Any, tmp_path: Path) -> None:
    assert max(climb(ladder, batches=80, most_samples=20)) == 16
    [done] = told(tmp_path, "ceiling_done")
    assert "more than the 20 samples of an epoch" in done["because"]


def test_sizes_double_and_each_has_its_warm_up_and_its_steps(ladder: Any, tmp_path: Path) -> None:
    given = climb(ladder, batches=40)
    assert given[:31] == [4] * 15 + [8] * 15 + [16]
    ends = told(tmp_path, "ceiling_rung_end")
    assert [(end["samples"], end["steps"], end["batches"]) for end in ends[:2]] == [(4, 10, 10), (8, 10, 10)]
    assert all(end["ended"] >= end["begun"] and end["ram_peak"] > 2**20 for end in ends)


def test_without_growth_it_ends_and_the_first_size_is_fed_again(
    ladder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step of this test costs the same at any size, so a rate that must grow a thousandfold never does."""
    monkeypatch.setattr(ladder, "GROWTH", 1000.0)
    given = climb(ladder)
    [done] = told(tmp_path, "ceiling_done")
    assert done["because"] == "the rate has not grown for 3 sizes" and not done["failed"]
    assert max(given) == 32 and given[-1] == 4


def test_accumulated_batches_are_counted_by_steps(ladder: Any, tmp_path: Path) -> None:
    climb(ladder, batches=100, batches_a_step=4)
    first = told(tmp_path, "ceiling_rung_end")[0]
    assert first["steps"] == 10 and first["batches"] == 40


def test_memory_that_would_not_be_there_is_not_asked_for(ladder: Any, tmp_path: Path) -> None:
    climb(ladder, ram_bytes=1)
    [done] = told(tmp_path, "ceiling_done")
    assert "of RAM" in done["because"] and len(told(tmp_path, "ceiling_rung")) == 1


def test_what_the_machine_has_left_is_kept_by_half(
    ladder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ladder, "SHARE_OF_AVAILABLE", 0.0)
    climb(ladder)
    [done] = told(tmp_path, "ceiling_done")
    assert "are available" in done["because"]


def test_a_size_that_cannot_be_finished_in_time_is_not_begun(ladder: Any, tmp_path: Path) -> None:
    climb(ladder, at_most_s=0.0)
    [done] = told(tmp_path, "ceiling_done")
    assert "cannot be measured in the" in done["because"] and len(told(tmp_path, "ceiling_rung")) == 1


def test_a_training_that_makes_no_step_any_more_is_not_fed_for_ever(ladder: Any, tmp_path: Path) -> None:
    given = climb(ladder, batches=40, batches_a_step=10**9)
    [done] = told(tmp_path, "ceiling_done")
    assert done["failed"] and "no step" in done["because"] and given[-1] == 4


def test_every_batch_is_the_trainings_own_to_change(ladder: Any, tmp_path: Path) -> None:
    made = ladder.Ladder(
        np.zeros((4, 2)), 4, at_most_s=60.0, ram_bytes=None, resident_before=None, workers=(), most_samples=None
    )
    for _ in range(20):
        batch = made.batch(ladder._now())
        assert not batch.any()
        batch += 1
        ladder.moments.steps += 1
