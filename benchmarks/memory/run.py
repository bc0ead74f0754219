"""Memory that is going to happen: a short trial's projection against the same training, run ten times as long.

    python benchmarks/memory/run.py                    # every case: about eight minutes, two cases side by side
    python benchmarks/memory/run.py --only leak        # those whose name has the word; the others' figures stay
    python benchmarks/memory/run.py --table            # measure nothing: the table of what is there

Each case is one `vtune probe` of growing.py and one plain run of it, whose tree is read from outside, over and
over. Rows go to results/memory.json, each with its date and commit; the table to stdout and into ../README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

# What all benchmarks share lies beside their folders.
sys.path.append(str(Path(__file__).resolve().parents[1]))
from dated import commit, into_readme, keep_rows, kept_rows, machine

HERE = Path(__file__).resolve().parent
SCRIPT = HERE / "growing.py"
RESULT, README = HERE / "results" / "memory.json", HERE.parent / "README.md"
BEGIN, END = "<!-- figures: written by memory/run.py -->", "<!-- end of memory's figures -->"
MIB = 2**20
STEPS, TEN_TIMES = 60, 750
# Of what the run comes to, by the project's own demand.
BAR = 0.15
# Planned so long, the least growth that is not there would come to terabytes.
ENDLESS = "epochs: 100, iterations_per_epoch: 10000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    flags: tuple[str, ...]
    # As `ram_growth` is to name it: kind and who.
    growth: tuple[tuple[str, str], ...]


def _leak(who: str, *flags: object) -> Case:
    return Case(flags=("--items", "20000", *map(str, flags)), growth=(("leak", who),))


def _copies(*flags: object) -> Case:
    return Case(flags=tuple(map(str, flags)), growth=(("copy_on_write", "workers"),))


def _nothing(*flags: object) -> Case:
    return Case(flags=("--items", "20000", *map(str, flags)), growth=())


CASES = {
    "leak in the training, 0.5 MiB a step": _leak("main", "--leak-in-main", MIB // 2),
    "leak in the training, 4 MiB a step": _leak("main", "--leak-in-main", 4 * MIB),
    "leak in the training, 10 MiB at every tenth step": _leak("main", "--leak-in-main", MIB, "--every", 10),
    "leak in two workers, 0.5 MiB a step": _leak("workers", "--leak-in-workers", MIB // 32),
    "leak in two workers, 1 MiB a step": _leak("workers", "--leak-in-workers", MIB // 16),
    "leak in two persistent workers, 2.7 MiB a step": _leak("workers", "--leak-in-workers", MIB // 6, "--persistent"),
    # Few items: of more, six workers would copy some on write as well.
    "leak in six persistent workers, 1 MiB a step of 5 ms": Case(
        flags=(
            *("--items", "4000", "--leak-in-workers", str(MIB), "--persistent"),
            *("--workers", "6", "--batch-size", "1", "--step-s", "0.004", "--load-s", "0.012"),
        ),
        growth=(("leak", "workers"),),
    ),
    "copies of 300 000 dicts, two workers, 64 a batch": _copies("--items", 300_000, "--batch-size", 64),
    "copies of 500 000 dicts, four workers, 64 a batch": _copies(
        "--items", 500_000, "--batch-size", 64, "--workers", 4, "--step-s", 0.05
    ),
    "copies of 400 000 dicts, three workers, 16 a batch": _copies("--items", 400_000, "--workers", 3),
    "copies of 150 000 dicts, two workers, 128 a batch": _copies("--items", 150_000, "--batch-size", 128),
    "copies of 150 000 dicts, four persistent workers, 128 a batch": _copies(
        "--items", 150_000, "--batch-size", 128, "--workers", 4, "--persistent"
    ),
    "leaks of both kinds and copies at once": Case(
        flags=(
            *("--items", "300000", "--batch-size", "32"),
            *("--leak-in-main", str(MIB), "--leak-in-workers", str(MIB // 64)),
        ),
        growth=(("leak", "main"), ("leak", "workers"), ("copy_on_write", "workers")),
    ),
    "nothing grows": _nothing(),
    "nothing grows, 64 MiB come and go in each step": _nothing("--sawtooth", 64 * MIB),
    "nothing grows, three persistent workers": _nothing("--persistent", "--workers", 3),
    "nothing grows, no workers": _nothing("--workers", 0),
}  # fmt: skip


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}


def probed(flags: tuple[str, ...], folder: Path, *options: str, run: str | None = None) -> dict[str, Any]:
    """`run`: the planned run; without it, the long run is."""
    planned = run or f"epochs: 1, iterations_per_epoch: {TEN_TIMES}"
    command = " ".join([sys.executable, str(SCRIPT), *flags, "--steps", "100000"])
    experiment = folder / "experiment.yaml"
    experiment.write_text(f"vtune:\n  command: {command}\n  run: {{{planned}}}\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "vtune", "probe", "--config", experiment, "--results", folder / "results",
         "--steps", str(STEPS), "--json", *options],
        cwd=folder, env=environment(), capture_output=True, text=True, timeout=280, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    told = json.loads(done.stdout) if done.stdout else {}
    trial: dict[str, Any] | None = told.get("trial")
    # A code of its own says that the run would pass a limit: the trial itself has ended well all the same.
    if trial is None or trial["status"] != "completed":
        raise RuntimeError(f"the probe ended with {done.returncode}: {done.stderr[-400:]}")
    return trial


def peak_of_a_long_run(flags: tuple[str, ...]) -> int:
    """Of the whole tree, each page once."""
    command = [sys.executable, str(SCRIPT), *flags, "--steps", str(TEN_TIMES)]
    peak = 0
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, env=environment()) as training:
        try:
            while training.poll() is None:
                peak = max(peak, used(training.pid))
                # The last look is that of the run's end but for so long, and steps may take milliseconds.
                time.sleep(0.05)
        finally:
            # Its workers see that their parent is gone, and end.
            training.kill()
    if training.returncode != 0:
        raise RuntimeError(f"the long run ended with {training.returncode}")
    return peak


def used(pid: int) -> int:
    total = 0
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith(("Pss_Anon", "Pss_Shmem")):
                total += int(line.split()[1]) * 1024
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            total += used(int(child))
    return total


def measured(name: str) -> dict[str, Any]:
    case = CASES[name]
    with tempfile.TemporaryDirectory(prefix="vtune-memory-") as scratch:
        trial = probed(case.flags, Path(scratch), run=None if case.growth else ENDLESS)
    return {
        "projected": trial["ram_projected_bytes"],
        "interval": trial["ram_projected_ci95"],
        "true": peak_of_a_long_run(case.flags),
        "growth": [[one["kind"], one["who"]] for one in trial["ram_growth"]],
        "named_as_it_is": sorted((one["kind"], one["who"]) for one in trial["ram_growth"]) == sorted(case.growth),
        "date": date.today().isoformat(),
        "commit": commit(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", metavar="WORDS", help="cases whose name has them; repeatable")
    parser.add_argument("--side-by-side", type=int, default=2, metavar="N", help="cases at a time (default: 2)")
    parser.add_argument("--table", action="store_true", help="measure nothing: the table of what is there")
    parser.add_argument("--out", type=Path, help="for the figures (default: results/, with the table in README.md)")
    options = parser.parse_args()
    out: Path = options.out or RESULT
    told: dict[str, Any] = kept_rows(out)
    chosen = [name for name in CASES if not options.only or any(words in name for words in options.only)]
    failed = False
    if not options.table:
        with ThreadPoolExecutor(options.side_by_side) as side_by_side:
            for name, row in zip(chosen, side_by_side.map(_row, chosen), strict=True):
                sys.stderr.write(f"{name}: {json.dumps(row)}\n")
                failed = failed or "error" in row
                told["machine"], told["side_by_side"] = machine(), options.side_by_side
                told["rows"] = {case: row if case == name else told["rows"].get(case) for case in CASES}
                keep_rows(out, told)
    text = table(told)
    sys.stdout.write(text + "\n")
    if options.out is None:
        into_readme(README, text, BEGIN, END)
    return 1 if failed or not all(passed(row) for row in told["rows"].values() if row) else 0


def _row(name: str) -> dict[str, Any]:
    try:
        return measured(name)
    except Exception as error:
        # One case's failure must not lose the others' figures.
        return {"error": f"{type(error).__name__}: {error}"[:400], "date": date.today().isoformat(), "commit": commit()}


def error_of(row: Mapping[str, Any]) -> float | None:
    if row.get("projected") is None or not row.get("true"):
        return None
    return float(row["projected"] / row["true"] - 1)


def passed(row: Mapping[str, Any]) -> bool:
    error = error_of(row)
    return error is not None and abs(error) <= BAR and bool(row["named_as_it_is"])


def table(told: Mapping[str, Any]) -> str:
    rows = {name: row for name, row in told["rows"].items() if row}
    if not rows:
        return "Nothing was measured yet."
    dates = sorted({f"{row['date']} (version {row['commit']})" for row in rows.values()})
    lines = [
        f"{', '.join(dates)} · {told['machine']} · {told['side_by_side']} cases side by side",
        "",
        f"| training | projected from {STEPS} steps, MiB | 95 % | true after {TEN_TIMES} | error | covers | |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        error = error_of(row)
        if error is None:
            lines.append(f"| {name} | - | - | - | {row.get('error', 'not projected')} | - | **fail** |")
            continue
        verdict = "pass" if passed(row) else "**fail**"
        if not row["named_as_it_is"]:
            verdict += f" (found: {', '.join(' '.join(one) for one in row['growth']) or 'nothing'})"
        low, high = (f"{end / MIB:.0f}" for end in row["interval"] or (math.nan, math.nan))
        figures = f"{row['projected'] / MIB:.0f} | {low} to {high} | {row['true'] / MIB:.0f} | {error * 100:+.1f} %"
        lines.append(f"| {name} | {figures} | {'yes' if covers(row) else 'no'} | {verdict} |")
    judged = [row for row in rows.values() if error_of(row) is not None]
    share = f"{sum(map(covers, judged))} of {len(judged)}"
    lines += [
        "",
        f"The interval covers in {share}: for the record, there is no bar. What grows too little for {STEPS} steps to"
        " show is in its upper end.",
    ]
    return "\n".join(lines)


def covers(row: Mapping[str, Any]) -> bool:
    return bool(row["interval"]) and row["interval"][0] <= row["true"] <= row["interval"][1]


if __name__ == "__main__":
    sys.exit(main())
