"""What the hooks cost a step, on a loop that does nothing else: plain and watched processes in turns, in one run.

    python benchmarks/overhead/empty_loop.py [--emulated-device]

Each process times its own steps, after a warm-up. A round is one plain process, one watched as in a trial and one as
in a full run, in random order.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INJECT = ROOT / "vtune" / "worker" / "inject"
STEPS = 4000

# The cheapest step that still does everything once: a batch, a backward, an optimizer step.
TRAINING = f"""
import time, torch
from torch.utils.data import DataLoader, Dataset
{{opened}}
class Nothing(Dataset):
    def __len__(self): return {STEPS} + 500
    def __getitem__(self, index): return item
item = torch.zeros(1)
torch.set_num_threads(1)
weight = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([weight], lr=0.0)
for step, batch in enumerate(DataLoader(Nothing(), batch_size=1)):
    if step == 500: begun = time.perf_counter()
    (weight * batch.sum()).sum().backward()
    optimizer.step()
print((time.perf_counter() - begun) / {STEPS} * 1e6)
"""
# Its functions are Python: what the hooks call costs other than on a GPU, how often they call it is the same.
OPENED = "from emulated import accelerator; accelerator.install().allocate(1)"


# How a process is watched, and the file in which that leaves its traces.
PLAIN, TRIAL, LAUNCH = "plain", "trial", "launch"
TRACES = {TRIAL: "steps-*.bin", LAUNCH: "counts-*.bin"}


def microseconds_a_step(watched: str, opened: str) -> float:
    with tempfile.TemporaryDirectory(prefix="vt-") as folder:
        path = [str(ROOT / "benchmarks")]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path[0]}
        if watched != PLAIN:
            Path(folder, "spec.json").write_text(json.dumps({"effects": []}))
            env |= {
                "VTUNE_TRIAL": folder,
                "VTUNE_TOKEN": "overhead",
                "PYTHONPATH": os.pathsep.join([str(INJECT), *path]),
            }
        if watched == LAUNCH:
            env["VTUNE_LAUNCH"] = "1"
        training = TRAINING.replace("{opened}", opened)
        done = subprocess.run([sys.executable, "-c", training], env=env, check=True, capture_output=True, text=True)
        if watched != PLAIN and not list(Path(folder).glob(TRACES[watched])):
            raise SystemExit("nothing was recorded: this run measured nothing")
        return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument(
        "--emulated-device", action="store_true", help="that the training has opened; see benchmarks/emulated"
    )
    options = parser.parse_args()
    pairs, opened = options.pairs, OPENED if options.emulated_device else ""
    dice = random.Random(0)
    plain: list[float] = []
    differences: dict[str, list[float]] = {TRIAL: [], LAUNCH: []}
    for _ in range(pairs):
        times = {watched: microseconds_a_step(watched, opened) for watched in dice.sample([PLAIN, TRIAL, LAUNCH], 3)}
        plain.append(times[PLAIN])
        for watched, added in differences.items():
            added.append(times[watched] - times[PLAIN])
    said: dict[str, object] = {"pairs": pairs, "plain_us_a_step": round(statistics.median(plain), 1)}
    for watched, prefix in ((TRIAL, ""), (LAUNCH, "launch_")):
        low, high = bootstrap_median(differences[watched], dice)
        said[f"{prefix}added_us_a_step"] = round(statistics.median(differences[watched]), 1)
        said[f"{prefix}added_us_a_step_ci95"] = [round(low, 1), round(high, 1)]
    print(json.dumps(said))


def bootstrap_median(values: list[float], dice: random.Random) -> tuple[float, float]:
    medians = sorted(statistics.median(dice.choices(values, k=len(values))) for _ in range(2000))
    return medians[50], medians[1949]


if __name__ == "__main__":
    main()
