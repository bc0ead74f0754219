"""Is the rate of a probe right on average? Trainings that go on as they begin, probed and run by themselves in turns.

    python benchmarks/bias/run.py                    # all of them: 35 minutes, alone on the machine
    python benchmarks/bias/run.py --waiting          # those by which the bias is judged: 18 minutes
    python benchmarks/bias/run.py --only transformer # one; the others' rows stay as they are. Repeatable
    python benchmarks/bias/run.py --quick            # two trainings, one pair each: does the harness work?
    python benchmarks/bias/run.py --table            # measure nothing: the table of the rows that are there

Rows go to results/bias.json, the table to stdout and between the two markers of README.md; --quick writes nothing.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# What all benchmarks share lies beside their folders, and how a launch is made is in truth.
sys.path[1:1] = [str(HERE.parent), str(HERE.parent / "truth"), str(ROOT)]

from bias_cells import CELLS, QUICK, WAITING, Cell  # noqa: E402
from bias_errors import CellError, Launch, MeanError, error_of, mean_error, turns  # noqa: E402
from launches import DISTURBED_CORES, Bench, Failed, scratch_folder  # noqa: E402
from table import Claim, claims_table, share  # noqa: E402

from dated import commit, into_readme, keep_rows, kept_rows, machine  # noqa: E402

RESULTS = HERE / "results" / "bias.json"
BEGIN, END = "<!-- figures: written by run.py -->", "<!-- end of the figures -->"
PAIRS = 2
LONG_RUN_S, QUICK_RUN_S = 7.0, 3.0
# A launch beside busy neighbours is made again at once, so many times at most.
AGAIN = 2
BAR = 0.005
LEAST_CELLS = 20
# Import of torch, the workers' start and the warm-up of a long run; a probe from its start to its end.
START_S, PROBE_S = 5.0, 9.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[cell.name for cell in CELLS], metavar="NAME")
    parser.add_argument("--waiting", action="store_true", help="only trainings whose costs are waited for")
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"of each training (default {PAIRS})")
    parser.add_argument("--quick", action="store_true", help="a smoke run: the figures mean nothing")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    options = parser.parse_args()
    # An ending that is asked for otherwise than by Ctrl-C cleans up as well.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    told: dict[str, Any] = {"rows": {}} if options.quick else kept_rows(RESULTS)
    pairs, seconds = (1, QUICK_RUN_S) if options.quick else (options.pairs, LONG_RUN_S)
    every = WAITING if options.waiting else QUICK if options.quick else CELLS
    cells = [cell for cell in every if not options.only or cell.name in options.only]
    interrupted = False
    try:
        for number, cell in enumerate([] if options.table else cells):
            left_s = (len(cells) - number) * pairs * (START_S + seconds + PROBE_S)
            tell(f"{number + 1}/{len(cells)} {cell.name}; about {left_s / 60:.0f} min left")
            row = told["rows"][cell.name] = one_cell(cell, pairs=pairs, seconds=seconds)
            tell(f"  {row['failed'] if 'failed' in row else _words(row)}")
            if not options.quick:
                keep_rows(RESULTS, told)
    except KeyboardInterrupt:
        tell("interrupted; what was measured is kept")
        interrupted = True
    # In the order of the trainings, without those that are no more.
    told["rows"] = {cell.name: told["rows"][cell.name] for cell in CELLS if cell.name in told["rows"]}
    claims = claims_of(told["rows"])
    head = ["**A quick run: no figures to rely on.**", ""] if options.quick else []
    text = "\n".join([*head, *claims_table(claims), "", *table(told["rows"])])
    if not options.quick:
        keep_rows(RESULTS, told)
        into_readme(HERE / "README.md", text, BEGIN, END)
    print(text)
    # A quick run's figures are not judged.
    judged = 0 if options.quick else int(any(claim.passed is False for claim in claims))
    return 130 if interrupted else judged


def tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def one_cell(cell: Cell, *, pairs: int, seconds: float) -> dict[str, Any]:
    begun_s = time.monotonic()
    row: dict[str, Any] = {"fills_cores": cell.fills_cores, "waits": cell.waits, "launches": []}
    with scratch_folder() as scratch:
        bench = Bench(scratch, quick=False, tell=tell, keep=lambda _: None)
        try:
            for number, is_probe in enumerate(turns(pairs)):
                # Other seeds in each launch, as trainings have that shuffle.
                seed = 100 * CELLS.index(cell) + number
                launch = quiet_launch(bench, cell, seed=seed, is_probe=is_probe, seconds=seconds)
                row["launches"].append(launch)
        except Failed as failure:
            row["failed"] = str(failure)
    return row | {
        "seconds": round(time.monotonic() - begun_s, 1),
        "date": str(date.today()),
        "version": commit(),
        "machine": machine(),
    }


def quiet_launch(bench: Bench, cell: Cell, *, seed: int, is_probe: bool, seconds: float) -> dict[str, Any]:
    for again in range(AGAIN + 1):
        launch = _probe(bench, cell, seed) if is_probe else _long_run(bench, cell, seed, seconds)
        launch["again"] = again
        if not is_disturbed(launch):
            break
        tell(f"  others kept {launch['others_cores']:.1f} cores busy{': once more' if again < AGAIN else ''}")
    return launch


def _probe(bench: Bench, cell: Cell, seed: int) -> dict[str, Any]:
    probe = bench.probe("bias", cell.command(seed=seed))
    shutil.rmtree(bench.scratch / "bias", ignore_errors=True)
    if probe.trial["samples_per_s"] is None:
        raise Failed(f"the probe gave no rate: {probe.trial['detail'] or probe.trial['status']}")
    kept = ("samples_per_s", "rate_from", "steady", "steps_measured", "tree_cores", "others_cores")
    return {
        "is_probe": True,
        **{name: probe.trial[name] for name in kept},
        "ci95": probe.trial["samples_per_s_ci95"],
        "seconds": round(probe.seconds, 1),
    }


def _long_run(bench: Bench, cell: Cell, seed: int, seconds: float) -> dict[str, Any]:
    said = bench.plain(cell.command(seed=seed, seconds=seconds))
    return {"is_probe": False, **said.json, "others_cores": said.others_cores, "seconds": round(said.seconds, 1)}


def is_disturbed(launch: Mapping[str, Any]) -> bool:
    return (launch["others_cores"] or 0.0) > DISTURBED_CORES


def launches_of(row: Mapping[str, Any]) -> list[Launch]:
    return [
        Launch(one["samples_per_s"], one["is_probe"], tuple(one["ci95"]) if one.get("ci95") else None)
        for one in row["launches"]
    ]


def claims_of(rows: Mapping[str, Mapping[str, Any]]) -> list[Claim]:
    found = {name: error_of(launches_of(row)) for name, row in rows.items() if "failed" not in row}
    means = [error.mean for error in found.values()]
    judged = [error.mean for name, error in found.items() if rows[name]["waits"]]
    enough = f"{len(judged)}; with others {len(found)} of {len(rows)}"
    enough += f"; failed: {_failed(rows)}" if len(found) < len(rows) else ""
    claims = [
        Claim(
            "trainings that wait, with a figure",
            f"≥ {LEAST_CELLS}, all",
            enough,
            len(judged) >= LEAST_CELLS and len(found) == len(rows),
        )
    ]
    if not found:
        return claims
    if judged:
        bias = mean_error(judged)
        claims.append(Claim("their mean error", "0 ± 0.5 %", mean_words(bias), abs(bias.mean) <= BAR))
    for title, fills in (("with cores to spare", False), ("on full cores", True)):
        kind = [name for name in found if not rows[name]["waits"] and rows[name]["fills_cores"] is fills]
        if kind:
            words = mean_words(mean_error([found[name].mean for name in kind]))
            claims.append(Claim(f"the same of those that compute, {title}", "for the record", words, None))
    low = sum(mean < 0 for mean in means)
    claims.append(Claim("trainings whose rate is read low", "for the record", share(low, len(means)), None))
    covered, probes = (
        sum(error.covered for error in found.values()),
        sum(len(error.by_probe) for error in found.values()),
    )
    claims.append(Claim("95 % interval covers", "for the record", share(covered, probes), None))
    return claims


def _failed(rows: Mapping[str, Mapping[str, Any]]) -> str:
    return "; ".join(f"{name}: {row['failed']}" for name, row in rows.items() if "failed" in row)


def mean_words(bias: MeanError) -> str:
    interval = "" if bias.low is None else f", 95 %: {bias.low * 100:+.2f} to {bias.high * 100:+.2f}"
    return f"{bias.mean * 100:+.2f} % ({bias.cells} trainings{interval})"


def table(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    dates = sorted({f"{row['date']} (version {row['version']})" for row in rows.values()})
    machines = sorted({row["machine"] for row in rows.values()})
    minutes = sum(row["seconds"] for row in rows.values()) / 60
    launches = [launch for row in rows.values() for launch in row["launches"]]
    again, disturbed = sum(launch["again"] for launch in launches), sum(map(is_disturbed, launches))
    return [
        f"{', '.join(dates)} · {', '.join(machines)} · {minutes:.0f} min · `run.py`",
        "",
        f"{again} launches were made again because other programs kept more than {DISTURBED_CORES:g} cores busy;"
        f" {disturbed} of the {len(launches)} that are kept ran beside such programs, too.",
        "",
        "| training | workers × prefetch | step, ms | cores | long runs | probes | error, % | covered | by |",
        "|---|---|---:|---:|---|---|---|---|---|",
        *(_line(cell, rows[cell.name]) for cell in CELLS if cell.name in rows),
        "",
        "Rates in samples a second. The error is the mean of its probes' errors, ± a standard error by the differences"
        " between launches of a kind. Cores were kept busy by the training while it was probed; **all**: by design.",
    ]


def _line(cell: Cell, row: Mapping[str, Any]) -> str:
    if "failed" in row:
        return f"| {cell.name} | {cell.workers}×{cell.prefetch} | | | | | {row['failed']} | | |"
    alone, probes = ([one for one in row["launches"] if one["is_probe"] is kind] for kind in (False, True))
    found = error_of(launches_of(row))
    cells = [
        cell.name,
        f"{cell.workers}×{cell.prefetch}" if cell.workers else "0",
        f"{sum(one['step_ms'] for one in alone) / len(alone):.1f}",
        f"{sum(one['tree_cores'] or 0.0 for one in probes) / len(probes):.1f}{' **all**' if cell.fills_cores else ''}",
        _rates(alone),
        _rates(probes),
        error_words(found),
        f"{found.covered} of {len(probes)}",
        ", ".join(sorted({str(one["rate_from"]) for one in probes})),
    ]
    return f"| {' | '.join(cells)} |"


def _rates(launches: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{one['samples_per_s']:.4g}" for one in launches)


def error_words(error: CellError) -> str:
    return f"{error.mean * 100:+.2f}" + ("" if error.spread is None else f" ± {error.spread * 100:.2f}")


def _words(row: Mapping[str, Any]) -> str:
    found = error_of(launches_of(row))
    probes = [launch for launch in row["launches"] if launch["is_probe"]]
    return f"{error_words(found)} %, covered {found.covered} of {len(probes)}, {row['seconds']} s"


if __name__ == "__main__":
    sys.exit(main())
