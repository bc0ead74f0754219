"""How far processes that leak come over a RAM limit where no control group holds them.

Forked processes fill memory side by side, each at its pace, under vtune's own supervisor and its watchdog alone. Each
one tells through a shared page how much it has filled, so the truth needs no reading of theirs.

    python benchmarks/guard/overshoot.py                  every row, some minutes
    python benchmarks/guard/overshoot.py --only 6 --repeat 1
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from vtune.domain.trial import TrialSpec
from vtune.execution.engines.local import LocalEngine
from vtune.execution.ram_limits import ram_limits
from vtune.journal.files import dump_json

MIB = 2**20
# One slot of eight bytes a process; slot 0 is their memory before any of them grew.
GROW = """
import mmap, os, struct, sys, time
shared, number, pace, chunk, quiet = sys.argv[1], *(int(word) for word in sys.argv[2:6])
page = mmap.mmap(os.open(shared, os.O_RDWR), 4096)
go, done = os.pipe(), []
for n in range(number):
    if os.fork() == 0:
        os.close(go[1])
        begun, filled = time.monotonic(), 0
        while True:
            done.append(b"x" * (chunk - 64))  # with its header whole pages
            filled += chunk
            struct.pack_into("q", page, 8 + 8 * n, filled)
            if filled == chunk:
                # Waits here, with all that running once has copied on write.
                os.read(go[0], 1)
                begun = time.monotonic()
            if pace: time.sleep(max(0.0, begun + filled / pace - time.monotonic()))
time.sleep(quiet)
def anon(pid):
    lines = open(f"/proc/{pid}/smaps_rollup").read().split("\\n")
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss_Anon:"))
me = os.getpid()
children = [int(pid) for pid in open(f"/proc/{me}/task/{me}/children").read().split()]
struct.pack_into("q", page, 0, sum(map(anon, [me, *children])) - number * chunk)
os.close(go[0]); os.close(go[1])
time.sleep(1000)
"""


def overshoot(processes: int, pace: int, limit: int, chunk: int = MIB // 4, quiet: int = 2) -> dict[str, float]:
    """`pace`: bytes a second of each process, 0 for as fast as they can."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "inject").mkdir()
        page_file = folder / "page"
        page_file.write_bytes(bytes(4096))
        words = (str(page_file), str(processes), str(pace), str(chunk), str(quiet))
        spec = TrialSpec(
            trial=1, origin="probe", reason="overshoot", settings={}, effects=(), cwd=str(folder), env={},
            command=(sys.executable, "-c", GROW, *words), token=os.urandom(16).hex(),
        )  # fmt: skip
        root = folder / "trials" / "0001"
        root.mkdir(parents=True)
        dump_json(root / "spec.json", spec)
        dump_json(root / "limits.json", replace(ram_limits(limit), group=None, wall_bytes=None))
        with LocalEngine(folder / "inject").start(spec, root) as trial:
            (supervisor,) = trial.own_pids
            used_s, begun_s = 0.0, time.monotonic()
            while (outcome := trial.poll()) is None:
                used_s = _used_s(supervisor) or used_s
                time.sleep(0.25)
                if time.monotonic() > begun_s + 180:
                    raise SystemExit("error: no end within 180 s")
            seconds = time.monotonic() - begun_s
        page = struct.unpack("512q", page_file.read_bytes())
        true = sum(page)
        return {
            "processes": processes, "pace": pace, "limit": limit, "true": true, "over": true / limit - 1,
            "seen": (outcome.over.used_bytes or 0) / limit - 1 if outcome.over else float("nan"),
            "what": outcome.over.what if outcome.over else outcome.ended_by,
            "watchdog_cores": used_s / seconds, "seconds": seconds,
        }  # fmt: skip


def _used_s(pid: int) -> float | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=int, help="so many processes")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--limit", type=int, default=1024, help="MiB")
    parser.add_argument("--paces", type=int, nargs="*", default=[25, 100, 0], help="MB/s of each process")
    asked = parser.parse_args()
    for processes in [asked.only] if asked.only else [1, 2, 4, 6]:
        for pace in asked.paces:
            for _ in range(asked.repeat):
                row = overshoot(processes, pace * 10**6, asked.limit * MIB)
                print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}), flush=True)
