"""What the hooks see of a device, and of a step from within: on the emulated accelerator, and on the CPU alone."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Any

import pytest

STEP, DEVICE_STEP, STAGE = 4, 5, 6
BENCHMARKS = (Path(__file__).resolve().parents[3] / "benchmarks",)
STAGES = ("begin", "transfer", "forward", "loss", "backward", "step")
MIB = 2**20
# On the emulated device: 6 + 2 + 10 + 2 ms.
TWENTY_MS = ("--forward", 0.006, "--loss", 0.002, "--backward", 0.010, "--optimizer", 0.002)

pytestmark = pytest.mark.slow


def unchanged(plain: Any, watched: Any, *, exit_code: int = 0) -> None:
    assert watched.said == plain.said
    assert watched.exit_code == exit_code, watched.stderr
    assert watched.facts("problem") == []


def stages_of(run: Any) -> dict[str, dict[str, Any]]:
    """Mean host and device seconds by stage, and the largest peak; the marks of a sample follow each other."""
    samples: dict[int, list[Any]] = {}
    for record in run.records(STAGE):
        samples.setdefault(record.index, []).append(record)
    found: dict[str, dict[str, Any]] = {name: {"host": [], "device": [], "peak": 0} for name in STAGES[1:]}
    for marks in samples.values():
        assert STAGES[marks[0].group] == "begin" and STAGES[marks[-1].group] == "step"
        for before, mark in pairwise(marks):
            own = found.get(STAGES[mark.group])
            if own is not None:
                own["host"].append(mark.a - before.a)
                own["device"].append(mark.c - before.c)
                own["peak"] = max(own["peak"], mark.n1 + (mark.n2 << 32) if mark.flags & 2 else 0)
    return {"samples": len(samples), **found} if samples else {}


@pytest.mark.timing
def test_a_step_and_the_gap_before_it_are_timed_by_the_device_itself(both: Any) -> None:
    plain, watched = both("on_a_device.py", "--wait", 0.03, *TWENTY_MS, path=BENCHMARKS)
    unchanged(plain, watched)
    seen = watched.records(DEVICE_STEP)
    assert [record.index for record in seen] == list(range(1, 1 + len(seen))) and len(seen) >= 38
    assert median(record.a for record in seen) == pytest.approx(0.020, rel=0.03)
    # The loader takes 30 ms, for 20 of which the device still works.
    assert 0.009 < median(record.c for record in seen[1:]) < 0.016
    (device,) = watched.facts("device")
    assert (device["uuid"], device["name"], device["pci"]) == (
        "00000000-0000-0000-0000-000000000000", "Emulated GPU", "0000:65:00.0",
    )  # fmt: skip


@pytest.mark.timing
def test_the_waits_for_further_batches_of_a_step_are_gaps_and_not_work(train: Any) -> None:
    seen = train(
        "on_a_device.py", "--steps", 15, "--accumulate", 3, "--wait", 0.03, "--synchronize", *TWENTY_MS, path=BENCHMARKS
    )
    steps = seen.records(DEVICE_STEP)
    assert len(steps) >= 13
    # Three times 18 ms and one optimizer; the first wait is all idle, the others for the 12 ms that outlast the device.
    assert median(step.a for step in steps) == pytest.approx(0.056, rel=0.08)
    assert median(step.c for step in steps) == pytest.approx(0.054, rel=0.15)


@pytest.mark.timing
def test_peaks_survive_the_scripts_resets_and_the_script_does_not_notice_ours(both: Any) -> None:
    plain, watched = both("on_a_device.py", "--reset-every", 6, "--synchronize", *TWENTY_MS, path=BENCHMARKS)
    # Its own peaks, after each step and after each reset, are part of what it says.
    unchanged(plain, watched)
    last = watched.facts("memory")[-1]
    assert last["allocated_peak"] == 158 * MIB
    assert (last["allocated"], last["retries"], last["ooms"]) == (8 * MIB, 0, 0)
    assert last["outside"] == 300 * MIB
    stages = stages_of(watched)
    assert stages["samples"] == 5
    assert [stages[name]["peak"] // MIB for name in STAGES[1:]] == [8, 48, 58, 158, 158]
    assert mean(stages["forward"]["device"]) == pytest.approx(0.006, rel=0.2)
    assert mean(stages["backward"]["device"]) == pytest.approx(0.010, rel=0.2)


def test_what_this_torch_cannot_tell_is_unknown_and_nothing_else_is(both: Any) -> None:
    missing = ("Event", "mem_get_info", "get_device_properties", "is_current_stream_capturing")
    plain, watched = both("on_a_device.py", "--without", *missing, path=BENCHMARKS)
    unchanged(plain, watched)
    assert [fact["what"] for fact in watched.facts("unknown")] == ["device steps"]
    assert watched.records(DEVICE_STEP) == []
    assert watched.facts("memory")[-1]["outside"] is None
    assert watched.facts("device")[0]["uuid"] is None
    assert watched.facts("memory")[-1]["allocated_peak"] == 158 * MIB


def test_nothing_is_recorded_while_a_graph_is_being_captured(both: Any) -> None:
    plain, watched = both("on_a_device.py", "--capture-from", 20, "--synchronize", *TWENTY_MS, path=BENCHMARKS)
    unchanged(plain, watched)
    # Nor asked: what was pending when the capture began stays unknown.
    assert 10 <= len(watched.records(DEVICE_STEP)) <= 19
    assert [record.index for record in watched.records(DEVICE_STEP)][:10] == list(range(1, 11))
    assert len(watched.records(STEP)) == 40


def test_running_out_of_memory_is_told_with_the_last_words(both: Any) -> None:
    plain, watched = both("on_a_device.py", "--out-of-memory-at", 7, path=BENCHMARKS)
    unchanged(plain, watched, exit_code=1)
    assert "emulated out of memory" in watched.stderr
    assert watched.facts("memory")[-1]["ooms"] == 1


@pytest.mark.parametrize("fused", [False, True])
def test_steps_that_a_scaler_leaves_out_are_counted_and_are_iterations(both: Any, fused: bool) -> None:
    plain, watched = both("scaled.py", *(["--fused"] if fused else []))
    unchanged(plain, watched)
    assert watched.facts("scaler")[-1]["skipped"] == 3
    assert [step.index for step in watched.records(STEP)] == list(range(30))
    precision = watched.facts("precision")[-1]
    assert (precision["autocast"], precision["autocast_dtype"]) == (True, "bfloat16")
    assert precision["parameters"] == "float32" and precision["matmul"] == "highest"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="3.10 shows one line of ours in a traceback")
@pytest.mark.parametrize(("options", "samples"), [((), 6), (("--closure",), 0), (("--functional",), 0)])
def test_a_closer_look_changes_no_warning_no_traceback_and_no_random_number(
    both: Any, options: tuple[str, ...], samples: int
) -> None:
    plain, watched = both("looked_at_closely.py", *options)
    unchanged(plain, watched, exit_code=1)
    assert "_wrapped_call_impl" in watched.stdout
    assert "Implicit dimension choice" in watched.stderr or options == ("--functional",)
    assert "RuntimeError" in watched.stdout
    # Of the eight steps, two see an error. What runs the model within the optimizer, or no module, does not fit.
    assert stages_of(watched).get("samples", 0) == samples
    assert [fact["what"] for fact in watched.facts("unknown")] == ([] if samples else ["stages"])
    assert watched.facts("device") == watched.facts("memory") == []


def test_a_compiled_training_is_not_looked_at_closely(both: Any) -> None:
    plain, watched = both("compiled.py")
    assert (watched.stdout, watched.exit_code) == (plain.stdout, 0)
    (unknown,) = watched.facts("unknown")
    assert unknown["what"] == "stages" and "torch.compile" in unknown["because"]
    assert watched.records(STAGE) == []
    assert watched.facts("precision")[-1]["autocast"] is None
