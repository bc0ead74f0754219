"""Is what a short trial says true? Everything after one another, alone on the machine, into a dated table.

    python benchmarks/truth/run.py                 # all of it: about an hour
    python benchmarks/truth/run.py --only cells    # one part; the others' figures stay as they are
    python benchmarks/truth/run.py --quick --out /tmp/smoke

A part that fails says so and the next one runs; Ctrl-C keeps what is there. Figures go to results/*.json, the table to
stdout and, without --quick, between the two markers of README.md.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import sys
import time
import traceback
from datetime import date
from pathlib import Path
from typing import Any

from launches import DISTURBED_CORES, HERE, ROOT, Bench, scratch_folder
from table import Claim, claims_table

# What all benchmarks share lies beside their folders.
sys.path.append(str(Path(__file__).resolve().parents[1]))
from dated import into_readme, machine

# In the order in which they run; each is a module beside this one, with measure(bench), claims(data) and lines(data).
PARTS = {
    "cells": "A short trial against runs of 2000 steps",
    "predict": "One probe predicts other settings",
    "aa": "The same thing twice",
    "epoch": "A whole epoch from one trial",
    "host": "`host` told from `data`",
    "compare": "`vtune compare`",
    "simulated": "Simulated loaders",
}
# A command of its own as well, so the part only calls it.
MODULES = {"simulated": "from_simulation"}
BEGIN, END = "<!-- figures: written by run.py -->", "<!-- end of the figures -->"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", action="append", choices=list(PARTS), help="one part; repeatable")
    parser.add_argument("--quick", action="store_true", help="a smoke run: the figures mean nothing")
    parser.add_argument("--table", action="store_true", help="measure nothing: the table of what is there")
    parser.add_argument("--out", type=Path, help="where the figures go (default: results/ beside this file)")
    options = parser.parse_args()
    out: Path = options.out or (HERE / "results" if not options.quick else Path("truth-quick"))
    out.mkdir(parents=True, exist_ok=True)
    # An ending that is asked for otherwise than by Ctrl-C cleans up as well.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chosen = [name for name in PARTS if (not options.only or name in options.only) and not options.table]
    failed: list[str] = []
    interrupted = False
    for name in chosen:
        try:
            if not run_part(name, out, quick=options.quick):
                failed.append(name)
        except KeyboardInterrupt:
            tell(name, "interrupted; what was measured is kept")
            interrupted = True
            break
    text, passed = written(out)
    sys.stdout.write(text + "\n")
    if options.out is None and not options.quick:
        into_readme(HERE / "README.md", text, BEGIN, END)
    if interrupted:
        return 130
    # Of a quick run no figure is judged.
    return 1 if failed or not (passed or options.quick) else 0


def run_part(name: str, out: Path, *, quick: bool) -> bool:
    """Its figures are on disk after each row, whatever becomes of the next."""
    begun = time.monotonic()
    head: dict[str, Any] = {"date": date.today().isoformat(), "machine": machine(), "quick": quick}

    def keep(data: Any, *, complete: bool = False, error: str | None = None) -> None:
        seconds = round(time.monotonic() - begun)
        text = dumped({**head, "seconds": seconds, "complete": complete, "error": error, "data": data})
        beside = out / f"{name}.json.new"
        beside.write_text(text + "\n", encoding="utf-8")
        os.replace(beside, out / f"{name}.json")

    so_far: list[Any] = [None]

    def keep_so_far(data: Any) -> None:
        so_far[0] = data
        keep(data)

    with scratch_folder() as scratch:
        bench = Bench(scratch, quick=quick, tell=lambda words: tell(name, words), keep=keep_so_far)
        head["others_cores"] = bench.others_cores
        try:
            keep(part(name).measure(bench), complete=True)
        except Exception as error:
            # One part's failure must not lose the others' figures; where it happened is for people, on stderr.
            traceback.print_exc()
            keep(so_far[0], error=f"{type(error).__name__}: {error}"[:400])
            return False
    tell(name, f"done in {(time.monotonic() - begun) / 60:.1f} min")
    return True


def part(name: str) -> Any:
    return importlib.import_module(MODULES.get(name, name))


def tell(name: str, words: str) -> None:
    sys.stderr.write(f"[{name}] {words}\n")
    sys.stderr.flush()


def written(out: Path) -> tuple[str, bool]:
    """The whole section, from the figures on disk; and whether every bar that was judged is passed."""
    sections: list[str] = []
    claims: list[Claim] = []
    for name, title in PARTS.items():
        told = read(out / f"{name}.json")
        if told is None:
            continue
        sections += ["", f"### {title}", "", _dated(told, name), ""]
        if told["data"] is not None:
            try:
                own = part(name).claims(told["data"])
                claims += own
                sections += part(name).lines(told["data"])
                failures = told["data"].get("failures") or []
                sections += ["", *(f"- no figure: {one}" for one in failures)] if failures else []
                if failures:
                    # A table that leaves out what failed would flatter.
                    claims.append(Claim(title, "each launch gives a figure", f"{len(failures)} did not", False))
            except Exception as error:
                sections.append(f"These figures could not be put into words: {type(error).__name__}: {error}.")
                claims.append(Claim(title, "-", "not readable", False))
        if told["error"] or not told["complete"]:
            claims.append(Claim(title, "runs to its end", told["error"] or "ended before its end", False))
    head = claims_table(claims) if claims else ["Nothing was measured yet."]
    return "\n".join([*head, *sections]), all(claim.passed is not False for claim in claims)


def _dated(told: dict[str, Any], name: str) -> str:
    words = f"{told['date']} · {told['machine']} · {told['seconds'] / 60:.0f} min · `run.py --only {name}`"
    others = told.get("others_cores") or []
    busy = sum(cores > DISTURBED_CORES for cores in others)
    if busy:
        words += f" · {busy} of {len(others)} launches beside neighbours that kept up to {max(others):.1f} cores busy"
    return words + (" · **a quick run: no figures to rely on**" if told["quick"] else "")


def read(path: Path) -> dict[str, Any] | None:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) else None


def dumped(value: Any, depth: int = 1) -> str:
    """JSON with one row a line: hundreds of them are to be read by people, too."""
    if isinstance(value, float):
        return json.dumps(float(f"{value:.6g}"))
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else []
    deep = any(isinstance(one, dict) or (isinstance(one, list) and one and isinstance(one[0], dict)) for one in inner)
    gap, end = ("\n" + " " * depth, "\n" + " " * (depth - 1)) if deep else ("", "")
    if isinstance(value, dict):
        pairs = (f"{json.dumps(str(key))}: {dumped(one, depth + 1)}" for key, one in value.items())
        return "{" + gap + ("," + (gap or " ")).join(pairs) + end + "}"
    if isinstance(value, (list, tuple)):
        return "[" + gap + ("," + (gap or " ")).join(dumped(one, depth + 1) for one in value) + end + "]"
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    # A benchmark of this tree, wherever it is started from.
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
