"""The segmentation pipeline stage by stage, and the same work by MONAI: in one run, in turns, on the same threads.

    python benchmarks/pipeline/run.py                  # everything, some ten minutes, with nothing else on the machine
    python benchmarks/pipeline/run.py --only loading   # stages whose name has the word; the others' figures stay
    python benchmarks/pipeline/run.py --table          # measure nothing: the table of what is there
    python benchmarks/pipeline/run.py --quick          # does it work? A minute of tiny sizes, no figures to rely on

It needs MONAI, Pillow and the extra `seg`. Rows go to results/pipeline.json, each with its date and commit; the table
to stdout and into README.md.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

# What all benchmarks share lies beside their folders.
sys.path.append(str(Path(__file__).resolve().parents[1]))
from dated import commit, into_readme, keep_rows, kept_rows, machine

if TYPE_CHECKING:
    from stages import Stage

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULT, README = HERE / "results" / "pipeline.json", HERE / "README.md"
BEGIN, END = "<!-- figures: written by run.py -->", "<!-- end of run.py's figures -->"
# As often as gives a median of a slow stage within a minute, and a fast one's in no time.
ROUNDS, LEAST_ROUNDS, SECONDS_A_STAGE = 25, 5, 60.0
DRAWS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    group: str
    stage: str
    threads: int
    # The least that MONAI's time over ours is to be, by the project's own demand.
    bar: float | None
    ours_ms: list[float]
    # In the same order, each taken right before or after ours; None: MONAI has no such thing.
    theirs_ms: list[float] | None
    date: str
    commit: str


def measured(stage: Stage, threads: int, rounds: int) -> Row:
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    coin = random.Random(0)
    sides: dict[str, Callable[[], object]] = {"ours": stage.ours}
    if stage.theirs is not None:
        sides["theirs"] = stage.theirs
    took: dict[str, list[float]] = {name: [] for name in sides}
    for side in sides.values():
        # Caches, lazy imports, the file's pages.
        side()
    began = time.perf_counter()
    for done in range(rounds):
        if done >= LEAST_ROUNDS and time.perf_counter() - began > SECONDS_A_STAGE:
            break
        # In random order: what the machine does besides is then nobody's.
        for name in coin.sample(list(sides), len(sides)):
            start = time.perf_counter()
            sides[name]()
            took[name].append(round(1000 * (time.perf_counter() - start), 4))
    return Row(
        group=stage.group,
        stage=stage.name,
        threads=threads,
        bar=stage.bar,
        ours_ms=took["ours"],
        theirs_ms=took.get("theirs"),
        date=date.today().isoformat(),
        commit=commit(),
    )


def ratio_of(row: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """How many times our time MONAI takes: the median of the rounds' ratios and its 95 % interval, by bootstrap."""
    if not row.get("theirs_ms"):
        return None
    ratios = np.array(row["theirs_ms"]) / np.array(row["ours_ms"])
    draws = np.random.default_rng(0).choice(ratios, (DRAWS, len(ratios)))
    low, high = np.percentile(np.median(draws, axis=1), (2.5, 97.5))
    return float(np.median(ratios)), float(low), float(high)


def passed(row: Mapping[str, Any]) -> bool | None:
    """Whether even the interval's lower end is above the bar; None where there is none."""
    ratio = ratio_of(row)
    return None if row["bar"] is None or ratio is None else ratio[1] >= row["bar"]


def table(told: Mapping[str, Any]) -> str:
    rows: list[dict[str, Any]] = list(told["rows"].values())
    if not rows:
        return "Nothing was measured yet."
    dates = sorted({f"{row['date']} (version {row['commit']})" for row in rows})
    lines = [f"{', '.join(dates)} · {told['machine']} · {told['peer']}", ""]
    lines += ["| stage | threads | here, ms | MONAI, ms | MONAI takes (95 %) | |", "|---|---|---|---|---|---|"]
    for row in rows:
        ratio, verdict = ratio_of(row), {None: "", True: "pass", False: "**fail**"}[passed(row)]
        words = "-" if ratio is None else f"{_short(ratio[0])} × ({_short(ratio[1])} to {_short(ratio[2])})"
        if row["bar"] is not None:
            verdict += f" (bar: {row['bar']:g} ×)"
        cells = [f"{row['group']}: {row['stage']}", row["threads"], _spread(row["ours_ms"]), _spread(row["theirs_ms"])]
        lines.append(f"| {' | '.join(map(str, [*cells, words, verdict]))} |")
    return "\n".join(lines)


def _spread(times: list[float] | None) -> str:
    """Median, and the quartiles around it."""
    if not times:
        return "-"
    low, middle, high = np.percentile(times, (25, 50, 75))
    return f"{_short(middle)} ({_short(low)}–{_short(high)})"


def _short(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", metavar="WORDS", help="stages whose name has them; repeatable")
    parser.add_argument("--quick", action="store_true", help="tiny sizes and two rounds; nothing is written")
    parser.add_argument("--table", action="store_true", help="measure nothing: the table of what is there")
    parser.add_argument("--out", type=Path, help="for the figures (default: results/, with the table in README.md)")
    options = parser.parse_args()
    out: Path = options.out or RESULT
    told: dict[str, Any] = {"rows": {}} if options.quick else kept_rows(out)
    if not options.table:
        told["machine"], told["peer"] = machine(), peers()
        for key, row in rows_of(options.only, quick=options.quick):
            ratio = ratio_of(asdict(row))
            sys.stderr.write(f"{key}: {_spread(row.ours_ms)} ms" + (f", {ratio[0]:.2f} ×\n" if ratio else "\n"))
            told["rows"][key] = asdict(row)
            if not options.quick:
                keep_rows(out, told)
    text = table(told)
    sys.stdout.write(text + "\n")
    if options.out is None and not options.quick:
        into_readme(README, text, BEGIN, END)
    return 1 if not options.quick and any(passed(row) is False for row in told["rows"].values()) else 0


def rows_of(only: list[str] | None, *, quick: bool) -> Iterator[tuple[str, Row]]:
    # Not before it is known that MONAI is there, nor for a table.
    from stages import FULL, QUICK, stages

    sizes, rounds = (QUICK, 2) if quick else (FULL, ROUNDS)
    with tempfile.TemporaryDirectory(prefix="vtune-pipeline-") as scratch:
        for stage in stages(sizes, Path(scratch)):
            name = f"{stage.group}: {stage.name}"
            if only and not any(words in name for words in only):
                continue
            for threads in stage.threads:
                yield f"{name}, {threads}", measured(stage, threads, rounds)


def peers() -> str:
    try:
        return f"MONAI {version('monai')}"
    except PackageNotFoundError as error:
        raise SystemExit("error: this needs MONAI: pip install monai pillow 'vtune[seg]'") from error


if __name__ == "__main__":
    sys.exit(main())
