"""VRAM that is going to happen: validation, limits that hold, an allocator without room. Not yet run on a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.cli import Said, vtune

MIB = 2**20
HERE = Path(__file__).parent
ROOT = HERE.parents[2]
Probe = Callable[..., Said]

pytestmark = pytest.mark.slow


def trial_of(said: Said) -> dict[str, Any]:
    trial: dict[str, Any] = said.json["trial"]
    return trial


def facts(results: Path, name: str) -> list[dict[str, Any]]:
    files = sorted(results.glob("*/trials/*/steps-*.jsonl"))
    return [fact for file in files for fact in map(json.loads, file.read_text().splitlines()) if fact["fact"] == name]


@pytest.mark.parametrize("resets", [(), ("--resets",)], ids=["plain", "the script resets its peaks"])
def test_a_validation_in_the_window_is_measured_by_itself_and_its_spike_is_the_peak(
    probe: Probe, tmp_path: Path, resets: tuple[str, ...]
) -> None:
    said = probe(training=("--validate-every", 15, *resets))
    assert said.code == 0, said.stderr
    trial = trial_of(said)
    assert trial["vram_validation_peak_bytes"] == 310 * MIB
    assert trial["validation"]["whole"] and trial["validation"]["batches"] == 6
    # Training takes 110 MiB: the spike is validation's alone, and the whole device's peak has the context in it.
    assert trial["vram_allocated_peak_bytes"] == 310 * MIB
    assert trial["vram_peak_bytes"] == 610 * MIB
    peaks = {stage["stage"]: stage["peak_bytes"] for stage in trial["stages"]}
    assert max(peaks.values()) == 110 * MIB
    assert not [note for note in trial["notes"] if "instrumentation" in note]
    what_if = vtune("report", "--json", "--vram-limit", "500MiB", "--results", tmp_path / "results")
    assert what_if.json["best"] is None
    assert "needs 610 MiB of VRAM" in what_if.json["why"][0]


def test_a_script_that_resets_its_peaks_around_validation_reads_what_it_would_read_without_us(tmp_path: Path) -> None:
    command = [sys.executable, HERE / "training.py", "--steps", "60", "--validate-every", "15", "--resets"]
    path = str(ROOT / "benchmarks")
    (tmp_path / "spec.json").write_text(json.dumps({"effects": [{"kind": "LimitVram", "fraction": 0.9}]}))
    watched = {"PYTHONPATH": f"{ROOT / 'vtune' / 'worker' / 'inject'}:{path}", "VTUNE_TRIAL": str(tmp_path)}
    said = [
        subprocess.run(command, env={**os.environ, **more}, capture_output=True, text=True, timeout=60)
        for more in ({"PYTHONPATH": path}, watched)
    ]
    # Its own view of the limit, too: the last word is what it was told of its fraction.
    assert said[0].stdout == said[1].stdout and said[0].returncode == said[1].returncode == 0, said[1].stderr
    assert said[0].stdout.split()[-1] == "1.0"
    assert '"vram_limit"' in next(tmp_path.glob("steps-*.jsonl")).read_text()


def test_without_being_asked_the_window_does_not_wait_for_validation(probe: Probe) -> None:
    trial = trial_of(probe(training=("--validate-every", 1500)))
    assert trial["status"] == "completed" and trial["steps_measured"] < 600
    assert trial["validation"] is None and trial["vram_validation_peak_bytes"] is None


def test_on_request_the_window_waits_for_a_validation_to_its_end(probe: Probe) -> None:
    trial = trial_of(probe("--validation", training=("--validate-every", 600)))
    assert trial["steps_measured"] > 500
    assert trial["vram_validation_peak_bytes"] == 310 * MIB
    assert any("validation was seen to its end (6 batches), 310 MiB" in note for note in trial["notes"])


def test_of_a_long_validation_twenty_batches_are_enough_and_it_is_said_that_they_differ(probe: Probe) -> None:
    long = ("--validate-every", 80, "--validation-batches", 4000, "--validation-s", 0.05, "--growing")
    begun = time.monotonic()
    trial = trial_of(probe("--validation", training=long))
    assert time.monotonic() - begun < 60, "a validation of 200 s is not waited for"
    assert trial["status"] == "completed"
    # The largest batch is the last one: what was seen of it is not taken for all of it.
    assert trial["vram_validation_peak_bytes"] == 85 * MIB
    seen = trial["validation"]
    assert 20 <= seen["batches"] < 1000 and seen["of_batches"] == 4000
    assert not seen["whole"] and not seen["largest_shape_known"]
    assert any("of several shapes: a larger one may come" in note for note in trial["notes"])


def test_a_validation_that_does_not_come_in_time_is_missed_in_words(probe: Probe) -> None:
    trial = trial_of(probe("--validation", "--trial-time", "4s"))
    assert trial["status"] == "completed" and "ended by the trial time" in trial["detail"]
    assert any("no validation was seen within the trial" in note for note in trial["notes"])


def test_gradients_that_are_left_on_do_not_hide_a_validation(probe: Probe) -> None:
    trial = trial_of(probe(training=("--validate-every", 15, "--with-gradients")))
    assert trial["vram_validation_peak_bytes"] == 310 * MIB


def test_a_spike_in_validation_meets_the_limit_in_the_trial_and_not_its_neighbours(
    probe: Probe, tmp_path: Path
) -> None:
    """Above what the context and the training take together, below what validation wants of the allocator."""
    said = probe("--vram-limit", "15%", training=("--validate-every", 15, "--validation-mib", 700))
    trial = trial_of(said)
    assert said.code == 4 and trial["status"] == "out_of_vram", trial
    assert trial["detail"].startswith("in its validation it asked for more than the VRAM limit of 614 MiB")
    assert "the device itself had" in trial["detail"] and "OutOfMemoryError" in trial["detail"]
    assert any("OutOfMemoryError" in line for line in trial["evidence"]["last_words"])
    (told,) = facts(tmp_path / "results", "vram_limit")
    assert (told["context"], told["by"], told["sharing"]) == (300 * MIB, "limit", 1)
    assert told["bytes"] == pytest.approx(0.15 * 4096 * MIB - 300 * MIB, abs=1)


def test_a_device_that_is_full_below_the_limit_is_not_called_the_limit(probe: Probe) -> None:
    """The emulated one counts its neighbours' memory as part of its context."""
    trial = trial_of(probe("--vram-limit", "99%", training=("--out-of-memory-at", 15), neighbours_bytes=200 * MIB))
    assert trial["status"] == "out_of_vram"
    assert trial["detail"].startswith("GPU 0 itself had too little room (")
    assert " left), below the limit of 3.96 GiB" in trial["detail"]


def test_a_smaller_fraction_of_the_scripts_own_stays_and_a_larger_one_does_not(probe: Probe, tmp_path: Path) -> None:
    trial = trial_of(probe("--vram-limit", "80%", training=("--fraction", 0.5)))
    assert trial["status"] == "completed"
    (told,) = facts(tmp_path / "results", "vram_limit")
    assert (told["bytes"], told["by"]) == (2048 * MIB, "script")
    assert any("the script holds itself to 2 GiB on GPU 0" in note for note in trial["notes"])
    training = ("--fraction", 0.9, "--out-of-memory-at", 15)
    trial = trial_of(probe("--vram-limit", "50%", training=training))
    # It asks for more than the device has, so that no limit is to blame; the allocator was held to half all the same.
    assert trial["detail"].startswith("GPU 0 itself had too little room (3.7 GiB left), whatever its limit")
    assert "1833 MB allowed" in trial["detail"]


def test_running_out_of_memory_that_the_script_catches_is_a_note(probe: Probe) -> None:
    trial = trial_of(probe("--vram-limit", "50%", training=("--out-of-memory-at", 15, "--catches")))
    assert trial["status"] == "completed" and trial["alloc_retries"] == 0
    assert any("ran out of VRAM once and went on" in note for note in trial["notes"])


def test_memory_that_is_given_back_after_warm_up_makes_a_setting_infeasible(probe: Probe, tmp_path: Path) -> None:
    trial = trial_of(probe(training=("--splinter-at", 25), steps=60))
    assert trial["status"] == "completed" and trial["alloc_retries"] > 20
    report = vtune("report", "--json", "--results", tmp_path / "results").json
    assert report["best"] is None and report["choice"]["lost"][0]["reason"] == "out_of_room"
    assert "its allocator gave memory back" in report["why"][0] and "out of room" in report["why"][0]
