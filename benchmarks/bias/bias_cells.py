"""The trainings whose rate a probe is asked for: none of them is in benchmarks/truth, and each goes on as it begins."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

TRAININGS = Path(__file__).resolve().parent / "trainings"


@dataclass(frozen=True)
class Cell:
    name: str
    script: str
    flags: str = ""
    workers: int = 0
    prefetch: int = 2
    # Computing workers, or the threads of the model, keep all of two cores busy.
    fills_cores: bool = False

    def command(self, *, seed: int, seconds: float | None = None) -> list[str]:
        """Without seconds the training goes on for an hour, as one does that is probed."""
        return [
            *(sys.executable, str(TRAININGS / self.script), *self.flags.split()),
            *("--workers", str(self.workers), "--prefetch", str(self.prefetch), "--seed", str(seed)),
            *(() if seconds is None else ("--seconds", f"{seconds:g}")),
        ]


CELLS = (
    # The training computes, its data are there.
    Cell("perceptron, data in memory", "features.py"),
    Cell("perceptron, one worker", "features.py", "--width 1024", workers=1, prefetch=4),
    Cell("conv net, reads wait", "images.py", "--batch-size 8 --read-ms 2", workers=2),
    Cell("conv net, bfloat16", "images.py", "--batch-size 8 --amp"),
    Cell("conv net, long steps", "images.py", "--batch-size 32 --width 64", workers=1),
    Cell("two optimizers, GAN", "gan.py", workers=2, prefetch=1),
    Cell("GRU, clipped, .item()", "words.py", workers=1, prefetch=8),
    Cell("GRU, buckets by length", "words.py", "--buckets", workers=2),
    Cell("gradients of 4 batches", "accumulate.py", workers=2),
    Cell("transformer", "encoder.py", workers=1),
    Cell("sparse embeddings, two optimizers", "clicks.py"),
    Cell("3D conv net, memory-mapped", "volumes.py", workers=1, prefetch=1),
    Cell("stream, no workers", "stream.py", "--wait-ms 1"),
    # The training waits for loaders that wait.
    Cell("stream of two workers", "stream.py", "--wait-ms 4", workers=2, prefetch=4),
    Cell("log-normal waits", "remote.py", "--wait-ms 10 --sigma 0.25", workers=4),
    Cell("log-normal waits, steps of 3 ms", "remote.py", "--wait-ms 12 --batch-size 1", workers=4),
    Cell("a worker half as fast", "remote.py", "--wait-ms 6 --sigma 0.1 --slow-worker 2", workers=4, prefetch=1),
    Cell("waits and compute in balance", "remote.py", "--wait-ms 6 --width 50000 --batch-size 4", workers=2),
    Cell(
        "persistent workers, prefetch 8", "images.py", "--batch-size 4 --read-ms 8 --persistent", workers=2, prefetch=8
    ),
    # The training waits for a loader that computes on one of the cores.
    Cell("one worker augments", "augment.py", workers=1),
    # All cores are busy.
    Cell("two workers augment", "augment.py", "--blurs 30", workers=2, fills_cores=True),
    Cell("four workers augment", "augment.py", "--blurs 5", workers=4, fills_cores=True),
    Cell(
        "two workers unpack", "augment.py", "--packed --batch-size 8 --blurs 4", workers=2, prefetch=4, fills_cores=True
    ),
    Cell("stream of four, spectra", "stream.py", "--spectra 20", workers=4, prefetch=1, fills_cores=True),
    Cell("conv net beside its decoding", "images.py", "--decodes 40", workers=2, fills_cores=True),
    Cell("conv net on two threads", "images.py", "--batch-size 16 --width 32 --threads 2", fills_cores=True),
)
QUICK = (CELLS[0], CELLS[14])
