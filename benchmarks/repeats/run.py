"""Which loader bugs does vtune see, and does it take any of them for a gain? Each case from 0 to 2 workers, and with 2
workers as the user's own.

    python benchmarks/repeats/run.py [--only CASE]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent), str(ROOT)]

from cases import CASES, SHAPES, Case, Shape  # noqa: E402

from dated import commit, into_readme, keep_rows, kept_rows, machine  # noqa: E402

RESULTS = HERE / "results" / "repeats.json"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"
BATCHES = ROOT / "tests" / "integration" / "probe" / "scripts" / "batches.py"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", action="append", metavar="CASE", help="repeatable")
    asked = parser.parse_args()
    for case in (*CASES, *SHAPES):
        if asked.only and case.name not in asked.only:
            continue
        row = of_case(case) if isinstance(case, Case) else of_shape(case)
        told = kept_rows(RESULTS)
        told["rows"][case.name] = row
        told["when"] = f"{date.today()} (version {commit()}) · {machine()}"
        keep_rows(RESULTS, told)
        print(f"{'right' if row['right'] else 'WRONG'}  {case.name}  {json.dumps(row)}", flush=True)
    told = kept_rows(RESULTS)
    into_readme(HERE / "README.md", table(told), BEGIN, END)
    if not all(row["right"] for row in told["rows"].values()):
        raise SystemExit(1)


def of_case(case: Case) -> dict[str, Any]:
    if case.name == "webdataset" and not _has("webdataset"):
        return {"right": True, "skipped": "webdataset is not installed"}
    with tempfile.TemporaryDirectory() as folder:
        results, command = Path(folder), (sys.executable, str(HERE / "training.py"), case.name)
        none = probe(results, "turned", (), (*command, "--workers", "0"))
        more = probe(results, "turned", ("--set", "workers=2"), (*command, "--workers", "0"))
        own = probe(results, "own", (), (*command, "--workers", "2"))
    found, present = more.get("repeated") or {}, own.get("repeated") or {}
    gain = _gain(none, more)
    false_gain = case.reason is not None and more["status"] == "completed"
    right = (
        none["status"] == own["status"] == "completed"
        and none.get("repeated") is None
        and more["status"] == ("completed" if case.reason is None else "invalid")
        and found.get("reason") == case.reason
        and present.get("reason") == case.own_reason
        and (case.line is None or case.line in line_of(found.get("where")))
        and (own["detail"] is not None) == (case.own_reason not in (None, "not_shown"))
    )
    return {
        "right": right,
        "status": more["status"],
        "reason": found.get("reason"),
        "where": _near(found.get("where")),
        "own_reason": present.get("reason"),
        "gain": gain,
        "false_gain": false_gain,
    }


def of_shape(shape: Shape) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        command = (sys.executable, str(BATCHES), shape.name, "--batch-size", "8")
        clock = {"OWN_CLOCK": str(Path(folder) / "clock")}
        own = probe(Path(folder), "shape", (), command, clock)
        larger = probe(Path(folder), "shape", ("--set", "batch_size=16"), command, clock)
    seen = own["effective_batch"], larger["effective_batch"], larger["status"]
    return {
        "right": seen == (shape.batch, shape.larger, shape.status),
        "batch": seen[0],
        "larger": seen[1],
        "status": seen[2],
        "false_gain": shape.status == "invalid" and larger["status"] == "completed",
    }


def probe(
    results: Path, study: str, options: tuple[str, ...], command: tuple[str, ...], env: dict[str, str] | None = None
) -> dict[str, Any]:
    said = subprocess.run(
        [sys.executable, "-m", "vtune", "probe", "--json", "--study", study, "--steps", "40", "--results", str(results),
         *options, "--", *command],
        cwd=results, env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    told: dict[str, Any] = json.loads(said.stdout)
    if "trial" not in told:
        raise SystemExit(f"error: {' '.join(command)} gave no trial: {said.stdout}{said.stderr}")
    record: dict[str, Any] = told["trial"]
    return record


def line_of(where: str | None) -> str:
    if where is None:
        return ""
    file, _, number = where.rpartition(":")
    return Path(file).read_text(encoding="utf-8").splitlines()[int(number) - 1]


def table(told: dict[str, Any]) -> str:
    rows = told["rows"]
    cases = [case for case in CASES if case.name in rows]
    shapes = [shape for shape in SHAPES if shape.name in rows]
    right = sum(rows[case.name]["right"] for case in (*cases, *shapes))
    false = sum(bool(rows[case.name].get("false_gain")) for case in (*cases, *shapes))
    lines = [
        f"{told['when']} · `python benchmarks/repeats/run.py`",
        "",
        f"{right} of {len(cases) + len(shapes)} verdicts right, {false} false gains.",
        "",
        "| data set | repeats | said of 2 workers | line | with 2 as the user's own | rate with 2 | right |",
        "|---|---|---|---|---|---:|---|",
    ]
    for case in cases:
        row = rows[case.name]
        if "skipped" in row:
            lines.append(f"| {case.what} | no | {row['skipped']} | | | | |")
            continue
        said = row["status"] + (f": {row['reason']}" if row["reason"] else "")
        lines.append(
            f"| {case.what} | {'yes' if case.reason else 'no'} | {said} | {row['where'] or ''} |"
            f" {row['own_reason'] or 'nothing'} | {row['gain'] or ''} | {'yes' if row['right'] else '**no**'} |"
        )
    lines += [
        "",
        "| batches | effective batch with 8, 16 | status with 16 | right |",
        "|---|---|---|---|",
    ]
    for shape in shapes:
        row = rows[shape.name]
        sizes = ", ".join("none" if size is None else str(size) for size in (row["batch"], row["larger"]))
        lines.append(f"| {shape.what} | {sizes} | {row['status']} | {'yes' if row['right'] else '**no**'} |")
    return "\n".join(lines)


def _gain(none: dict[str, Any], more: dict[str, Any]) -> str | None:
    before, after = none.get("samples_per_s"), more.get("samples_per_s")
    return f"{after / before:.2f}×" if before and after else None


def _near(where: str | None) -> str | None:
    return None if where is None else Path(where).name


def _has(package: str) -> bool:
    found = subprocess.run([sys.executable, "-c", f"import {package}"], capture_output=True)
    return found.returncode == 0


if __name__ == "__main__":
    main()
