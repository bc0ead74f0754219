"""A training whose costs are known: each sample and each step is a sleep of a given length and spread.

Plain PyTorch that knows nothing of vtune. A sleeping worker stands for one that waits for storage, so two cores carry
sixteen of them; what the loader itself costs (queues, copies, wake-ups) is real. At its end it tells its own rate.
"""

import argparse
import json
import random
import time
from itertools import pairwise

import torch
from torch.utils.data import DataLoader, Dataset

# Costs by sample: gamma of a given spread, or one sample in fifty that takes ten times as long.
SLOW_SHARE, SLOW_TIMES, SLOW_CV = 0.02, 10, 0.1


class Samples(Dataset):
    def __init__(self, *, mean_s: float, cv: float, slow: bool, seed: int) -> None:
        self.mean_s, self.cv, self.slow, self.seed = mean_s, cv, slow, seed

    def __len__(self) -> int:
        # Never at its end: the last batches of a pass are made without new orders.
        return 100_000

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.cost_s(index))
        return torch.full((16,), float(index))

    def cost_s(self, index: int) -> float:
        dice = random.Random(self.seed * 1_000_003 + index)
        mean_s, cv = self.mean_s, self.cv
        if self.slow:
            mean_s /= 1 + SLOW_SHARE * (SLOW_TIMES - 1)
            mean_s *= SLOW_TIMES if dice.random() < SLOW_SHARE else 1
            cv = SLOW_CV
        return dice.gammavariate(cv**-2, mean_s * cv**2) if cv else mean_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--sample-ms", type=float, default=10.0, help="what a worker takes for a sample, on average")
    parser.add_argument("--cv", type=float, default=0.1, help="standard deviation of that over its mean")
    parser.add_argument("--slow-samples", action="store_true", help="instead: one in fifty takes ten times as long")
    parser.add_argument("--compute-ms", type=float, default=8.0, help="what a step takes, data for free")
    parser.add_argument("--first-step-ms", type=float, default=0.0, help="what the first one takes on top")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--steady-from", type=int, default=200, help="the step from which the rate is taken")
    parser.add_argument("--blocks", type=int, default=20, help="parts of the steady steps, each with its own rate")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    samples = Samples(mean_s=options.sample_ms / 1e3, cv=options.cv, slow=options.slow_samples, seed=options.seed)
    loader = DataLoader(
        samples,
        batch_size=1,
        shuffle=True,
        num_workers=options.workers,
        prefetch_factor=options.prefetch if options.workers else None,
    )
    weight = torch.nn.Parameter(torch.ones(16))
    optimizer = torch.optim.SGD([weight], lr=1e-12)
    ends: list[float] = []
    for step, batch in enumerate(loader):
        loss = (batch * weight).mean()
        time.sleep(options.compute_ms / 1e3)
        if step == 0:
            time.sleep(options.first_step_ms / 1e3)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        ends.append(time.perf_counter())
        if step + 1 == options.steps:
            break
    size = (options.steps - 1 - options.steady_from) // options.blocks
    edges = [ends[options.steady_from + number * size] for number in range(options.blocks + 1)]
    print(
        json.dumps(
            {
                "samples_per_s": size * options.blocks / (edges[-1] - edges[0]),
                "by_block": [size / (after - before) for before, after in pairwise(edges)],
                "steps": options.steps,
            }
        )
    )


if __name__ == "__main__":
    main()
