"""Is another training chosen only for a gain that is shown, and how many trials does nothing take? Simulated.

python benchmarks/choice/run.py              # 100 walks a row, on two cores; writes the table into README.md
python benchmarks/choice/run.py --seeds 5    # fewer; the table goes to stdout alone
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
from choice.walks import NOISES, Outcome, Tuner, batch_gains, nothing_to_gain, run
from dated import commit, into_readme, machine

BEGIN, END = "<!-- figures: written by choice/run.py -->", "<!-- end of the figures -->"
SEEDS = 100
GAINS = (0.009, 0.039, 0.069)
# Tuner, whether the batch is freed, and the most trials that nothing may take.
NOTHING: tuple[tuple[Tuner, bool, int], ...] = (("ladder", True, 4), ("search", False, 6), ("search", True, 6))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    seeds = range(options.seeds)
    lines = [
        f"{date.today().isoformat()} (version {commit()}) · {machine()}, simulated · `python benchmarks/choice/run.py`",
        "",
        "| ladder up to the batch | another batch chosen | of those not shown | rolled back and adopted | launches |",
        "|---|---|---|---|---|",
    ]
    with ProcessPoolExecutor(options.processes) as pool:
        for gain in GAINS:
            for name, noise in NOISES.items():
                found = list(pool.map(partial(run, batch_gains(gain, noise), "ladder", up_to=2), seeds))
                lines.append(f"| four times the batch brings {gain:.1%}, {name} | {_chosen(found)} |")
        lines += ["", "| nothing to gain | trials: median, most | within | a false gain |", "|---|---|---|---|"]
        for tuner, frees_batch, most in NOTHING:
            for name, noise in NOISES.items():
                ask = partial(run, nothing_to_gain(noise), tuner, frees_batch=frees_batch)
                found = list(pool.map(ask, seeds))
                words = tuner if tuner != "search" else f"search, batch {'freed' if frees_batch else 'as it is'}"
                lines.append(f"| {words}, {name} | {_trials(found, most)} |")
    text = "\n".join(lines)
    sys.stdout.write(text + "\n")
    if options.seeds == SEEDS:
        into_readme(Path(__file__).with_name("README.md"), text, BEGIN, END)
    return 0


def _chosen(found: Sequence[Outcome]) -> str:
    chosen = [one for one in found if one.another_batch]
    launches = sum(one.launches for one in found) / len(found)
    back = sum(one.rolled_back for one in found)
    return f"{len(chosen)} of {len(found)} | {sum(not one.shown for one in chosen)} | {back} | {launches:.1f}"


def _trials(found: Sequence[Outcome], most: int) -> str:
    took = sorted(one.launches for one in found)
    within = sum(one <= most for one in took)
    gains = sum(bool(one.settings) for one in found)
    return f"{took[len(took) // 2]}, {took[-1]} | {within} of {len(took)} within {most} | {gains}"


if __name__ == "__main__":
    sys.exit(main())
