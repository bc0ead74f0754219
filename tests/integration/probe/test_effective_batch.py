"""Real trainings that count what each of their optimizer steps uses: vtune says the same number, or none."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.cli import vtune

SCRIPT = Path(__file__).parent / "scripts" / "batches.py"
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


@dataclass(frozen=True)
class Shape:
    # With a batch of 8, and of 16; None where there is no one number.
    batch: int | None
    larger: int | None
    # Of the means where there is no one number; None where it is no other training.
    ratio: float | None
    ranks: int = 1
    status: str = "completed"


SHAPES = {
    "plain": Shape(8, 16, 2.0),
    "remainder": Shape(8, 16, 2.0),
    "buckets": Shape(None, None, 2.0),
    "accumulate": Shape(24, 48, 2.0),
    "ahead": Shape(8, 16, 2.0),
    "batch_sampler": Shape(8, 16, 2.0),
    "nominal": Shape(32, 32, None),
    "capped": Shape(8, 8, None, status="invalid"),
    "ranks": Shape(16, 32, 2.0, ranks=2),
}


def probe(out: Path, way: str, *options: str, clock: Path) -> dict[str, Any]:
    launcher = TORCHRUN if way == "ranks" else ()
    said = vtune(
        "probe", "--json", "--study", "s", "--steps", "40", "--results", out, *options, "--", sys.executable, *launcher,
        SCRIPT, way, "--batch-size", "8", OWN_CLOCK=str(clock),
    )  # fmt: skip
    assert "trial" in said.json, said.stdout + said.stderr
    record: dict[str, Any] = said.json["trial"]
    return record


def really_used(clock: Path, ranks: int) -> Counter[float]:
    return Counter(ranks * float(line.split()[1]) for line in clock.read_text().splitlines())


@pytest.mark.parametrize(
    "way", [way if way == "ahead" else pytest.param(way, marks=pytest.mark.slow) for way in SHAPES]
)
def test_what_a_step_uses_is_told_as_the_training_counts_it(tmp_path: Path, way: str) -> None:
    shape, out = SHAPES[way], tmp_path / "out"
    own = probe(out, way, clock=tmp_path / "own")
    assert own["effective_batch"] == shape.batch
    told, real = dict(own["consumed"]["by_step"]), really_used(tmp_path / "own", shape.ranks)
    assert set(told) <= set(real)
    assert max(told, key=lambda size: told[size]) == real.most_common(1)[0][0]

    larger = probe(out, way, "--set", "batch_size=16", clock=tmp_path / "larger")
    assert (larger["status"], larger["effective_batch"]) == (shape.status, shape.larger)
    rules = [note for note in larger["notes"] if "learning rate" in note]
    if shape.ratio is None:
        assert not rules
        return
    [rule] = rules
    if shape.batch is None:
        assert larger["consumed"]["mean"] / own["consumed"]["mean"] == pytest.approx(shape.ratio, rel=0.15)
    else:
        assert f"{shape.larger} instead of {shape.batch}" in rule and "×2 for SGD" in rule
    planned = vtune("launch", "--study", "s", "--trial", "2", "--dry-run", "--json", "--results", out).json
    assert (planned["effective_batch"], planned["effective_batch_before"]) == (shape.larger, shape.batch)
    assert any("learning rate" in note for note in planned["notes"])
    applied = vtune("apply", "--study", "s", "--trial", "2", "--json", "--results", out).json
    assert applied["effective_batch"]["ratio"] == pytest.approx(shape.ratio, rel=0.15)
    assert applied["effective_batch"]["exact"] == (shape.batch is not None)


@pytest.mark.slow
def test_a_larger_batch_for_the_launch_alone_is_said_to_be_unmeasured(tmp_path: Path) -> None:
    """By the flag of the command, and by the hook where there is none."""
    out = tmp_path / "out"
    assert probe(out, "plain", clock=tmp_path / "own")["effective_batch"] == 8
    plain = SCRIPT.with_name("plain.py")
    assert vtune("probe", "--study", "h", "--steps", "20", "--results", out, "--", sys.executable, plain).code == 0
    # Which loader the hook has to turn is learnt by a scout run.
    asked = ("--set", "workers=1")
    arguments = ("probe", "--study", "h", "--steps", "20", "--results", out, *asked, "--", sys.executable, plain)
    assert vtune(*arguments).code == 0
    for study, before in (("s", 8), ("h", 4)):
        said = vtune(
            "launch",
            "--study",
            study,
            "--trial",
            "1",
            "--set",
            "batch_size=16",
            "--dry-run",
            "--json",
            "--results",
            out,
        )
        assert said.code == 0, said.stderr
        assert (said.json["effective_batch"], said.json["effective_batch_before"]) == (None, before)
        [note] = [note for note in said.json["notes"] if "learning rate" in note]
        assert f"16 instead of {before}" in note and "not measured" in note
    scouted = json.loads((out / "h" / "scout.json").read_text())
    assert scouted["effective_batch"] == 4
