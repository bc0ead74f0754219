"""`torch.save`, timed and left as it is."""

from __future__ import annotations

import re
from typing import Any

import pytest


@pytest.mark.slow
def test_a_save_is_timed_where_it_holds_the_training_up_and_is_otherwise_as_without_us(
    both: Any, tmp_path: Any
) -> None:
    plain, watched = both("saving.py", tmp_path)
    assert watched.said == plain.said
    assert watched.exit_code == 0, watched.stderr
    assert watched.facts("problem") == []
    # Not the one that took no time, those that failed, that of a thread, those of the loader's worker.
    saved = watched.facts("saved")
    lines = [int(re.search(r"saving\.py:(\d+)$", fact["where"])[1]) for fact in saved]
    assert len(saved) == 2 and lines[0] < lines[1]
    assert [fact.get("path", "").rpartition("/")[2] for fact in saved] == ["one.pt", ""] and saved[0]["bytes"] > 100
    for fact in saved:
        assert 0.03 <= fact["seconds"] < 1.0
        assert fact["begun"] + fact["seconds"] <= fact["t"]
