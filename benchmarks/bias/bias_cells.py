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
    # All its costs are waited for: it runs as fast in every second of this machine.
    waits: bool = False

    def command(self, *, seed: int, seconds: float | None = None) -> list[str]:
        """Without seconds the training goes on for an hour, as one does that is probed."""
        return [
            *(sys.executable, str(TRAININGS / self.script), *self.flags.split()),
            *("--workers", str(self.workers), "--prefetch", str(self.prefetch), "--seed", str(seed)),
            *(() if seconds is None else ("--seconds", f"{seconds:g}")),
        ]


def _waits(name: str, flags: str, workers: int = 0, prefetch: int = 2) -> Cell:
    return Cell(name, "waits.py", flags, workers, prefetch, waits=True)


# Per sample and step in ms; batches of 4 where nothing else is said.
WAITING = (
    _waits("no workers, samples 2, step 6", "--sample-ms 2 --step-ms 6"),
    _waits("no workers, a stream, samples 1 of CV 0.5", "--stream --sample-ms 1 --sample-sigma 0.47 --step-ms 12"),
    _waits("one worker has room, step 20", "--sample-ms 3 --step-ms 20", 1, 1),
    _waits("one worker is late, prefetch 8", "--sample-ms 6 --step-ms 8", 1, 8),
    _waits("one worker, steps of 150", "--sample-ms 15 --step-ms 150 --step-sigma 0.1", 1),
    _waits("one worker, steps vary", "--sample-ms 2 --step-ms 25 --step-sigma 0.3", 1),
    _waits("two workers in balance", "--sample-ms 10 --step-ms 20", 2, 1),
    _waits("two workers have room, prefetch 8", "--sample-ms 4 --step-ms 24", 2, 8),
    _waits("two workers are late, prefetch 4", "--sample-ms 12 --step-ms 6", 2, 4),
    _waits("two workers, gradients of 4 batches", "--sample-ms 5 --step-ms 12 --accumulate 4", 2),
    _waits("two workers, a dear collate", "--sample-ms 2 --collate-ms 15 --step-ms 8", 2),
    _waits("two workers, batches of 2, 4 and 6", "--sample-ms 6 --step-ms 9 --uneven", 2),
    _waits("two workers, a stream", "--stream --sample-ms 5 --step-ms 5", 2, 4),
    _waits("two workers, persistent", "--sample-ms 8 --step-ms 10 --persistent", 2),
    _waits("three workers, samples of CV 0.5", "--sample-ms 10 --sample-sigma 0.47 --step-ms 8", 3),
    _waits("three workers, one half as fast", "--sample-ms 6 --slow-worker 2 --step-ms 5", 3, 4),
    _waits("four workers in balance, samples of CV 0.3", "--sample-ms 16 --sample-sigma 0.29 --step-ms 16", 4),
    _waits("four workers have room, prefetch 8", "--sample-ms 8 --sample-sigma 0.3 --step-ms 30", 4, 8),
    _waits("four workers, one a third as fast", "--sample-ms 5 --slow-worker 3 --step-ms 5", 4, 1),
    _waits("four workers, steps of 3", "--sample-ms 5 --step-ms 3", 4),
    _waits("six workers are late", "--sample-ms 20 --step-ms 5", 6),
    _waits("six workers, batches of 16", "--batch-size 16 --sample-ms 4 --step-ms 15", 6),
    _waits("eight workers in balance", "--sample-ms 30 --step-ms 15", 8),
    _waits("eight workers have room, a stream", "--stream --sample-ms 15 --step-ms 20", 8, 4),
)
COMPUTING = (
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
CELLS = WAITING + COMPUTING
QUICK = (WAITING[0], WAITING[8])
