"""Whether a full run that begins to leak is asked to save in time: real launches of about two minutes each.

python benchmarks/guard/real.py                    all shapes, some twelve minutes
python benchmarks/guard/real.py --only "epoch"     those with this in their name
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

TRAINING = Path(__file__).with_name("leaking.py")
# Of a launch's grace of two minutes, a sixth: the runs are so much shorter than those of hours.
GRACE_S = 20
MB = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    name: str
    memory: dict[str, float]
    # Under the limit, beyond what the training needs by itself; when a noise-free leak would pass it.
    room_mb: int
    wall_s: float | None
    # A healthy one ends by itself.
    steps: int = 4000


SHAPES = (
    Shape(name="quiet 10 s, then 5 MB/s", memory={"quiet_s": 10, "mb_per_s": 5}, room_mb=500, wall_s=110),
    Shape(name="quiet 60 s, then 1 MB/s", memory={"quiet_s": 60, "mb_per_s": 1}, room_mb=60, wall_s=120),
    Shape(name="quiet 60 s, then 20 MB/s", memory={"quiet_s": 60, "mb_per_s": 20}, room_mb=1000, wall_s=110),
    Shape(
        name="after the first validation, 8 MB/s", room_mb=900, wall_s=115,
        memory={"step_at_s": 30, "step_mb": 300, "quiet_s": 40, "mb_per_s": 8},
    ),
    Shape(
        name="from epoch 2, 10 MB/s", room_mb=900, wall_s=115,
        memory={"tooth_s": 20, "tooth_mb": 150, "quiet_s": 40, "mb_per_s": 10},
    ),
    Shape(
        name="healthy: a validation and epochs that give back", room_mb=700, wall_s=None, steps=1200,
        memory={"step_at_s": 20, "step_mb": 300, "tooth_s": 15, "tooth_mb": 150},
    ),
)  # fmt: skip


def run(shape: Shape) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        section = {
            "command": ["{python}", str(TRAINING), "--config", "{config}"],
            "study": "guard", "launch": {"grace": f"{GRACE_S}s"},
        }  # fmt: skip
        config = {"vtune": section, "output_dir": "out", "steps": shape.steps, "memory": shape.memory}
        (folder / "guard.yaml").write_text(yaml.safe_dump({**config, "memory": {}}))
        probe = _vtune(folder, "probe", "--config", "guard.yaml", "--steps", "30")
        needs = int(probe["trial"]["ram_peak_bytes"])
        (folder / "guard.yaml").write_text(yaml.safe_dump(config))
        limit = needs + shape.room_mb * MB
        said = _vtune(folder, "launch", "--config", "guard.yaml", "--force", "--ram-limit", f"{limit // MB}MB")
        (attempt,) = folder.glob("results/guard/launches/0001/attempts/01")
        outcome = json.loads((attempt / "outcome.json").read_text())
        saved = re.search(r"saved after step (\d+) with (\d+) MB at (\S+) s", (attempt / "stdout.log").read_text())
        return {
            "shape": shape.name, "status": said["status"], "ended_by": outcome["ended_by"],
            "killed_at_limit": outcome["over"] is not None or outcome["signal"] == 9,
            "checkpoint": (folder / "out" / "last.pt").exists(), "wall_s": shape.wall_s,
            "saved_s": float(saved[3]) if saved else None,
            "held_mb_when_saved": int(saved[2]) if saved else None, "room_mb": shape.room_mb,
        }  # fmt: skip


def _vtune(folder: Path, *words: str) -> dict[str, Any]:
    said = subprocess.run(
        [sys.executable, "-m", "vtune", *words, "--json"], cwd=folder, capture_output=True, text=True
    )  # fmt: skip
    try:
        told: dict[str, Any] = json.loads(said.stdout)
    except ValueError:
        raise SystemExit(f"error: vtune {words[0]} told nothing: {said.stderr[-500:]}") from None
    if "error" in told:
        raise SystemExit(f"error: {told['error']}\nhint: {told['hint']}")
    return told


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a part of the name")
    asked = parser.parse_args()
    for shape in SHAPES:
        if asked.only in shape.name:
            print(json.dumps(run(shape)), flush=True)
