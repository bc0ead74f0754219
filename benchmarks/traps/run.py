"""Traps: small trainings of known truth, each built to fool a tuner, and the tuners of PyPI asked about them.

    python benchmarks/traps/run.py                        # all of it, an hour and a half, alone on the machine
    python benchmarks/traps/run.py --only leak            # one trap; the others' figures stay as they are
    python benchmarks/traps/run.py --tuner optuna         # one tuner
    python benchmarks/traps/run.py --quick --out /tmp/x   # does the harness work? The figures mean nothing
    python benchmarks/traps/run.py --table                # measure nothing: the table of what is there

What is there already is kept, by truth, tuner and trap: an interrupted run goes on where it was; --again measures anew,
--again tuners all but the truth, so that those who are compared were asked in one run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import choosing
import sight
from children import adopt_orphans, can_shrink_shm
from environment import NoPeers, default_cache, peers_python
from table import BEGIN, END, told_of
from tuners import TUNER_NAMES, TUNERS, ask

from traps import BY_NAME, HERE, Trap, grid, key_of, settled
from truth import Place, whole_run

# What all benchmarks share lies beside their folders.
sys.path.append(str(Path(__file__).resolve().parents[1]))
from dated import commit, into_readme, machine

VTUNE = "vtune"
CHOOSING = {"vtune phase": choosing.phase, "vtune search": choosing.search}
OWN = (VTUNE, *CHOOSING)


def main() -> int:
    options = _options()
    out: Path = options.out or (Path("traps-quick") if options.quick else HERE / "results")
    out.mkdir(parents=True, exist_ok=True)
    # An ending that is asked for otherwise than by Ctrl-C cleans up as well.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    adopt_orphans()
    tuners = options.tuner or [*TUNER_NAMES, *OWN]
    interrupted = False
    failed = False
    if not options.table:
        try:
            python = _peers(tuners, options.cache)
            for trap in [BY_NAME[name] for name in options.only or BY_NAME]:
                failed |= not play(trap, tuners, python, out, quick=options.quick, again=options.again)
        except NoPeers as error:
            say("", f"the peers' environment could not be made: {error}")
            return 1
        except KeyboardInterrupt:
            say("", "interrupted; what was measured is kept")
            interrupted = True
    text = told_of(out)
    sys.stdout.write(text + "\n")
    if options.out is None and not options.quick:
        into_readme(HERE / "README.md", text, BEGIN, END)
    return 130 if interrupted else int(failed)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--only", action="append", choices=list(BY_NAME), metavar="TRAP", help="repeatable")
    parser.add_argument("--tuner", action="append", choices=[*TUNER_NAMES, *OWN], metavar="NAME", help="repeatable")
    parser.add_argument("--quick", action="store_true", help="a smoke run: the figures mean nothing")
    parser.add_argument(
        "--again",
        nargs="?",
        const="all",
        choices=("all", "tuners"),
        help="measure anew what is there; the tuners alone",
    )
    parser.add_argument("--table", action="store_true", help="measure nothing: the table of what is there")
    parser.add_argument("--out", type=Path, help="where the figures go (default: results/ beside this file)")
    parser.add_argument("--cache", type=Path, help=f"where the peers are installed (default: {default_cache()})")
    return parser.parse_args()


def _peers(tuners: list[str], cache: Path | None) -> Path:
    if set(tuners) <= set(OWN):
        return Path(sys.executable)
    say("", "the peers' environment (made once, under a minute with a fast index)")
    return peers_python(cache)


def play(trap: Trap, tuners: list[str], python: Path, out: Path, *, quick: bool, again: str | None) -> bool:
    """One trap: its truth, then each tuner, one after the other; kept after each row. False where a row failed."""
    kept = Kept(out / f"{trap.name}.json", trap, quick=quick)
    if trap.shm_bytes is not None and not can_shrink_shm():
        kept.data["skipped"] = "needs root: a small /dev/shm is a mount of its own"
        kept.save()
        return True
    kept.data.pop("skipped", None)
    with tempfile.TemporaryDirectory(prefix="vtune-traps-", ignore_cleanup_errors=True) as folder:
        place = Place(scratch=Path(folder), quick=quick)
        _truth(trap, place, kept, again=again == "all")
        for tuner in TUNERS:
            if tuner.name in tuners and (again or tuner.name not in kept.data["tuners"]):
                row = kept.timed(partial(ask, tuner, trap, place, python))
                kept.data["tuners"][tuner.name] = row
                kept.save()
                say(trap.name, f"{tuner.name}: {row.get('refused') or row.get('failed') or row['key']}")
        if VTUNE in tuners and (again or VTUNE not in kept.data["tuners"]):
            own, bait = settled(trap, trap.baseline), settled(trap, trap.bait)
            asked = {"bait": bait} if quick else {"own": own, "bait": bait}
            probes = {
                which: kept.timed(partial(sight.probe, trap, settings, place, which))
                for which, settings in asked.items()
            }
            kept.data["tuners"][VTUNE] = {"probes": probes}
            kept.save()
            for which, row in probes.items():
                say(trap.name, f"vtune, {which}: {row.get('failed') or row.get('verdict') or row.get('detail')}")
        for name, choose in CHOOSING.items():
            if name in tuners and (again or name not in kept.data["tuners"]):
                row = kept.timed(partial(choose, trap, place))
                kept.data["tuners"][name] = row
                kept.save()
                say(trap.name, f"{name}: {row.get('failed') or row['key']} after {row.get('trials')} trials")
        _choices_truth(trap, place, kept)
    # A peer that finds nothing in time has answered; that vtune gives no answer is a failure of this harness's own.
    rows = [
        *(kept.data["tuners"].get(VTUNE) or {}).get("probes", {}).values(),
        *(kept.data["tuners"].get(name, {}) for name in CHOOSING),
    ]
    return not any("failed" in row for row in rows)


def _truth(trap: Trap, place: Place, kept: Kept, *, again: bool) -> None:
    if again:
        kept.data["truth"] = []
    there = {row["key"] for row in kept.data["truth"]}
    wanted = [settled(trap, trap.baseline), settled(trap, trap.bait), *([] if place.quick else grid(trap))]
    left = {key_of(settings): settings for settings in wanted if key_of(settings) not in there}
    # In no order that a drift of the machine could follow, and in the same one each time.
    order = sorted(left)
    random.Random(trap.name).shuffle(order)
    for key in order:
        row = kept.timed(partial(whole_run, trap, left[key], place))
        kept.data["truth"].append(row)
        kept.save()
        say(trap.name, f"truth of {key}: {row['broke'] or format(row['samples_per_s'], '.1f') + ' samples/s'}")


def _choices_truth(trap: Trap, place: Place, kept: Kept) -> None:
    """Nobody is judged by a neighbouring setting: what was chosen beside the grid is run whole as well."""
    there = {row["key"] for row in kept.data["truth"]}
    for row in kept.data["tuners"].values():
        if row.get("choice") and row["key"] not in there:
            kept.data["truth"].append(kept.timed(partial(whole_run, trap, row["choice"], place)))
            there.add(row["key"])
            kept.save()


class Kept:
    """A trap's figures on disk; those of another training, or of quick runs, are not gone on with."""

    def __init__(self, path: Path, trap: Trap, *, quick: bool) -> None:
        self.path = path
        self.data: dict[str, Any] = {
            "trap": trap.name,
            "fingerprint": trap.fingerprint,
            "quick": quick,
            "date": date.today().isoformat(),
            "machine": machine(),
            "command": f"python benchmarks/traps/run.py --only {trap.name}" + (" --quick" if quick else ""),
            "seconds": 0.0,
            "truth": [],
            "tuners": {},
        }
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return
        same = ("fingerprint", "quick", "machine")
        if isinstance(before, dict) and all(before.get(name) == self.data[name] for name in same):
            self.data = before

    def timed(self, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        begun = time.monotonic()
        row = measure() | {"date": date.today().isoformat(), "version": commit()}
        self.data["seconds"] += time.monotonic() - begun
        self.data["date"] = row["date"]
        return row

    def save(self) -> None:
        beside = self.path.with_suffix(".json.new")
        beside.write_text(json.dumps(self.data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(beside, self.path)


def say(trap: str, words: str) -> None:
    sys.stderr.write(f"[{trap or 'traps'}] {words}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
