"""The bundled training, launched: a worker is killed by hand, and the curve of its losses is that of a run by hand."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.cli import ROOT, quiet_env
from support.launches import measured
from support.studies import write_study
from vtune.journal.files import dump_json
from vtune.telemetry.machine import this_machine

STEPS = 40
TRAIN = [sys.executable, "-m", "vtune.pipelines.unet3d.train", "--config"]


def small(folder: Path, name: str) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((ROOT / "configs" / "quickstart.yaml").read_text())
    config["output_dir"] = name
    config["data"] |= {
        "records": 4, "patches_per_record": 30, "volume_size": [40] * 3, "chunk_size": [40] * 3, "patch_size": [16] * 3
    }  # fmt: skip
    config["model"] |= {"filters": 2, "max_filters": 4, "depth": 2}
    config["training"] |= {
        "train_iterations_per_epoch": STEPS, "max_epochs": 1, "checkpoint_every_n_steps": 5, "warmup_steps": 2,
        "surface_distance_interval": 1000,
    }  # fmt: skip
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(config))
    return config


def curve(folder: Path, name: str) -> dict[int, float]:
    path = folder / name / "logs" / "metrics.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return {told["step"]: told["loss"] for told in map(json.loads, lines) if "loss" in told}


@pytest.mark.slow
def test_after_a_killed_worker_it_goes_on_exactly(tmp_path: Path) -> None:
    small(tmp_path, "by_hand")
    subprocess.run([*TRAIN, "by_hand.yaml"], cwd=tmp_path, env=quiet_env(), check=True, capture_output=True)
    small(tmp_path, "launched")
    paths = write_study(tmp_path / "results", measured(1, 60.0), measured(2, 80.0, workers=2), name="launched")
    dump_json(paths.machine, this_machine())
    launched = subprocess.Popen(
        [sys.executable, "-m", "vtune", "launch", "--config", "launched.yaml", "--trial", "2", "--step-down", "--json"],
        cwd=tmp_path, env=quiet_env(), stdin=subprocess.DEVNULL, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    until = time.monotonic() + 60
    while len(curve(tmp_path, "launched")) < 8:
        assert launched.poll() is None and time.monotonic() < until
        time.sleep(0.02)
    supervisor = json.loads((paths.launch(1).attempt(1).supervisor).read_text())
    leader = supervisor["leader_pid"]
    workers = Path(f"/proc/{leader}/task/{leader}/children").read_text().split()
    os.kill(int(workers[0]), signal.SIGKILL)
    stdout, stderr = launched.communicate(timeout=60)
    assert launched.returncode == 0, stderr
    # Somebody's signal costs no speed: it goes on with the same settings.
    told = json.loads(stdout)
    assert told["step_downs"] == [] and len(told["retries"]) == 1 and told["settings"] == {"workers": 2}
    by_hand = curve(tmp_path, "by_hand")
    assert len(by_hand) == STEPS and curve(tmp_path, "launched") == by_hand
