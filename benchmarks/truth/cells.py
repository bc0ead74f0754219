"""What a short trial says of a long run: cells of workers, prefetch, first step, cost ratio and spread.

Each cell is probed as a user would, and run by itself for 2000 steps without vtune; the two take turns cell by cell.
"""

from __future__ import annotations

import math
import shutil
import statistics
import sys
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from launches import DISTURBED_CORES, TRAINING, Bench, Failed, Probe
from table import Claim, percent, percentile, share

from vtune.analysis.roles import find_roles
from vtune.journal.paths import TrialPaths
from vtune.journal.trial_files import read_trial_files

# The slower side of a step: long beside what a sleep is late by (0.1 to 0.3 ms), short enough for 40 cells of 2000.
STEP_MS = 8.0
TRUE_STEPS = 2000
# Of the steps at the end of a trial that the usual estimates take.
LAST = 50
# A cell beside busy neighbours is measured again, whatever it came to, so many times at most.
AGAIN = 2
# Classes of spread: up to here a bar for the error, beyond it one for the interval.
CALM_CV = 0.25


@dataclass(frozen=True)
class Cell:
    workers: int
    prefetch: int
    # The loader's capacity, its workers never waiting for each other, over the training's own pace.
    ratio: float
    # Of a batch's cost; None: 2 % take ten times as long.
    cv: float | None
    slow_first_step: bool = False

    @property
    def sample_ms(self) -> float:
        return STEP_MS * self.workers / max(1.0, self.ratio)

    @property
    def compute_ms(self) -> float:
        return STEP_MS * min(1.0, self.ratio)

    @property
    def first_step_ms(self) -> float:
        """Long enough for the workers to fill their queue, some of them slow ones."""
        return 500 + 2 * self.prefetch * self.sample_ms if self.slow_first_step else 0.0

    @property
    def calm(self) -> bool:
        return self.cv is not None and self.cv <= CALM_CV

    @property
    def name(self) -> str:
        spread = "2 % slow" if self.cv is None else f"CV {self.cv:g}"
        return f"{self.workers}×{self.prefetch} r{self.ratio:g} {spread}{' slow start' if self.slow_first_step else ''}"

    def command(self, *, seed: int) -> list[str]:
        return [
            *(sys.executable, str(TRAINING), "--seed", str(seed)),
            *("--workers", str(self.workers), "--prefetch", str(self.prefetch)),
            *("--sample-ms", f"{self.sample_ms:.6g}", "--compute-ms", f"{self.compute_ms:.6g}"),
            *(("--slow-samples",) if self.cv is None else ("--cv", f"{self.cv:g}")),
        ]


# The two whose true rates are equal and whose stock is not, and corners; then a spread over everything.
NAMED = (
    Cell(6, 4, 0.5, 0.1, True),
    Cell(6, 8, 0.5, 0.1, True),
    Cell(1, 1, 0.5, 0.1),
    Cell(1, 1, 1.0, 0.5),
    Cell(8, 2, 0.8, 0.5, True),
    Cell(8, 2, 0.8, 0.25),
    Cell(16, 4, 1.25, 0.25, True),
    Cell(8, 1, 1.0, 0.25, True),
)
SPREAD = tuple(
    Cell(workers, prefetch, ratio, cv, slow)
    for workers, prefetch, ratio, cv, slow in (
        # Every value of each column with every value of each other one, as evenly as 36 rows allow.
        (1, 2, 0.8, 0.1, True), (1, 4, 1.25, 0.25, False), (1, 8, 0.5, 0.25, True), (1, 2, 1.0, None, False),
        (1, 4, 0.8, 0.5, True), (1, 8, 1.25, 0.1, False), (2, 1, 1.0, 0.1, True), (2, 2, 0.5, 0.25, False),
        (2, 4, 0.8, 0.1, True), (2, 8, 1.25, 0.25, True), (2, 2, 1.25, 0.5, False), (2, 4, 1.0, 0.5, True),
        (2, 1, 0.8, None, False), (4, 1, 0.5, 0.25, True), (4, 2, 1.25, 0.1, False), (4, 4, 0.8, 0.25, True),
        (4, 8, 1.0, 0.1, True), (4, 2, 0.8, 0.5, False), (4, 4, 0.5, 0.5, True), (4, 8, 1.25, None, False),
        (4, 2, 1.0, 0.25, True), (6, 1, 1.25, 0.1, True), (6, 2, 0.8, 0.25, False), (6, 2, 1.0, 0.1, False),
        (6, 4, 1.0, 0.25, True), (6, 8, 0.8, 0.5, True), (6, 2, 0.5, None, False), (6, 1, 0.5, 0.5, False),
        (8, 1, 1.25, 0.1, False), (8, 2, 0.5, 0.1, True), (8, 4, 0.8, 0.25, True), (8, 8, 1.0, 0.1, False),
        (8, 4, 1.25, 0.5, False), (8, 2, 1.0, 0.5, True), (8, 8, 0.5, None, True), (8, 4, 0.5, 0.25, False),
    )
)  # fmt: skip
QUICK = (Cell(4, 2, 0.8, 0.1, True),)


def measure(bench: Bench, cells: tuple[Cell, ...] | None = None) -> dict[str, Any]:
    cells = cells or (QUICK if bench.quick else NAMED + SPREAD)
    steps = 500 if bench.quick else TRUE_STEPS
    rows: list[dict[str, Any]] = []
    data: dict[str, Any] = {"steps": steps, "rows": rows, "disturbed": [], "failures": []}
    for number, cell in enumerate(cells):
        left_s = sum(seconds_of(other, steps) for other in cells[number:])
        bench.tell(f"{number + 1}/{len(cells)} {cell.name}; about {left_s / 60:.0f} min left")
        try:
            row = one_cell(bench, cell, number, steps)
            for _ in range(0 if bench.quick else AGAIN):
                if not is_disturbed(row):
                    break
                bench.tell(f"others kept {row['others_cores']:.1f} cores busy: once more")
                data["disturbed"].append(row)
                row = one_cell(bench, cell, number, steps)
            rows.append(row)
        except Failed as failure:
            data["failures"].append(f"{cell.name}: {failure}")
            bench.tell(data["failures"][-1])
        bench.keep(data)
    return data


def is_disturbed(row: dict[str, Any]) -> bool:
    return (row["others_cores"] or 0.0) > DISTURBED_CORES


def seconds_of(cell: Cell, steps: int) -> float:
    """Two launches with torch, a window, and the long run; spread costs a loader that keeps its order a fifth."""
    return 9.0 + 1.2 * STEP_MS / 1e3 * (steps + 120)


def one_cell(bench: Bench, cell: Cell, number: int, steps: int) -> dict[str, Any]:
    delay = ["--first-step-ms", f"{cell.first_step_ms:g}"] if cell.slow_first_step else []
    # The delay is the first step's alone; the long run goes without, for its stock would still be in 2000 steps' rate.
    alone = [*cell.command(seed=2 * number + 1), "--steps", str(steps)]
    # Which of the two comes first alternates.
    run = bench.plain(alone) if number % 2 else None
    probe = bench.probe(f"cell-{number}", [*cell.command(seed=2 * number), *delay])
    run = run or bench.plain(alone)
    true, others = run.json, (run.others_cores, probe.trial.get("others_cores"))
    row = {**asdict(cell), "name": cell.name, **told_by(probe), **told_by_steps(probe)}
    row |= {"true": true["samples_per_s"], "true_se": standard_error(true["by_block"])}
    row |= {"others_cores": max((one for one in others if one is not None), default=None)}
    shutil.rmtree(bench.scratch / f"cell-{number}", ignore_errors=True)
    return row


def told_by(probe: Probe) -> dict[str, Any]:
    trial = probe.trial
    return {
        "rate": trial.get("samples_per_s"),
        "ci95": trial.get("samples_per_s_ci95"),
        "rate_from": trial.get("rate_from"),
        "steady": trial.get("steady"),
        "steps_measured": trial.get("steps_measured"),
        "probe_s": round(probe.seconds, 1),
    }


def told_by_steps(probe: Probe) -> dict[str, Any]:
    """The usual estimates, on the same trial: mean and median of its last steps."""
    log = read_trial_files(TrialPaths(probe.folder)).log
    roles = find_roles(log.steps, log.delivered, log.facts)
    ends = [step.ended_s for step in roles.steps] if roles is not None else []
    steps_s = [after - before for before, after in pairwise(ends)][-LAST:]
    if not steps_s:
        return {"mean_of_last": None, "median_of_last": None}
    # Batches of one sample: steps are samples.
    return {"mean_of_last": 1 / statistics.fmean(steps_s), "median_of_last": 1 / statistics.median(steps_s)}


def standard_error(by_block: list[float]) -> float:
    """Of the long run's own rate, as a share: it has spread, too."""
    return statistics.stdev(by_block) / statistics.fmean(by_block) / math.sqrt(len(by_block))


def error(row: dict[str, Any], name: str = "rate") -> float | None:
    value = row.get(name)
    return None if value is None else value / row["true"] - 1


def covered(row: dict[str, Any]) -> bool:
    interval = row.get("ci95")
    return interval is not None and bool(interval[0] <= row["true"] <= interval[1])


def is_calm(row: dict[str, Any]) -> bool:
    return row["cv"] is not None and row["cv"] <= CALM_CV


def claims(data: dict[str, Any]) -> list[Claim]:
    rows = [row for row in data["rows"] if row["rate"] is not None]
    disturbed = sum(map(is_disturbed, rows))
    calm, wide = [row for row in rows if is_calm(row)], [row for row in rows if not is_calm(row)]
    errors = sorted(abs(error(row) or 0.0) for row in calm)
    noisy = f", {disturbed} beside busy neighbours" if disturbed else ""
    found = [Claim("cells with a figure", "≥ 40", f"{len(rows)}{noisy}", len(rows) >= 40)]
    if errors:
        middle, p95 = statistics.median(errors), percentile(errors, 0.95)
        many = f"{len(calm)} cells"
        found.append(Claim("error at CV ≤ 0.25, median", "< 2 %", f"{percent(middle)} ({many})", middle < 0.02))
        found.append(Claim("error at CV ≤ 0.25, 95th percentile", "< 6 %", f"{percent(p95)} ({many})", p95 < 0.06))
    rare = [row for row in wide if row["cv"] is None]
    # The bar is for all that spreads; what a window cannot see is told apart as well.
    for title, some, bar in (
        ("95 % interval covers, CV > 0.25", wide, 0.9),
        ("of these, 2 % slow batches", rare, None),
        ("95 % interval covers, all cells", rows, 0.9),
    ):
        if some:
            inside = sum(map(covered, some))
            passed = None if bar is None else inside / len(some) >= bar
            found.append(Claim(title, "≥ 90 %" if bar else "for the record", share(inside, len(some)), passed))
    return found


def lines(data: dict[str, Any]) -> list[str]:
    rows = data["rows"]
    if not rows:
        return []
    out = [
        "Error of each estimate against the long run, on the same trials:",
        "",
        "| estimate | CV ≤ 0.25: median, 95th percentile, worst | more spread: median, 95th percentile, worst |",
        "|---|---|---|",
    ]
    for title, name in (
        ("`samples_per_s`", "rate"),
        (f"mean of the last {LAST} steps", "mean_of_last"),
        (f"median of the last {LAST} steps", "median_of_last"),
    ):
        out.append(f"| {title} | {_errors(rows, name, calm=True)} | {_errors(rows, name, calm=False)} |")
    noise = [row["true_se"] for row in rows]
    wide = [row["true_se"] for row in rows if not is_calm(row)]
    out += [
        "",
        f"The long run has a standard error of its own: {percent(statistics.median(noise))} (median)"
        + (f", {percent(max(wide))} at most where costs spread widely" if wide else "")
        + "; the errors include it, and the covering is judged as if it were nought.",
        f"{len(data['disturbed'])} cells were measured again because other programs kept more than {DISTURBED_CORES:g}"
        " cores busy."
        if data["disturbed"]
        else "",
        "",
        "| cell | long run | vtune | error | 95 % interval | covers | mean, median of last 50 | by | steps | others |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    out += [_row(row) for row in rows]
    out.append("")
    out.append(
        "`6×4 r0.5`: workers × prefetch, and the loader's capacity over the training's own pace. Samples a second."
    )
    return out


def _errors(rows: list[dict[str, Any]], name: str, *, calm: bool) -> str:
    found = [(error(row, name) or 0.0) for row in rows if is_calm(row) is calm and row.get(name) is not None]
    if not found:
        return "-"
    sizes = sorted(map(abs, found))
    return f"{percent(statistics.median(sizes))}, {percent(percentile(sizes, 0.95))}, {max(found, key=abs):+.1%}"


def _row(row: dict[str, Any]) -> str:
    if row["rate"] is None:
        return f"| {row['name']} | {row['true']:.1f} | none | | | no | | | | |"
    interval = f"{row['ci95'][0]:.1f} to {row['ci95'][1]:.1f}" if row["ci95"] else "none"
    others = "-" if row["others_cores"] is None else f"{row['others_cores']:.1f}"
    naive = ", ".join(f"{error(row, name) or 0:+.1%}" for name in ("mean_of_last", "median_of_last"))
    cells = [
        *(row["name"], f"{row['true']:.1f}", f"{row['rate']:.1f}", f"{error(row):+.1%}", interval),
        *("yes" if covered(row) else "no", naive, row["rate_from"] or "-", str(row["steps_measured"]), others),
    ]
    return f"| {' | '.join(cells)} |"
