"""What vtune costs a real training while it looks on: two runs of the quickstart, plain and probed, taking turns.

    python benchmarks/overhead/quickstart.py

Probed means everything: hooks, supervisor, sampler and `vtune probe` itself on the same cores. Both runs are
alive, but only one runs at a time: the other is stopped by SIGSTOP, with all its processes. A turn counts whole steps
between log lines, so drift of the machine hits both alike. Two launches of the same thing differ by a percent or two:
that is why there are several, and why the interval is over launches.
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
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
# The first lines of a turn belong to the thaw: batches that lay ready, a step that was cut in two.
DROPPED_LINES = 3
LOOK_S = 0.002


class Training:
    """One run of the quickstart with a log line for every step; the times at which the lines appear are the clock."""

    def __init__(self, folder: Path, *, probed: bool) -> None:
        folder.mkdir()
        config = yaml.safe_load((ROOT / "configs" / "quickstart.yaml").read_text())
        config["training"] |= {"log_every_n_steps": 1, "max_epochs": 1000}
        config["output_dir"] = str(folder / "output")
        source = folder / "quickstart.yaml"
        if not probed:
            del config["vtune"]
        source.write_text(yaml.safe_dump(config))
        command = [sys.executable, "-m", "vtune.pipelines.unet3d.train", "--config", str(source)]
        self._log = folder / "stdout.log"
        self._supervisor = folder / "results" / "quickstart" / "trials" / "0001" / "supervisor.json"
        if probed:
            command = [
                *[sys.executable, "-m", "vtune", "probe", "--quiet", "--config", str(source)],
                *["--results", str(folder / "results"), "--steps", "100000", "--trial-time", "10h"],
            ]
            self._log = self._supervisor.with_name("stdout.log")
        env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        with open(folder / "stdout.log", "w") as stdout:
            self._process = subprocess.Popen(command, env=env, stdout=stdout, start_new_session=True, cwd=ROOT)
        self._probed = probed
        while self.lines() < DROPPED_LINES:
            if self._process.poll() is not None:
                raise SystemExit(f"the training ended with exit code {self._process.returncode}")
            time.sleep(0.05)

    def lines(self) -> int:
        return self._log.read_bytes().count(b"Train step") if self._log.exists() else 0

    def signal(self, number: int) -> None:
        groups = [self._process.pid]
        if self._probed:
            told = json.loads(self._supervisor.read_text())
            groups += [told["supervisor_pid"], told["leader_pid"]]
        # The watchers stop first and go on last, so that they never miss the training for a turn's length.
        for group in groups if number == signal.SIGSTOP else reversed(groups):
            os.killpg(group, number)

    def turn(self, seconds: float) -> float:
        """Seconds a step, over one turn."""
        self.signal(signal.SIGCONT)
        end, seen, times = time.monotonic() + seconds, self.lines(), []
        size = self._log.stat().st_size
        while time.monotonic() < end:
            time.sleep(LOOK_S)
            if self._log.stat().st_size != size:
                size, now = self._log.stat().st_size, time.monotonic()
                lines = self.lines()
                times += [now] * (lines - seen)
                seen = lines
        self.signal(signal.SIGSTOP)
        times = times[DROPPED_LINES:]
        if len(times) < 3:
            raise SystemExit(f"only {len(times)} steps in a turn of {seconds} s: make the turns longer")
        return (times[-1] - times[0]) / (len(times) - 1)

    def end(self) -> None:
        """By Ctrl-C where vtune owns the tree: it leaves nothing behind."""
        self.signal(signal.SIGCONT)
        os.killpg(self._process.pid, signal.SIGINT if self._probed else signal.SIGKILL)
        self._process.wait()


def one_launch(pairs: int, turn_s: float, dice: random.Random) -> tuple[float, float]:
    """Log of probed over plain, and plain seconds a step."""
    with tempfile.TemporaryDirectory(prefix="vt-") as folder:
        both: dict[bool, Training] = {}
        try:
            for probed in dice.sample([True, False], 2):
                both[probed] = Training(Path(folder, str(probed)), probed=probed)
                both[probed].signal(signal.SIGSTOP)
            turns = [
                {probed: both[probed].turn(turn_s) for probed in dice.sample([True, False], 2)} for _ in range(pairs)
            ]
        finally:
            for training in both.values():
                training.end()
    return statistics.fmean(math.log(t[True] / t[False]) for t in turns), statistics.median(t[False] for t in turns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--launches", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=6, help="turns of each in one launch")
    parser.add_argument("--turn", type=float, default=5.0, help="seconds")
    options = parser.parse_args()
    dice = random.Random(0)
    launches = [one_launch(options.pairs, options.turn, dice) for _ in range(options.launches)]
    ratios = [ratio for ratio, _ in launches]
    means = sorted(statistics.fmean(dice.choices(ratios, k=len(ratios))) for _ in range(2000))
    print(
        json.dumps(
            {
                "launches": options.launches,
                "turns": options.launches * options.pairs,
                "plain_ms_a_step": round(statistics.median(plain for _, plain in launches) * 1e3, 1),
                "added_percent": round(math.expm1(statistics.fmean(ratios)) * 100, 2),
                "added_percent_ci95": [round(math.expm1(means[i]) * 100, 2) for i in (50, 1949)],
                "by_launch_percent": [round(math.expm1(ratio) * 100, 2) for ratio in ratios],
            }
        )
    )


if __name__ == "__main__":
    main()
