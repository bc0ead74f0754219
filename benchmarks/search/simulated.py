"""How soon a search finds what is best: simulated trainings with noise, against the best of all settings that fit.

    python benchmarks/search/simulated.py                          # all of it; about an hour on two cores
    python benchmarks/search/simulated.py --only scrolls           # one training, as modelled and misspecified
    python benchmarks/search/simulated.py --strategies auto tpe    # some of those who search
    python benchmarks/search/simulated.py --seeds 5 --plain        # fewer runs; without the misspecified trainings
    python benchmarks/search/simulated.py --quick --out /tmp/x     # does it work? The figures mean nothing
    python benchmarks/search/simulated.py --table                  # measure nothing: the table of what is there

Truths and trials are kept for as long as the simulation and the reading of a trial stay as they are, and serve all
searches; runs of a search for as long as its own code does: what has changed alone is run again.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import date
from pathlib import Path
from typing import Any

# What all benchmarks share lies beside their folders.
sys.path.append(str(Path(__file__).resolve().parents[1]))
from dated import commit, into_readme, keep_rows, kept_rows, machine
from search.bank import Bank
from search.cache import Lines, code_hash, default_folder, own_code
from search.curve import tried
from search.searchers import NAMES, code_of
from search.table import by_minutes, by_training, by_trials, figures, middle, pool
from search.trainings import trainings
from search.true import Truths

HERE = Path(__file__).resolve().parent
BEGIN, END = "<!-- figures: written by search/simulated.py -->", "<!-- end of the simulated figures -->"
SEEDS = 20
# Half a minute a run, of a core: its 20 would take as long as all the others' together.
FEWER = {"gp": 4}
# What tells after each trial which settings are best, and whether the model had foreseen an end.
JUDGED_BY = ("vtune.analysis.choose", "vtune.analysis.fit", "vtune.strategies.foresight")


def main() -> int:
    options = _options()
    out: Path = options.out or HERE / "results"
    told = kept_rows(out / "simulated.json")
    if not options.table:
        cells = [
            (one.surface.name, wrong)
            for wrong in ((False,) if options.plain else (False, True))
            for one in trainings(is_misspecified=wrong)
            if options.only is None or one.surface.name in options.only
        ]
        folder = options.cache or default_folder()
        asked = (options.strategies, options.seeds, folder, options.quick, options.again)
        with ProcessPoolExecutor(options.processes) as pool:
            waiting = [pool.submit(cell, *one, *asked) for one in cells]
            for future in as_completed(waiting):
                name, rows = future.result()
                told["rows"][name] = {**told["rows"].get(name, {}), **rows}
                told.update(machine=machine())
                keep_rows(out / "simulated.json", told)
    text = table_of(told)
    sys.stdout.write(text + "\n")
    if options.out is None and not options.quick:
        into_readme(HERE / "README.md", text, BEGIN, END)
    return 0


def _options() -> argparse.Namespace:
    surfaces = [one.surface.name for one in trainings(is_misspecified=False)]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--only", nargs="+", choices=surfaces, metavar="TRAINING", help=", ".join(surfaces))
    parser.add_argument("--strategies", nargs="+", choices=NAMES, default=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--plain", action="store_true", help="without the misspecified trainings")
    parser.add_argument("--quick", action="store_true", help="a smoke run: the figures mean nothing")
    parser.add_argument("--again", action="store_true", help="run anew what was run with this very code")
    parser.add_argument("--table", action="store_true", help="measure nothing: the table of what is there")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, help="where the figures go (default: results/ beside this file)")
    parser.add_argument("--cache", type=Path, help=f"where truths and trials are kept (default: {default_folder()})")
    return parser.parse_args()


def cell(
    surface: str, wrong: bool, names: Sequence[str], seeds: int, folder: Path, quick: bool, again: bool
) -> tuple[str, dict[str, Any]]:
    """One training, all searches of it; what each run came to is kept at once."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    training = next(one for one in trainings(is_misspecified=wrong) if one.surface.name == surface)
    begun = time.monotonic()
    truths = Truths(training, folder, quick=quick)
    bank = Bank(training, folder)
    kept = Lines(folder / "runs" / f"{training.name}-{bank.code}-{truths.code}.jsonl")
    best, own = truths.best(), truths.regret({})
    say(f"{training.name}: {len(training.every)} settings, the best is {1 / (1 - own):.2f} times the user's own")
    rows = {}
    for name in names:
        runs, code = [], code_hash((*JUDGED_BY, *code_of(name)), own_code("curve", "searchers"))
        for seed in range(min(seeds, FEWER.get(name, seeds))):
            key = f"{name} {seed} {code}"
            if again or key not in kept:
                kept.put(key, {"rows": tried(name, training, seed, bank, truths)})
            runs.append(kept.get(key)["rows"])
        rows[name] = {**figures(runs, [own] * len(runs)), "own": own, "best": best, "version": commit()}
        rows[name].update(date=date.today().isoformat(), quick=quick)
        say(f"{training.name}: {name}: {_words(rows[name])} ({time.monotonic() - begun:.0f} s)")
    return training.name, rows


def table_of(told: dict[str, Any]) -> str:
    rows: dict[str, dict[str, Any]] = told["rows"]
    if not rows:
        return "Nothing was measured yet."
    names = [name for name in NAMES if any(name in row for row in rows.values())]
    every = [one for row in rows.values() for one in row.values()]
    dates, versions = sorted({one["date"] for one in every}), sorted({one["version"] for one in every})
    lines = [
        f"{' to '.join(dict.fromkeys((dates[0], dates[-1])))} (version {', '.join(versions)}) · {told['machine']}"
        " · `python benchmarks/search/simulated.py`"
    ]
    if any(one["quick"] for one in every):
        lines[0] += " · **a quick run: no figures to rely on**"
    for words, wrong in (("As modelled", False), ("Misspecified", True)):
        own = {name: row for name, row in rows.items() if name.endswith("(misspecified)") is wrong}
        if not own:
            continue
        pooled = {name: pool([row[name] for row in own.values() if name in row]) for name in names}
        shown = {name: one for name, one in pooled.items() if one is not None}
        runs = ", ".join(f"{name} {one['runs']}" for name, one in shown.items())
        lines += ["", f"### {words}: {len(own)} trainings", "", *by_trials(shown), "", *by_minutes(shown)]
        lines += ["", f"Runs: {runs}.", "", *by_training(own, list(shown))]
    return "\n".join(lines)


def _words(one: dict[str, Any]) -> str:
    near = one["within 5% by trials"]
    return (
        f"within 5 % {near['5']:.0%} {near['10']:.0%} {near['20']:.0%} after 5, 10, 20 of {one['trials']:.1f} trials,"
        f" 2 % after {middle(one['trials to 2%'])}, over {one['over']:.2f} (foreseeable {one['foreseen']:.2f}),"
        f" false alarms {one['false_alarm']:.2f}"
    )


def say(words: str) -> None:
    sys.stderr.write(f"[search] {words}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
