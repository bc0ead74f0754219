"""A training's own clock: it ends the loop after its time and prints the rate from the end of its warm-up on."""

import argparse
import json
import time
from itertools import pairwise

# The workers' first batches have been used up by then in every training here.
WARM_UP_S, WARM_UP_STEPS = 2.0, 20
BLOCKS = 10


def options(parser: argparse.ArgumentParser) -> argparse.Namespace:
    parser.add_argument("--seconds", type=float, default=3600.0, help="after the warm-up")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


class Pace:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.first_s: float | None = None
        self.warm_up = WARM_UP_STEPS
        # The ends of the steps after the warm-up, and the samples by then.
        self.ends: list[float] = []
        self.samples: list[int] = []

    def is_over(self, samples: int) -> bool:
        """Called once a batch, at its end; the rate is printed before it is over."""
        now = time.perf_counter()
        if self.first_s is None:
            self.first_s = now
        self.warm_up -= 1
        if self.warm_up > 0 or now - self.first_s < WARM_UP_S:
            return False
        self.samples.append(samples + (self.samples[-1] if self.samples else 0))
        self.ends.append(now)
        if now - self.ends[0] < self.seconds or len(self.ends) <= BLOCKS:
            return False
        last = len(self.ends) - 1
        edges = [number * last // BLOCKS for number in range(BLOCKS + 1)]
        told = {
            "samples_per_s": self._rate(0, last),
            "by_block": [self._rate(before, after) for before, after in pairwise(edges)],
            "step_ms": (self.ends[last] - self.ends[0]) / last * 1e3,
            "steps": last,
        }
        print(json.dumps(told), flush=True)
        return True

    def _rate(self, before: int, after: int) -> float:
        return (self.samples[after] - self.samples[before]) / (self.ends[after] - self.ends[before])
