"""What looking at a trial from outside costs: one core's share of vtune's sampler over a training with loader workers.

    python benchmarks/overhead/sampler.py

The tree is a real DataLoader with torch in each of its workers. The sampler's own processor time (user and kernel) is
taken in turns with a sampler that never reads proportional set sizes, to tell what those cost.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time

from vtune.telemetry.host import HostSampler

EVERY_S = 0.2
PSS_EVERY_S = 5.0

TRAINING = """
import os, sys, time, warnings, torch
from torch.utils.data import DataLoader, Dataset
warnings.simplefilter("ignore")
class Patches(Dataset):
    def __init__(self): self.volume = torch.ones(int(sys.argv[2]) * 2**18)
    def __len__(self): return 10**6
    def __getitem__(self, index):
        time.sleep(0.05)
        return self.volume[index % 1000 :][: 2**16] * 2
torch.set_num_threads(1)
workers = int(sys.argv[1])
batches = iter(DataLoader(Patches(), batch_size=1, num_workers=workers))
for _ in range(2 * workers): next(batches)
print(os.getpid(), *[worker.pid for worker in batches._workers], flush=True)
for _ in batches: time.sleep(0.02)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--mib", type=int, default=256, help="memory of the data set, shared with the workers by fork")
    asked = parser.parse_args()
    command = [sys.executable, "-c", TRAINING, str(asked.workers), str(asked.mib)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    training = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env, start_new_session=True)
    try:
        assert training.stdout is not None
        pids = [int(word) for word in training.stdout.readline().split()]
        if len(pids) != asked.workers + 1:
            raise SystemExit("the training did not start: nothing was measured")
        print(json.dumps(cost(pids, asked.seconds)))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(training.pid, signal.SIGKILL)
        training.communicate()


def cost(pids: list[int], seconds: float) -> dict[str, object]:
    """Both samplers on the same grid, one after the other at each tick."""
    whole, light = HostSampler(lambda: pids), HostSampler(lambda: pids)
    spent = {True: 0.0, False: 0.0}
    readings = 0
    begun = now = time.monotonic()
    pss_due = begun
    samples = 0
    while now < begun + seconds:
        with_pss = now >= pss_due
        for pss, sampler in ((True, whole), (False, light)):
            before = time.thread_time()
            seen = sampler.sample(now, with_pss and pss)
            spent[pss] += time.thread_time() - before
            if len(seen.processes) != len(pids) or seen.processes[0].queued_s is None:
                raise SystemExit("the tree was not seen whole: this run measured nothing")
            readings += seen.ram_bytes is not None
        if with_pss:
            pss_due = now + PSS_EVERY_S
        samples += 1
        time.sleep(max(0.0, begun + samples * EVERY_S - time.monotonic()))
        now = time.monotonic()
    return {
        "processes": len(pids),
        "samples": samples,
        "memory_readings": readings,
        "share_of_a_core_percent": round(100 * spent[True] / (now - begun), 3),
        "without_memory_readings_percent": round(100 * spent[False] / (now - begun), 3),
        "one_memory_reading_ms": round(1e3 * (spent[True] - spent[False]) / max(1, readings), 1),
    }


if __name__ == "__main__":
    main()
