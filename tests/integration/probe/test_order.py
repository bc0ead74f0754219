"""Giving up the loader's order: only where it is asked for, and then measured like any other setting."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.cli import vtune

SCRIPT = Path(__file__).parent / "scripts" / "whole_run.py"

pytestmark = [pytest.mark.slow, pytest.mark.timing]


def test_order_is_given_up_from_inside_when_it_is_named_and_the_costs_are_still_known(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--batches", "200", "--checkpoint", str(tmp_path / "last.pt")]
    said = vtune(
        "probe", "--json", "--steps", "40", "--results", tmp_path / "out", "--set", "in_order=false", "--", *command
    )
    assert said.code == 0, said.stderr
    record = said.json["trial"]
    assert record["status"] == "completed" and record["settings"]["in_order"] is False
    # Two workers, 80 ms a batch: as long as the batches of both are joined with their deliveries.
    assert record["rate_from"] == "twin" and record["worker_cost"]["batch_s"] == pytest.approx(0.08, rel=0.1)
    assert record["samples_per_s"] == pytest.approx(2 / 0.042, rel=0.1)
