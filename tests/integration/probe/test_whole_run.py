"""What a trial says of the whole run, against that run by its own clock."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.cli import quiet_env, vtune

SCRIPT = Path(__file__).parent / "scripts" / "whole_run.py"

pytestmark = [pytest.mark.slow, pytest.mark.timing]


def both(tmp_path: Path, *options: str, steps: int) -> tuple[Any, float, float]:
    """The trial's record, and by the run's own clock: seconds from the first epoch's beginning to the end, and those
    spent in validation and checkpoints. At the same time, so that a neighbour disturbs both."""
    own = [sys.executable, str(SCRIPT), *options, "--checkpoint", str(tmp_path / "own.pt")]
    with subprocess.Popen(own, env=quiet_env(), stdout=subprocess.PIPE, text=True) as run:
        command = [sys.executable, str(SCRIPT), *options, "--checkpoint", str(tmp_path / "trial.pt")]
        said = vtune("probe", "--json", "--steps", str(steps), "--results", tmp_path / "out", "--", *command)
        printed, _ = run.communicate(timeout=60)
    assert said.code == 0 and run.returncode == 0, said.stderr
    whole, paused = map(float, printed.split())
    return said.json["trial"], whole, paused


# A training that waits for its workers, and one that does not.
WAITING, COMPUTING = ("--load", "0.06", "--step", "0.02"), ("--load", "0.01", "--step", "0.05")


# All pairs of pace and workers are in virtual time: tests/unit/analysis/test_around.py.
@pytest.mark.parametrize(
    ("pace", "persistent"),
    [(WAITING, ()), (COMPUTING, ("--persistent",))],
    ids=["waiting-anew", "computing-persistent"],
)
def test_a_run_whose_epochs_end_was_seen_is_projected_as_it_runs(
    tmp_path: Path, pace: tuple[str, ...], persistent: tuple[str, ...]
) -> None:
    options = ("--epochs", "3", *pace, *persistent)
    trial, whole, paused = both(tmp_path, *options, steps=50)
    assert trial["samples_per_epoch"] == 79 and trial["epoch_restart_s"] is not None
    assert trial["projected"]["run_s"] - trial["startup_s"] == pytest.approx(whole, rel=0.05)
    assert trial["samples_per_s_whole_run"] == pytest.approx(3 * 79 / trial["projected"]["run_s"])
    pauses = {pause["what"]: pause for pause in trial["pauses"]}
    assert {(what, pause["seen"], pause["counted"]) for what, pause in pauses.items()} == {
        ("validation", 1, True),
        ("checkpoint", 1, True),
    }
    assert sum(pause["seconds"] for pause in pauses.values()) == pytest.approx(paused / 3, rel=0.05)


def test_a_run_without_a_seen_end_of_an_epoch_is_projected_but_for_its_pauses(tmp_path: Path) -> None:
    options = ("--epochs", "3", "--batches", "70", *WAITING)
    trial, whole, paused = both(tmp_path, *options, steps=40)
    assert trial["samples_per_epoch"] == 139 and trial["epoch_restart_s"] is None and trial["pauses"] == []
    assert trial["projected"]["run_s"] - trial["startup_s"] == pytest.approx(whole - paused, rel=0.05)


def test_a_sanity_check_of_two_batches_is_in_no_projection(tmp_path: Path) -> None:
    trial, _, _ = both(tmp_path, "--epochs", "1", "--batches", "100", *WAITING, "--sanity", steps=40)
    [pause] = trial["pauses"]
    assert (pause["what"], pause["counted"], pause["cut_after_batches"]) == ("validation", False, 2)
    # Two batches of 10 ms to load and 20 ms to look at.
    assert 0.06 <= pause["seconds"] < 0.3
