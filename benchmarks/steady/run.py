"""Is a rate that is called steady that of a long run? Simulated trainings in virtual time: nothing is measured here.

python benchmarks/steady/run.py                  # every shape, both windows; ten minutes of two cores
python benchmarks/steady/run.py --only sticky    # shapes with this in their name; the others' rows stay
python benchmarks/steady/run.py --quick          # does it work? Nothing is written
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from steady_runs import PRECISE, PROBE, TRUE_STEPS, one_window, row_of, true_rate
from steady_shapes import SHAPES, Shape

from dated import commit, into_readme, keep_rows, kept_rows, machine

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "shapes.json"
BEGIN, END = "<!-- figures: written by run.py -->", "<!-- end of the figures -->"
RUNS = 30
# A probe's window is too short for the word in any case.
OF_A_PROBE = 5
WRONG = 0.10
COVERED = 0.93
WINDOWS = {"probe": PROBE, "--precise": PRECISE}


def true_rate_of(task: tuple[Shape, int]) -> float:
    return true_rate(task[0].surface, task[1])


def row_of_run(task: tuple[Shape, str, int, float]) -> dict[str, Any]:
    shape, window, seed, truth = task
    return row_of(one_window(shape.surface, seed, WINDOWS[window]), truth)


def of_shape(pool: ProcessPoolExecutor, shape: Shape, *, runs: int, steps: int) -> dict[str, Any]:
    truth = pool.submit(true_rate_of, (shape, steps)).result()
    counts = {"probe": min(runs, OF_A_PROBE), "--precise": runs}
    rows = {
        name: pool.map(row_of_run, [(shape, name, seed, truth) for seed in range(count)])
        for name, count in counts.items()
    }
    return {"plain": shape.plain, "truth": truth, "windows": {name: summary(list(own)) for name, own in rows.items()}}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    steady = [row for row in rows if row["steady"]]
    errors = [row["error"] for row in rows]
    return {
        "runs": len(rows),
        "steps": statistics.median(row["steps"] for row in rows),
        "steady": len(steady),
        "steady_and_covered": sum(row["covered"] for row in steady),
        "steady_and_wrong": sum(abs(row["error"]) > WRONG for row in steady),
        "covered": sum(row["covered"] for row in rows),
        "error": [statistics.median(errors), min(errors), max(errors)],
        "doubts": dict(Counter(name for row in rows for name in row["doubts"]).most_common()),
    }


def markdown(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    windows = [(name, told) for name, one in rows.items() for told in one["windows"].values()]
    steady = sum(told["steady"] for _, told in windows)
    wrong = sum(told["steady_and_wrong"] for _, told in windows)
    shares = [(told["steady_and_covered"] / told["steady"], name) for name, told in windows if told["steady"]]
    worst = min(shares, default=(0.0, "none is called steady"))
    plain = [one["windows"]["--precise"] for one in rows.values() if one["plain"]]
    return [
        "| claim | bar | simulated | |",
        "|---|---|---|---|",
        f"| called steady and wrong by more than 10 % | 0 | {wrong} of {steady} windows | {_verdict(wrong == 0)} |",
        f"| of what is called steady, covered: the worst shape | ≥ 93 % | {worst[0]:.0%} ({worst[1]})"
        f" | {_verdict(worst[0] >= COVERED)} |",
        "| plain trainings called steady by `--precise` | for the record"
        f" | {sum(one['steady'] for one in plain)} of {sum(one['runs'] for one in plain)} | - |",
        "",
        "| shape | window | steps | called steady | of these covered | wrong | all covered | error, % | doubts |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_line(name, window, one["windows"][window]) for name, one in rows.items() for window in WINDOWS),
    ]


def _line(name: str, window: str, told: Mapping[str, Any]) -> str:
    middle, low, high = (100 * error for error in told["error"])
    covered = f"{told['steady_and_covered']} of {told['steady']}" if told["steady"] else "-"
    doubts = ", ".join(f"{kind} {count}" for kind, count in told["doubts"].items())
    return (
        f"| {name} | {window} | {told['steps']:.0f} | {told['steady']} of {told['runs']} | {covered}"
        f" | {told['steady_and_wrong']} | {told['covered']} of {told['runs']}"
        f" | {middle:+.1f} ({low:+.0f} to {high:+.0f}) | {doubts or '-'} |"
    )


def _verdict(passed: bool) -> str:
    return "pass" if passed else "FAIL"


def main() -> int:
    parser = argparse.ArgumentParser(description="What is called steady, against long runs.")
    parser.add_argument("--quick", action="store_true", help="a smoke run: the figures mean nothing")
    parser.add_argument("--only", help="shapes with this in their name")
    options = parser.parse_args()
    runs, steps = (2, 2000) if options.quick else (RUNS, TRUE_STEPS)
    named = [shape for shape in SHAPES if shape.name == options.only]
    shapes = named or [shape for shape in SHAPES if options.only is None or options.only in shape.name]
    told: dict[str, Any] = {"rows": {}} if options.quick else kept_rows(RESULTS)
    found = dict(told["rows"])
    with ProcessPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        for shape in shapes:
            row = found[shape.name] = of_shape(pool, shape, runs=runs, steps=steps)
            print(_line(shape.name, "--precise", row["windows"]["--precise"]), file=sys.stderr, flush=True)
    rows = {shape.name: found[shape.name] for shape in SHAPES if shape.name in found}
    lines = markdown(rows)
    if not options.quick:
        head = f"{date.today()} · {machine()} · {commit()} · `run.py`"
        keep_rows(RESULTS, {"date": str(date.today()), "version": commit(), "rows": rows})
        into_readme(HERE / "README.md", "\n".join([head, "", *lines]), BEGIN, END)
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
