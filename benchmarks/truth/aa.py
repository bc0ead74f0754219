"""The same thing measured twice, told different or not; and once more with one side truly 5 % slower.

Each side is a study of its own with one fresh probe, and `vtune compare` judges the two, as a person or a CI job would.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from launches import TRAINING, Bench, Failed
from table import Claim, percent, share

# One in a hundred is what the verdict allows itself: twenty pairs alone would hardly show whether it keeps to that.
SAME = 40
SLOWER = 4
BY = 0.05
LAUNCH_S = 6.0
# Other seeds than those of the runs after which the verdict was made stricter.
FIRST_SEED = 20_000


@dataclass(frozen=True)
class Kind:
    """A law of costs; the part that a slower side is slower in is the one that sets its pace."""

    name: str
    workers: int
    prefetch: int
    sample_ms: float
    compute_ms: float
    cv: float
    slow_side: str

    def command(self, *, seed: int, slower: float = 0.0) -> list[str]:
        sample_ms = self.sample_ms * (1 + slower if self.slow_side == "loader" else 1)
        compute_ms = self.compute_ms * (1 + slower if self.slow_side == "training" else 1)
        return [
            *(sys.executable, str(TRAINING), "--seed", str(seed), "--cv", f"{self.cv:g}"),
            *("--workers", str(self.workers), "--prefetch", str(self.prefetch)),
            *("--sample-ms", f"{sample_ms:.6g}", "--compute-ms", f"{compute_ms:.6g}"),
        ]


KINDS = (
    Kind("compute-bound", 4, 2, 20.0, 10.0, 0.25, "training"),
    Kind("data-bound, CV 0.1", 4, 2, 40.0, 5.0, 0.1, "loader"),
    Kind("data-bound, CV 0.5", 6, 2, 60.0, 5.0, 0.5, "loader"),
    Kind("balanced", 2, 2, 20.0, 10.0, 0.25, "training"),
)


def measure(bench: Bench) -> dict[str, Any]:
    same, slower = (1, 1) if bench.quick else (SAME, SLOWER)
    data: dict[str, Any] = {"same": [], "slower": [], "failures": []}
    # Both kinds of pairs in turns, so that a busy quarter of an hour hits them alike.
    plan = sorted([(n / same, "same", n) for n in range(same)] + [(n / slower, "slower", n) for n in range(slower)])
    for number, (_, what, n) in enumerate(plan):
        left_s = (len(plan) - number) * 2.2 * LAUNCH_S
        kind = KINDS[n % len(KINDS)]
        bench.tell(f"{number + 1}/{len(plan)} {what}: {kind.name}; about {left_s / 60:.0f} min left")
        try:
            seed, slower_by = FIRST_SEED + 2 * number, BY if what == "slower" else 0.0
            data[what].append(one_pair(bench, kind, f"{what}-{n}", seed, slower_by))
        except Failed as failure:
            data["failures"].append(f"{what} {kind.name}: {failure}")
            bench.tell(data["failures"][-1])
        bench.keep(data)
    return data


def one_pair(bench: Bench, kind: Kind, name: str, seed: int, slower: float) -> dict[str, Any]:
    sides = []
    for side, extra in (("a", 0.0), ("b", slower)):
        # The training draws its costs anew in each launch, as one does that shuffles.
        command = kind.command(seed=seed + (side == "b"), slower=extra)
        sides.append(bench.probe(f"{name}-{side}", command).trial)
    said = bench.vtune("compare", f"{name}-a", f"{name}-b", "--json", "--results", bench.scratch)
    if said.code != 0:
        raise Failed(f"compare: {said.why}")
    told = said.json
    return {
        "kind": kind.name,
        "rates": [side["samples_per_s"] for side in sides],
        "ratio": told["ratio"],
        "ratio_ci95": told["ratio_ci95"],
        "verdict": told["verdict"],
        "resolvable": told["resolvable"],
    }


def claims(data: dict[str, Any]) -> list[Claim]:
    found = []
    same, slower = data["same"], data["slower"]
    if same:
        wrong = sum(row["verdict"] != "tie" for row in same)
        figure = share(wrong, len(same))
        found.append(Claim("the same settings twice, called different", "< 5 %", figure, wrong / len(same) < 0.05))
    else:
        found.append(Claim("the same settings twice, called different", "< 5 %", "not measured", False))
    if slower:
        seen = sum(row["verdict"] == "slower" for row in slower)
        figure = f"{share(seen, len(slower))}, one launch a side"
        found.append(Claim("truly 5 % slower, called slower", "for the record", figure, None))
    return found


def lines(data: dict[str, Any]) -> list[str]:
    out = [
        "| what | training | samples/s | B over A | 95 % interval | called | could have been seen |",
        "|---|---|---|---|---|---|---|",
    ]
    for what, rows in (("the same", data["same"]), ("B 5 % slower", data["slower"])):
        for row in rows:
            rates = " and ".join(f"{rate:.1f}" for rate in row["rates"])
            low, high = row["ratio_ci95"] or (None, None)
            interval = "none" if low is None else f"{low:.3f} to {high:.3f}"
            least = "nothing" if row["resolvable"] is None else percent(row["resolvable"])
            out.append(
                f"| {what} | {row['kind']} | {rates} | {row['ratio']:.3f} | {interval} | {row['verdict']} | {least} |"
            )
    return out
