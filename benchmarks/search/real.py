"""What a search finds in real trials, and how soon: held against every setting of a grid, and against Optuna's TPE.

    python benchmarks/search/real.py                        # three quarters of an hour, nothing else on the machine
    python benchmarks/search/real.py --only quickstart      # one training; the others' figures stay as they are
    python benchmarks/search/real.py --quick --out /tmp/x   # does it work? The figures mean nothing
    python benchmarks/search/real.py --table                # measure nothing: the table of what is there

Each searches the same space by `vtune search`, in a folder of its own: the whole grid, TPE, and auto with its
confirmations. What each chose is then launched for longer, in turns. What was measured is kept: an interrupted run goes
on where it was, --again measures anew.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

# What all benchmarks share lies beside their folders; the traps' trainings are played as their own benchmark does.
sys.path.append(str(Path(__file__).resolve().parents[1]))
sys.path.append(str(Path(__file__).resolve().parents[1] / "traps"))
from children import adopt_orphans

from dated import commit, into_readme, keep_rows, kept_rows, machine
from search.bargain import BEGIN_OF_REAL, END_OF_REAL, table_of
from search.benches import BENCHES, Bench

HERE = Path(__file__).resolve().parent
# Each: as asked of `vtune search`, and whether its answer is confirmed by further launches.
SEARCHES: Mapping[str, tuple[str, ...]] = {
    "grid": ("--sampler", "grid", "--no-confirm"),
    "tpe": ("--sampler", "tpe", "--no-confirm"),
    "auto": ("--sampler", "auto"),
}
TRIALS, QUICK_TRIALS = 20, 2
ROUNDS, QUICK_ROUNDS = 4, 1


def main() -> int:
    options = _options()
    out: Path = options.out or HERE / "results"
    adopt_orphans()
    told = kept_rows(out / "real.json")
    failed = False
    if not options.table:
        for bench in BENCHES:
            if options.only is None or bench.name in options.only:
                row = told["rows"].get(bench.name, {})
                if options.again or row.get("fingerprint") != bench.fingerprint or row.get("quick") != options.quick:
                    row = {"fingerprint": bench.fingerprint, "quick": options.quick, "searches": {}, "rounds": []}
                told["rows"][bench.name] = row
                told.update(machine=machine())
                measure(bench, row, lambda: keep_rows(out / "real.json", told))
                failed |= any("failed" in one for one in row["searches"].values())
    text = table_of(told)
    sys.stdout.write(text + "\n")
    if options.out is None and not options.quick:
        into_readme(HERE / "README.md", text, BEGIN_OF_REAL, END_OF_REAL)
    return int(failed)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    names = [bench.name for bench in BENCHES]
    parser.add_argument("--only", nargs="+", choices=names, metavar="TRAINING", help=", ".join(names))
    parser.add_argument("--quick", action="store_true", help="a smoke run: the figures mean nothing")
    parser.add_argument("--again", action="store_true", help="measure anew what is there already")
    parser.add_argument("--table", action="store_true", help="measure nothing: the table of what is there")
    parser.add_argument("--out", type=Path, help="where the figures go (default: results/ beside this file)")
    return parser.parse_args()


def measure(bench: Bench, row: dict[str, Any], keep: Any) -> None:
    quick = row["quick"]
    with tempfile.TemporaryDirectory(prefix="vtune-search-", ignore_cleanup_errors=True) as scratch:
        place = Path(scratch)
        for name, words in SEARCHES.items():
            if "choice" not in row["searches"].get(name, {}):
                row["rounds"] = []
                trials = QUICK_TRIALS if quick else bench.size if name == "grid" else TRIALS
                row["searches"][name] = _searched(bench, name, (*words, "--trials", str(trials)), place, quick=quick)
                keep()
                say(bench, f"{name}: {row['searches'][name]}")
        row.update(date=date.today().isoformat(), version=commit())
        keep()
        chosen = [one["choice"] for one in row["searches"].values() if "choice" in one]
        if len(chosen) < len(SEARCHES):
            return  # whoever asks again asks those that failed
        contestants = {bench.key(settings): settings for settings in (bench.own, *chosen)}
        for number in range(len(row["rounds"]), QUICK_ROUNDS if quick else ROUNDS):
            # Each begins a round in its turn: no drift is to anybody's good.
            keys = list(contestants)
            keys = keys[number % len(keys) :] + keys[: number % len(keys)]
            rates = {key: bench.rate(contestants[key], place, quick) for key in keys}
            row["rounds"].append(rates)
            keep()
            say(bench, f"round {number + 1}: {rates}")


def _searched(bench: Bench, name: str, words: tuple[str, ...], place: Path, *, quick: bool) -> dict[str, Any]:
    begun = time.monotonic()
    answer = bench.search(name, words, place, quick)
    row = {"words": " ".join(words), "seconds": time.monotonic() - begun}
    if "failed" in answer:
        return {**row, "failed": answer["failed"]}
    return {**row, "choice": answer["choice"], "key": bench.key(answer["choice"]), "trials": answer["trials"]}


def say(bench: Bench, words: str) -> None:
    sys.stderr.write(f"[{bench.name}] {words}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
