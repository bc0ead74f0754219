"""What simulated loaders say of vtune's numbers: coverage, false alarms, and how fast the simulation is.

    python benchmarks/truth/simulated.py                    # Markdown to stdout; some minutes
    python benchmarks/truth/simulated.py --json FILE        # the figures as well
    python benchmarks/truth/simulated.py --quick            # does it work? The figures mean nothing

The truth of each cell is a long run of the discrete-event simulation, which shares no formula with the analysis.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from simulated_cells import SEED, Cell, cells, scaled

from vtune.analysis.two_sides import compare_sides
from vtune.domain.experiment import Experiment, PlannedRun, Window, Workload
from vtune.domain.record import TrialRecord
from vtune.domain.trial import Proposal, TrialSpec, TrialStatus
from vtune.execution.engines.simulated.engine import SimulatedEngine, machine_of
from vtune.execution.engines.simulated.surfaces import SHARED_MACHINE, SURFACES
from vtune.execution.engines.simulated.truth import true_rate
from vtune.execution.observer import Watch
from vtune.execution.read import read_trial
from vtune.journal.paths import TrialPaths
from vtune.journal.step_log import StepLog
from vtune.strategies.race import Race

Tell = Callable[[str], None]

RUNS, CELLS = 500, 100
# Of each cell with what the replay does not know.
UNKNOWN_LAUNCHES = 2
UNKNOWN = "effects that the replay does not know (no bar)"
UNKNOWN_MEANS = (
    "No bar for effects that the replay does not know: costs that drift by 10 % over 256 samples, a pace that differs"
    " by 10 % from settings to settings. What lasts for longer than a window cannot be told from it: the interval holds"
    " for what was seen."
)
COMPARISONS = 200
# Steps that the usual estimate takes.
LAST = 50
# The relative error of a truth is some 1.2 CV / √batches: half a percent at CV 0.5. Slow batches take more, and so do
# costs that come in stretches, of which even these batches hold only a few hundred.
TRUTH_BATCHES, TRUTH_BATCHES_IF_UNEVEN = 20_000, 60_000
WINDOW = Window(trial_time_s=1e6, startup_time_s=1e6)
WATCH = Watch(window=WINDOW, planned=PlannedRun())
OWN = Proposal(settings={}, reason="the current settings", origin="probe")


def coverage(*, runs: int = RUNS, count: int = CELLS, tell: Tell) -> dict[str, Any]:
    known = cells(count)
    unknown = [replace(cell, misspecified=True) for cell in known[::2] if not cell.slow]
    tasks = [(cell, max(1, runs // count)) for cell in known] + [(cell, UNKNOWN_LAUNCHES) for cell in unknown]
    measured = [row for found in _in_parallel(_one_cell, tasks, tell) for row in found]
    rows = [row for row in measured if not row["after"] and not row["misspecified"]]
    kinds = ["CV ≤ 0.25", "CV 0.5", "2 % slow ×10"]
    groups = {"all": rows, **{kind: [row for row in rows if row["kind"] == kind] for kind in kinds}}
    groups["2 % slow ×10, after 2 to 4 trials"] = [row for row in measured if row["after"]]
    groups["a slow first step"] = [row for row in rows if row["first_step_s"] == 60.0]
    groups["cores shared"] = [row for row in rows if row["contended"]]
    groups["work every 10th step"] = [row for row in rows if row["every_steps"]]
    groups[UNKNOWN] = [row for row in measured if row["misspecified"]]
    return {
        "runs": len(rows),
        "cells": count,
        "groups": {name: _errors(own) for name, own in groups.items() if own},
        # For whoever asks why; all of them would be a long file.
        "missed": [row for row in rows if not row["covered"]],
    }


def _one_cell(task: tuple[Cell, int]) -> list[dict[str, Any]]:
    """Through the folder and the reading of it, as a trial's record comes about."""
    cell, launches = task
    surface = cell.surface
    uneven = cell.slow or cell.misspecified
    truth = true_rate(surface, {}, batches=TRUTH_BATCHES_IF_UNEVEN if uneven else TRUTH_BATCHES)
    rows: list[dict[str, Any]] = []
    study: list[TrialRecord] = []
    for launch in range(launches):
        # What is rare is told by the study's other trials: with two of them or more, once again with their word.
        for earlier in ([], study) if cell.slow and len(study) > 1 else ([],):
            engine = SimulatedEngine(surface, launch_seed=launch)
            with tempfile.TemporaryDirectory() as scratch:
                folder = TrialPaths(Path(scratch))
                found = run_trial(engine, folder, OWN, trial=launch + 1, earlier=earlier)
                rows.append(_row(cell, truth, found, _step_ends(folder), after=len(earlier)))
        study.append(found)
    return rows


def _row(cell: Cell, truth: float, found: TrialRecord, ends: Sequence[float], *, after: int) -> dict[str, Any]:
    steps = np.diff(np.array(ends[-LAST - 1 :]))
    measured = found.measurement
    assert measured.samples_per_s is not None
    interval = measured.samples_per_s_ci95
    return {
        **asdict(cell),
        "kind": cell.kind,
        "after": after,
        "truth": truth,
        "rate": measured.samples_per_s,
        "ci95": interval,
        "covered": interval is not None and interval[0] <= truth <= interval[1],
        "steps": measured.steps_measured,
        "steady": measured.steady,
        "mean_of_last": float(cell.batch / steps.mean()),
        "median_of_last": float(cell.batch / np.median(steps)),
    }


def run_trial(
    engine: SimulatedEngine, folder: TrialPaths, proposal: Proposal, *, trial: int, earlier: Sequence[TrialRecord] = ()
) -> TrialRecord:
    """As the loop does it: ended by what the study knows, read from its folder with what the study knows."""
    spec = _spec_of(proposal, trial)
    experiment = Experiment(study="s", workload=Workload(command=spec.command, cwd=Path(".")), window=WINDOW)
    outcome = engine.run(spec, folder, replace(WATCH, earlier=tuple(earlier)), lambda event: None)
    found = read_trial(experiment, machine_of(engine.surface), spec, outcome, folder, earlier=earlier)
    if found.status is not TrialStatus.COMPLETED:
        raise RuntimeError(f"{engine.surface.name}: {found.status}, {found.detail}")
    return found


def _spec_of(proposal: Proposal, trial: int) -> TrialSpec:
    return TrialSpec(
        trial=trial, origin=proposal.origin, reason=proposal.reason, settings=proposal.settings, effects=(),
        command=("train",), cwd=".", env={}, token="simulated", race=proposal.race,
    )  # fmt: skip


def _step_ends(folder: TrialPaths) -> list[float]:
    log = StepLog(folder)
    while log.refresh():
        pass
    return [step.ended_s for step in log.steps]


def _errors(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    def of(name: str) -> dict[str, float]:
        signed = np.array([row[name] / row["truth"] - 1 for row in rows])
        return {
            "bias": float(signed.mean()),
            "median": float(np.median(np.abs(signed))),
            "p95": float(np.percentile(np.abs(signed), 95)),
            "worst": float(signed[np.abs(signed).argmax()]),
        }

    widths = [(row["ci95"][1] - row["ci95"][0]) / 2 / row["rate"] for row in rows if row["ci95"]]
    return {
        "runs": len(rows),
        "coverage": sum(row["covered"] for row in rows) / len(rows),
        "half_width": statistics.median(widths) if widths else None,
        "steps": statistics.median(row["steps"] for row in rows),
        "vtune": of("rate"),
        "mean_of_last": of("mean_of_last"),
        "median_of_last": of("median_of_last"),
    }


# A setting that changes nothing in these surfaces: it only tells the two sides apart.
ONE: dict[str, Any] = {}
OTHER: dict[str, Any] = {"pin_memory": True}
GAP = 0.05


def races(*, comparisons: int = COMPARISONS, tell: Tell) -> dict[str, Any]:
    """The same settings twice; and one side truly faster or slower by 5 %. Launches differ, the machine drifts, and
    neighbours come and go; half of the trainings are seeded. What is called is what `vtune compare` says of them."""
    same = list(_in_parallel(_one_race, [(number, 0.0) for number in range(comparisons)], tell))
    gaps = [(number, GAP if number % 2 else -GAP) for number in range(comparisons)]
    apart = list(_in_parallel(_one_race, gaps, tell))
    wrong_way = {"faster": "slower", "slower": "faster"}
    return {
        "comparisons": comparisons,
        "called_different": sum(row["called"] in ("faster", "slower") for row in same) / len(same),
        "found": sum(row["called"] == row["truly"] for row in apart) / len(apart),
        "called_the_wrong_way": sum(row["called"] == wrong_way[row["truly"]] for row in apart) / len(apart),
        "rounds_same": statistics.fmean(row["rounds"] for row in same),
        "rounds_apart": statistics.fmean(row["rounds"] for row in apart),
        "found_by_cv": {
            str(cv): sum(row["called"] == row["truly"] for row in own) / len(own)
            for cv in (0.05, 0.1, 0.25)
            if (own := [row for row in apart if row["cv"] == cv])
        },
        "wrong": [row for row in (*same, *apart) if row["called"] != row["truly"]],
    }


def _one_race(task: tuple[int, float]) -> dict[str, Any]:
    """By the project's own race to its own end, from the records that a study would have of it."""
    number, gap = task
    rng = np.random.default_rng((SEED, number))
    cell = Cell(
        number=number,
        workers=int(rng.choice([1, 2, 4, 8])),
        prefetch=int(rng.choice([2, 4])),
        pace=float(rng.choice([0.5, 0.8, 1.25, 2.0])),
        cv=float(rng.choice([0.05, 0.1, 0.25])),
        slow=False,
        first_step_s=float(rng.choice([0.0, 20.0])),
        batch=1,
        contended=False,
        every_steps=None,
    )
    surface = replace(
        cell.surface, seed=5000 + number + (100_000 if gap else 0), noise=SHARED_MACHINE, seeded=number % 4 < 2
    )
    cores = machine_of(surface).cores
    race = Race(contestants=[OTHER], baseline=ONE, seed=number, cores=cores)
    # Of one seed, so both see the same weather; the clock goes on from one to the other.
    engines = {False: SimulatedEngine(surface), True: SimulatedEngine(scaled(surface, 1 / (1 + gap)))}
    sides: dict[bool, list[TrialRecord]] = {False: [], True: []}
    history: list[TrialRecord] = []
    clock_s = 0.0
    with tempfile.TemporaryDirectory() as scratch:
        while (proposal := race.propose(history)) is not None:
            side = bool(proposal.settings.get("pin_memory"))
            engine, trial = engines[side], len(history) + 1
            engine.clock_s = clock_s
            folder = TrialPaths(Path(scratch) / str(trial))
            folder.root.mkdir()
            history.append(run_trial(engine, folder, proposal, trial=trial, earlier=history))
            sides[side].append(history[-1])
            clock_s = engine.clock_s
    compared = compare_sides(sides[False], sides[True], cores=(cores, cores), races=history)
    return {
        "gap": gap, "cv": cell.cv, "pace": cell.pace, "workers": cell.workers, "seeded": surface.seeded,
        "called": compared.verdict, "truly": "faster" if gap > 0 else "slower" if gap < 0 else "tie",
        "ratio": compared.ratio.value, "won": race.standing(history).won, "rounds": race.standing(history).rounds,
    }  # fmt: skip


def speed(*, trials: int = 10) -> dict[str, float]:
    """Trials a minute on one core: simulated and written; with the looks at when to stop; and read back as well."""
    fixed = replace(WINDOW, max_steps=WINDOW.steps)
    found = {}
    for name, window, reads in (("written", fixed, False), ("stopped", WINDOW, False), ("read", WINDOW, True)):
        begun_s = time.perf_counter()
        for surface in SURFACES:
            engine = SimulatedEngine(surface)
            with tempfile.TemporaryDirectory() as scratch:
                for trial in range(1, trials + 1):
                    folder = TrialPaths(Path(scratch) / str(trial))
                    folder.root.mkdir()
                    if reads:
                        run_trial(engine, folder, OWN, trial=trial)
                    else:
                        engine.run(_spec_of(OWN, trial), folder, replace(WATCH, window=window), lambda event: None)
        found[f"{name}_a_minute"] = 60 * trials * len(SURFACES) / (time.perf_counter() - begun_s)
    return found


def _in_parallel(work: Callable[[Any], Any], tasks: Sequence[Any], tell: Tell) -> Iterable[Any]:
    cores = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(max_workers=cores) as pool:
        for done, found in enumerate(pool.map(work, tasks, chunksize=1), 1):
            if done % max(1, len(tasks) // 5) == 0:
                tell(f"{work.__name__.removeprefix('_')}: {done} of {len(tasks)}")
            yield found


def figures(*, quick: bool = False, tell: Tell) -> dict[str, Any]:
    begun_s = time.monotonic()
    found: dict[str, Any] = {
        "coverage": coverage(runs=20 if quick else RUNS, count=10 if quick else CELLS, tell=tell),
        "races": races(comparisons=4 if quick else COMPARISONS, tell=tell),
        "speed": speed(trials=1 if quick else 10),
    }
    return {**found, "quick": quick, "seconds": time.monotonic() - begun_s}


def markdown(found: dict[str, Any]) -> list[str]:
    told, raced, fast = found["coverage"], found["races"], found["speed"]
    out = [
        f"{told['runs']} runs of {told['cells']} cells against the long run of the simulation; errors in percent.",
        "",
        "| runs | | in the 95 % interval | ± | bias | median | p95 | worst | last 50: mean | median of steps |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, group in told["groups"].items():
        own, mean, median = group["vtune"], group["mean_of_last"], group["median_of_last"]
        width = "-" if group["half_width"] is None else f"{100 * group['half_width']:.1f}"
        out.append(
            f"| {name} | {group['runs']} | {100 * group['coverage']:.1f} % | {width} | {100 * own['bias']:+.1f} "
            f"| {100 * own['median']:.1f} | {100 * own['p95']:.1f} | {100 * own['worst']:+.1f} "
            f"| {_naive(mean)} | {_naive(median)} |"
        )
    by_cv = ", ".join(f"{100 * share:.0f} % at CV {cv}" for cv, share in raced["found_by_cv"].items())
    out += [
        "",
        "Of the usual estimates: bias, 95th percentile and worst error.",
        *([UNKNOWN_MEANS] if UNKNOWN in told["groups"] else []),
        "",
        f"- {raced['comparisons']} races of equals: {100 * raced['called_different']:.1f} % called different, after "
        f"{raced['rounds_same']:.1f} rounds on average.",
        f"- {raced['comparisons']} races with a true difference of 5 %: {100 * raced['found']:.1f} % found ({by_cv}), "
        f"{100 * raced['called_the_wrong_way']:.1f} % called the wrong way, after {raced['rounds_apart']:.1f} rounds.",
        f"- Trials a minute on one core: {fast['written_a_minute']:.0f} simulated and written, "
        f"{fast['stopped_a_minute']:.0f} with the looks at when to stop, "
        f"{fast['read_a_minute']:.0f} read back as well.",
    ]
    return out


def _naive(error: dict[str, float]) -> str:
    return f"{100 * error['bias']:+.0f} / {100 * error['p95']:.0f} / {100 * error['worst']:+.0f}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulated loaders: coverage, false alarms, speed.")
    parser.add_argument("--quick", action="store_true", help="a smoke run: the figures mean nothing")
    parser.add_argument("--json", type=Path, help="where the figures go")
    options = parser.parse_args()
    found = figures(quick=options.quick, tell=lambda words: print(words, file=sys.stderr, flush=True))
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print("\n".join(markdown(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
