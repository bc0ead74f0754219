"""The processor time that a loader worker spends on looking at what it reads, against samples of a millisecond.

python benchmarks/repeats/cost.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
INJECT = HERE.parents[1] / "vtune" / "worker" / "inject"
SAMPLE_S, BATCH, BATCHES, WORKERS = 0.001, 4, 500, 2
SHAPES = {"64 values": (64,), "3 × 224 × 224": (3, 224, 224), "1 × 96 × 96 × 96": (1, 96, 96, 96)}


def main() -> None:
    if sys.argv[1:]:
        train(sys.argv[1])
        return
    for name in SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            env = {**os.environ, "PYTHONPATH": str(INJECT), "VTUNE_TRIAL": folder, "OMP_NUM_THREADS": "1"}
            subprocess.run([sys.executable, __file__, name], env=env, check=True)
            told = [json.loads(path.read_text()) for path in Path(folder).glob("cost-*.json")]
        samples = sum(one["samples"] for one in told) / len(told)
        ms = {part: 1000 * sum(one[part] for one in told) / len(told) for part in ("begin", "look", "end_batch")}
        whole = sum(ms.values())
        parts = ", ".join(f"{part} {spent:.2f}" for part, spent in ms.items())
        share = whole / (1000 * samples * SAMPLE_S)
        print(f"{name}: {whole:.2f} ms a worker ({parts}), {share:.2%} of {samples:.0f} samples of 1 ms")


def train(name: str) -> None:
    import numpy as np
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Busy(Dataset[Any]):
        def __init__(self) -> None:
            self.rng = np.random.default_rng(0)
            self.image = torch.rand(SHAPES[name])

        def __len__(self) -> int:
            return BATCH * BATCHES

        def __getitem__(self, index: int) -> Any:
            end = time.thread_time() + SAMPLE_S
            while time.thread_time() < end:
                pass
            return self.image + self.rng.random(), index % 10

    watch(sys.modules["_vtune_hooks.reads"].Reads)
    for _ in DataLoader(Busy(), batch_size=BATCH, shuffle=True, num_workers=WORKERS):
        pass


def watch(kind: Any) -> None:
    """Before the workers are forked; each tells its sums when it has seen enough."""
    spent = {"begin": 0.0, "look": 0.0, "end_batch": 0.0}

    def timed(part: str, original: Any) -> Any:
        def run(self: Any, *arguments: Any) -> None:
            begun = time.thread_time()
            original(self, *arguments)
            spent[part] += time.thread_time() - begun
            if part == "end_batch" and self.ends:
                told = {**spent, "samples": BATCH * BATCHES / WORKERS}
                Path(os.environ["VTUNE_TRIAL"], f"cost-{os.getpid()}.json").write_text(json.dumps(told))

        return run

    for part in spent:
        setattr(kind, part, timed(part, getattr(kind, part)))


if __name__ == "__main__":
    main()
