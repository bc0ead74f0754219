"""The real sampler in a process of its own, under a driver's library of ours; told what to do line by line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from support.cli import quiet_env

PROGRAM = """
import json, sys, time
from vtune.journal.files import to_json
from vtune.telemetry.gpus import GpuSampler

asked = json.loads(sys.argv[1])
sampler = GpuSampler(interval_s=asked.get("interval_s", 0.05))
began = time.monotonic()
sampler.start(asked.get("wait_s", 5.0))
started_s = time.monotonic() - began

def answer(**more):
    print(json.dumps(to_json({"gpus": sampler.gpus, "why_none": sampler.why_none, **more})), flush=True)

answer(samples=sampler.take(asked.get("own", ())), started_s=started_s)
for line in sys.stdin:
    order = json.loads(line)
    sampler.follow(order.get("follow", ()))
    until = time.monotonic() + order["seconds"]
    samples, slowest, cpu = [], 0.0, time.process_time()
    while time.monotonic() < until:
        time.sleep(0.1)
        began = time.monotonic()
        samples += [(time.time(), one) for one in sampler.take(order.get("own", ()))]
        slowest = max(slowest, time.monotonic() - began)
    answer(samples=samples, slowest_s=slowest, cpu_s=time.process_time() - cpu)
began = time.monotonic()
sampler.close()
print(json.dumps({"closed_s": time.monotonic() - began}), flush=True)
"""


class Sampled:
    def __init__(self, env: Mapping[str, str], **asked: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, json.dumps(asked)],
            env=quiet_env(**env), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.first = self._read()

    @property
    def pid(self) -> int:
        return self._process.pid

    def watch(self, seconds: float, *, follow: Sequence[str] = (), own: Sequence[int] = ()) -> dict[str, Any]:
        """`samples` are (time of the day, GpuSample)."""
        assert self._process.stdin is not None
        order = {"seconds": seconds, "follow": list(follow), "own": list(own)}
        print(json.dumps(order), file=self._process.stdin, flush=True)
        return self._read()

    def close(self) -> float:
        """Seconds that it took; the process ends by itself."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        closed_s: float = self._read()["closed_s"]
        assert self._process.wait(timeout=10) == 0
        return closed_s

    def kill(self) -> None:
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        told: dict[str, Any] = json.loads(self._process.stdout.readline())
        return told
