"""Ten thousand hostile calls of vtune: python benchmarks/fuzz/run.py [--calls 10000] [--seed 0]

Prints a table by kind, and each call that is at fault with its seed: fuzz.judge.judge(kind, seed) makes it again."""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dated import commit, machine
from fuzz.calls import KINDS
from fuzz.judge import FAULTS, Judged, judge

# One in so many is a process of its own, as a user starts it: its start-up takes forty times as long as a call.
PROCESS_EVERY = 50
# A text that makes vtune take all memory ends its own call, not the machine.
MOST_MEMORY_BYTES = 6 * 2**30


def judged(kind: str, calls: int, first: int) -> Iterator[Judged]:
    for seed in range(first, first + calls):
        yield judge(kind, seed, as_process=seed % PROCESS_EVERY == PROCESS_EVERY - 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first call of each kind")
    asked = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
    print(f"{time.strftime('%Y-%m-%d')}, commit {commit()}, {machine()}, seeds from {asked.seed}\n")
    print(f"| kind | calls | done | refused | longest | {' | '.join(FAULTS)} |")
    print(f"|---|{'---:|' * (4 + len(FAULTS))}")
    at_fault, totals = list[Judged](), Counter[str]()
    for kind in KINDS:
        counts, longest_s = Counter[str](), 0.0
        for one in judged(kind, asked.calls // len(KINDS), asked.seed):
            counts["calls"] += 1
            counts["refused" if one.code in (2, 3) else "done" if one.code == 0 else "other"] += 1
            counts.update(one.faults)
            longest_s = max(longest_s, one.seconds)
            at_fault += [one] if one.faults else []
        print(_row(kind, counts, f"{longest_s:.1f} s"), flush=True)
        totals += counts
    print(_row("all", totals, ""))
    for one in at_fault:
        print(
            f"\n{one.kind!r}, {one.seed}: {', '.join(one.faults)}, exit {one.code}: {list(one.words)}\n{one.said[:400]}"
        )
    return 1 if at_fault else 0


def _row(kind: str, counts: Counter[str], longest: str) -> str:
    figures = [counts[name] for name in ("calls", "done", "refused")]
    return f"| {kind} | {' | '.join(map(str, [*figures, longest, *(counts[fault] for fault in FAULTS)]))} |"


if __name__ == "__main__":
    sys.exit(main())
