"""What vtune costs a real training while it looks on: two runs of the quickstart, plain and probed, taking turns.

    python benchmarks/overhead/quickstart.py

Probed means everything: hooks, supervisor, sampler and `vtune probe` itself on the same cores.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path

import yaml
from turns import ROOT, Start, one_launch, summary


def start(folder: Path, probed: bool) -> Start:
    """One run of the quickstart with a log line for every step."""
    config = yaml.safe_load((ROOT / "configs" / "quickstart.yaml").read_text())
    config["training"] |= {"log_every_n_steps": 1, "max_epochs": 1000}
    config["output_dir"] = str(folder / "output")
    source = folder / "quickstart.yaml"
    env = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    if not probed:
        del config["vtune"]
        command = [sys.executable, "-m", "vtune.pipelines.unet3d.train", "--config", str(source)]
        log, supervisor = folder / "stdout.log", None
    else:
        command = [
            *[sys.executable, "-m", "vtune", "probe", "--quiet", "--config", str(source)],
            *["--results", str(folder / "results"), "--steps", "100000", "--trial-time", "10h"],
        ]
        trial = folder / "results" / "quickstart" / "trials" / "0001"
        log, supervisor = trial / "stdout.log", trial / "supervisor.json"
    source.write_text(yaml.safe_dump(config))
    return Start(command, log, supervisor, env)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--launches", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=6, help="turns of each in one launch")
    parser.add_argument("--turn", type=float, default=5.0, help="seconds")
    options = parser.parse_args()
    dice = random.Random(0)
    launches = [one_launch(start, pairs=options.pairs, turn_s=options.turn, dice=dice) for _ in range(options.launches)]
    print(json.dumps(summary(launches, dice)))


if __name__ == "__main__":
    main()
