"""A study whose trials are written by hand: what was measured is not what these tests are about."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from support.cli import ROOT, Said, quiet_env, vtune, vtune_in_process
from support.studies import a_trial
from vtune.domain.record import TrialRecord
from vtune.journal.journal import Journal
from vtune.journal.paths import LaunchPaths, StudyPaths

SCRIPT = ROOT / "tests" / "integration" / "launch" / "train.py"
CONFIG = {"output_dir": "out", "steps": 60, "workers": 1, "batch_size": 2, "accumulate_steps": 1}


def measured(trial: int, rate: float, **asked: Any) -> TrialRecord:
    """As small as the training really is: whoever has more workers or a larger batch takes more."""
    settings = {"workers": 1, "batch_size": 2, "accumulate_steps": 1, **asked}
    size = settings["workers"] * 100 * 2**20
    numbers = {
        "ram_peak_bytes": size, "shm_peak_bytes": 2**20, "samples_per_epoch": None, "epoch_bound_by": None,
        "vram_peak_bytes": settings["batch_size"] * 2**30,
        "effective_batch": settings["batch_size"] * settings["accumulate_steps"], "effective_settings": settings,
    }  # fmt: skip
    record = a_trial(trial, rate, asked=asked, batch=settings["batch_size"], workers=settings["workers"])
    return replace(record, settings=settings, measurement=replace(record.measurement, **numbers))


@dataclass
class Study:
    folder: Path
    paths: StudyPaths

    def launch(self, *arguments: str | Path, timeout: float = 60, **env: str) -> Said:
        if "--dry-run" in arguments and not env:
            return vtune_in_process("launch", "--study", "demo", *arguments, cwd=self.folder)
        return vtune("launch", "--study", "demo", *arguments, cwd=self.folder, timeout=timeout, **env)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "vtune", "launch", "--study", "demo", *arguments],
            cwd=self.folder, env=quiet_env(), stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def of_launch(self, number: int = 1) -> LaunchPaths:
        return self.paths.launch(number)

    def losses(self) -> list[tuple[int, float]]:
        lines = (self.folder / "out" / "losses.jsonl").read_text().splitlines()
        return [(told["step"], told["loss"]) for told in map(json.loads, lines)]

    def records(self) -> list[TrialRecord]:
        return [record for record in Journal(self.paths.journal).read() if record.origin == "launch"]

    def wait_for_steps(self, steps: int, timeout: float = 30.0) -> None:
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            if (self.folder / "out" / "losses.jsonl").exists() and len(self.losses()) >= steps:
                return
            time.sleep(0.05)
        raise AssertionError(f"no {steps} steps within {timeout} s")

    def main_pid(self) -> int:
        return int(self._supervisor()["leader_pid"])

    def supervisor_pid(self) -> int:
        return int(self._supervisor()["supervisor_pid"])

    def _supervisor(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.of_launch().attempt(1).supervisor.read_text())
        return told

    def living(self) -> dict[int, str]:
        """Every process of any launch of this study."""
        marker, found = f"VTUNE_TRIAL={self.paths.root}".encode(), {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if marker in (entry / "environ").read_bytes():
                        found[int(entry.name)] = (entry / "comm").read_text().strip()
                except OSError:
                    continue
        return found


def without_accident(study: Study, **settings: Any) -> list[tuple[int, float]]:
    """The losses of the same training by hand, never stopped."""
    config = yaml.safe_load((study.folder / "demo.yaml").read_text())
    config.pop("vtune")
    config |= {"accident": None, "output_dir": "by_hand", "step_s": 0, "load_s": 0, **settings}
    (study.folder / "by_hand.yaml").write_text(yaml.safe_dump(config))
    subprocess.run(
        [sys.executable, str(SCRIPT), "--config", "by_hand.yaml"], cwd=study.folder, env=quiet_env(), check=True
    )
    lines = (study.folder / "by_hand" / "losses.jsonl").read_text().splitlines()
    return [(told["step"], told["loss"]) for told in map(json.loads, lines)]
