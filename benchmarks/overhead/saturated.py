"""What vtune costs a training whose own workers keep all cores busy: plain and probed runs, taking turns.

    python benchmarks/overhead/saturated.py [--workers 1 2 4 6]

Workers compute in NumPy, the step takes next to nothing. The clock is the training's own: a log line for each step.
Beside it, the processor time of the training and of vtune itself, which a noisy machine disturbs less.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path

from turns import Start, one_launch, summary

TRAINING = """
import sys
import numpy as np
import torch

class Computed(torch.utils.data.Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        values = np.random.default_rng(index).random(200_000)
        for _ in range(4):
            values = np.sort(np.sin(values) + values)
        return torch.from_numpy(values[:1000].astype(np.float32))

torch.set_num_threads(1)
loader = torch.utils.data.DataLoader(Computed(), batch_size=1, num_workers=int(sys.argv[1]))
model = torch.nn.Linear(1000, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
for step, batch in enumerate(loader):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
    print("Train step", step, flush=True)
"""


def start_with(workers: int) -> Callable[[Path, bool], Start]:
    def start(folder: Path, probed: bool) -> Start:
        script = folder / "train.py"
        script.write_text(TRAINING)
        command = [sys.executable, str(script), str(workers)]
        env = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        if not probed:
            return Start(command, folder / "stdout.log", None, env)
        study = folder / "results" / "saturated"
        probe = [
            *[sys.executable, "-m", "vtune", "probe", "--quiet", "--study", "saturated"],
            *["--results", str(folder / "results"), "--steps", "100000", "--trial-time", "10h", "--", *command],
        ]
        trial = study / "trials" / "0001"
        return Start(probe, trial / "stdout.log", trial / "supervisor.json", env)

    return start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 6])
    parser.add_argument("--launches", type=int, default=6)
    parser.add_argument("--pairs", type=int, default=5, help="turns of each in one launch")
    parser.add_argument("--turn", type=float, default=5.0, help="seconds")
    options = parser.parse_args()
    for workers in options.workers:
        dice = random.Random(workers)
        launches = [
            one_launch(start_with(workers), pairs=options.pairs, turn_s=options.turn, dice=dice)
            for _ in range(options.launches)
        ]
        print(json.dumps({"workers": workers, **summary(launches, dice)}), flush=True)


if __name__ == "__main__":
    main()
