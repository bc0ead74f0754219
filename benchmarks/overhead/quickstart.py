"""What the hooks cost a real training: two runs of the quickstart, one plain and one watched, taking turns.

    python benchmarks/overhead/quickstart.py

Both are alive, but only one runs at a time: the other is stopped by SIGSTOP, workers and all. A turn lasts some seconds
and counts whole steps between log lines; drift of the machine hits both alike.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
INJECT = ROOT / "vtune" / "worker" / "inject"
# The first lines of a turn belong to the thaw: batches that lay ready, a step that was cut in two.
DROPPED_LINES = 3


class Training:
    """One run of the quickstart with a log line for every step; the lines' times are the measurement."""

    def __init__(self, folder: Path, *, watched: bool) -> None:
        folder.mkdir()
        config = yaml.safe_load((ROOT / "configs" / "quickstart.yaml").read_text())
        del config["vtune"]
        config["output_dir"] = str(folder / "output")
        config["training"]["log_every_n_steps"] = 1
        config["training"]["max_epochs"] = 1000
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        (folder / "spec.json").write_text(json.dumps({"effects": []}))
        env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        if watched:
            env |= {"VTUNE_TRIAL": str(folder), "VTUNE_TOKEN": "overhead", "PYTHONPATH": str(INJECT)}
        self.folder = folder
        self.lines: list[float] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "vtune.pipelines.unet3d.train", "--config", str(folder / "config.yaml")],
            env=env, stdout=subprocess.PIPE, text=True, start_new_session=True, cwd=ROOT,
        )  # fmt: skip
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("Train step"):
                self.lines.append(time.perf_counter())

    def signal(self, number: int) -> None:
        os.killpg(self._process.pid, number)

    def turn(self, seconds: float) -> float:
        """Seconds a step, over one turn."""
        self.signal(signal.SIGCONT)
        before = len(self.lines)
        time.sleep(seconds)
        self.signal(signal.SIGSTOP)
        lines = self.lines[before + DROPPED_LINES :]
        if len(lines) < 3:
            raise SystemExit(f"only {len(lines)} steps in a turn of {seconds} s: make the turns longer")
        return (lines[-1] - lines[0]) / (len(lines) - 1)

    def end(self) -> None:
        self.signal(signal.SIGKILL)
        self._process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--turn", type=float, default=5.0, help="seconds")
    options = parser.parse_args()
    dice = random.Random(0)
    with tempfile.TemporaryDirectory(prefix="vt-") as folder:
        both: dict[bool, Training] = {}
        try:
            for watched in (False, True):
                both[watched] = Training(Path(folder, str(watched)), watched=watched)
                while len(both[watched].lines) < DROPPED_LINES:
                    time.sleep(0.1)
                both[watched].signal(signal.SIGSTOP)
            ratios, plain = [], []
            for _ in range(options.pairs):
                times = {watched: both[watched].turn(options.turn) for watched in dice.sample([True, False], 2)}
                ratios.append(math.log(times[True] / times[False]))
                plain.append(times[False])
            if not list(both[True].folder.glob("steps-*.bin")):
                raise SystemExit("nothing was recorded: this run measured nothing")
        finally:
            for training in both.values():
                training.end()
    means = sorted(statistics.fmean(dice.choices(ratios, k=len(ratios))) for _ in range(2000))
    print(
        json.dumps(
            {
                "pairs": options.pairs,
                "plain_ms_a_step": round(statistics.median(plain) * 1e3, 1),
                "added_percent": round(math.expm1(statistics.fmean(ratios)) * 100, 2),
                "added_percent_median": round(math.expm1(statistics.median(ratios)) * 100, 2),
                "added_percent_ci95": [round(math.expm1(means[i]) * 100, 2) for i in (50, 1949)],
            }
        )
    )


if __name__ == "__main__":
    main()
