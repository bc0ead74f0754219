"""What simulated loaders say of vtune's numbers: coverage, false alarms, and how fast the simulation is.

    python benchmarks/truth/simulated.py                    # Markdown to stdout; some minutes
    python benchmarks/truth/simulated.py --json FILE        # the figures as well
    python benchmarks/truth/simulated.py --quick            # does it work? The figures mean nothing

The truth of each cell is a long run of the discrete-event simulation, which shares no formula with the analysis.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from vtune.analysis.memory import with_memory
from vtune.domain.experiment import Experiment, PlannedRun, Window, Workload
from vtune.domain.record import Diagnosis, TrialRecord
from vtune.domain.trial import Proposal, TrialSpec, TrialStatus
from vtune.execution.engines.simulated.engine import SimulatedEngine, machine_of
from vtune.execution.engines.simulated.launch import Launch
from vtune.execution.engines.simulated.memory import Held
from vtune.execution.engines.simulated.recording import record
from vtune.execution.engines.simulated.surface import Box, LoaderCost, Noise, SampleCost, StepCost, Surface, settings_of
from vtune.execution.engines.simulated.surfaces import SHARED_MACHINE, SURFACES
from vtune.execution.engines.simulated.telemetry import look_on
from vtune.execution.engines.simulated.training import Training
from vtune.execution.engines.simulated.truth import true_rate
from vtune.execution.engines.simulated.watching import follow
from vtune.execution.engines.simulated.weather import Weather
from vtune.execution.read import read_trial
from vtune.execution.trial import Watch
from vtune.journal.paths import TrialPaths
from vtune.journal.step_log import StepLog
from vtune.strategies.race import Race

Tell = Callable[[str], None]

RUNS, CELLS = 500, 100
COMPARISONS = 200
SEED = 20
# Steps that the usual estimate takes.
LAST = 50
# The relative error of a truth is some 1.2 CV / √batches: half a percent at CV 0.5, and slow batches take more.
TRUTH_BATCHES, TRUTH_BATCHES_IF_SLOW = 20_000, 60_000
WINDOW = Window(trial_time_s=1e6, startup_time_s=1e6)
WATCH = Watch(window=WINDOW, planned=PlannedRun())


@dataclass(frozen=True)
class Cell:
    """Costs by batch: the training's step is 1 s, the workers together make `pace` batches meanwhile."""

    number: int
    workers: int
    prefetch: int
    pace: float
    cv: float
    slow: bool
    first_step_s: float
    batch: int
    contended: bool
    every_steps: int | None

    @property
    def kind(self) -> str:
        if self.slow:
            return "2 % slow ×10"
        return "CV ≤ 0.25" if self.cv <= 0.25 else "CV 0.5"

    @property
    def surface(self) -> Surface:
        load_s = self.workers / self.pace / (1.18 if self.slow else 1.0)
        shared = max(2.0, self.workers / 2 + 1)
        return Surface(
            name=f"cell {self.number}",
            seed=1000 + self.number,
            sample=SampleCost(
                # Half of it is waiting, half competes for cores.
                cpu_s=load_s / 2 / self.batch,
                latency_s=load_s / 2 / self.batch,
                # The two halves vary apart, and a batch is a sum of samples: by batch the spread is the cell's.
                cv=self.cv * math.sqrt(2 * self.batch),
                slow_fraction=0.02 / self.batch if self.slow else 0.0,
                slow_factor=1 + 9 * self.batch if self.slow else 1.0,
                batch_bytes=1e5,
            ),
            loader=LoaderCost(fork_s=0.01, boot_s=0.3, first_batch_s=load_s / 2, dispatch_s=0.005, receive_s=0.008),
            step=StepCost(
                base_s=0.9,
                host_s=0.1,
                cv=0.03,
                first_s=self.first_step_s,
                every_steps=self.every_steps,
                every_s=2.0 if self.every_steps else 0.0,
            ),
            box=Box(cores=shared if self.contended else 64.0),
            noise=Noise(launch_sd=0.01),
            settings={
                "workers": self.workers,
                "prefetch_factor": self.prefetch,
                "batch_size": self.batch,
            },
        )


def cells(count: int) -> list[Cell]:
    rng = np.random.default_rng(SEED)
    kinds = [(cv, False) for cv in (0.05, 0.05, 0.1, 0.1, 0.25, 0.25, 0.25, 0.5, 0.5)] + [(0.1, True)]
    return [
        Cell(
            number=number,
            workers=int(rng.choice([1, 2, 4, 8, 16])),
            prefetch=int(rng.choice([1, 2, 4, 8])),
            pace=float(rng.choice([0.5, 0.8, 1.0, 1.25, 2.0])),
            cv=kinds[number % len(kinds)][0],
            slow=kinds[number % len(kinds)][1],
            first_step_s=float(rng.choice([0.0, 5.0, 60.0])),
            batch=int(rng.choice([1, 4])),
            contended=bool(rng.random() < 1 / 3),
            every_steps=10 if rng.random() < 0.2 else None,
        )
        for number in range(count)
    ]


def coverage(*, runs: int = RUNS, count: int = CELLS, tell: Tell) -> dict[str, Any]:
    tasks = [(cell, max(1, runs // count)) for cell in cells(count)]
    measured = [row for found in _in_parallel(_one_cell, tasks, tell) for row in found]
    rows = [row for row in measured if not row["after"]]
    kinds = ["CV ≤ 0.25", "CV 0.5", "2 % slow ×10"]
    groups = {"all": rows, **{kind: [row for row in rows if row["kind"] == kind] for kind in kinds}}
    groups["2 % slow ×10, after 2 to 4 trials"] = [row for row in measured if row["after"]]
    groups["a slow first step"] = [row for row in rows if row["first_step_s"] == 60.0]
    groups["cores shared"] = [row for row in rows if row["contended"]]
    groups["work every 10th step"] = [row for row in rows if row["every_steps"]]
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
    truth = true_rate(surface, {}, batches=TRUTH_BATCHES_IF_SLOW if cell.slow else TRUTH_BATCHES)
    rows: list[dict[str, Any]] = []
    alone: list[TrialRecord] = []
    for launch in range(launches):
        # What is rare is told by the study's other trials: with two of them or more, once again with their word.
        for earlier in ([], alone) if cell.slow and len(alone) > 1 else ([],):
            engine = SimulatedEngine(surface, launch_seed=launch)
            with tempfile.TemporaryDirectory() as scratch:
                found, ends = run_trial(engine, TrialPaths(Path(scratch)), trial=launch + 1, earlier=earlier)
            rows.append(_row(cell, truth, found, ends, after=len(earlier)))
        alone.append(found)
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
    engine: SimulatedEngine, folder: TrialPaths, *, trial: int, earlier: Sequence[TrialRecord] = ()
) -> tuple[TrialRecord, list[float]]:
    """The record, and when each step ended."""
    spec = TrialSpec(
        trial=trial, origin="probe", reason="the current settings", settings={}, effects=(), command=("train",),
        cwd=".", env={}, token="simulated",
    )  # fmt: skip
    experiment = Experiment(study="s", workload=Workload(command=spec.command, cwd=Path(".")), window=WINDOW)
    outcome = engine.run(spec, folder, WATCH, lambda event: None)
    found = read_trial(experiment, machine_of(engine.surface), spec, outcome, folder, earlier=earlier)
    if found.status is not TrialStatus.COMPLETED:
        raise RuntimeError(f"{engine.surface.name}: {found.status}, {found.detail}")
    log = StepLog(folder)
    while log.refresh():
        pass
    return found, [step.ended_s for step in log.steps]


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
    neighbours come and go; half of the trainings are seeded."""
    same = list(_in_parallel(_one_race, [(number, 0.0) for number in range(comparisons)], tell))
    gaps = [(number, GAP if number % 2 else -GAP) for number in range(comparisons)]
    apart = list(_in_parallel(_one_race, gaps, tell))
    return {
        "comparisons": comparisons,
        "called_different": sum(row["called"] != "tie" for row in same) / len(same),
        "found": sum(row["called"] == row["truly"] for row in apart) / len(apart),
        "called_the_wrong_way": sum(row["called"] not in ("tie", row["truly"]) for row in apart) / len(apart),
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
    """By the project's own race, to its own end; only the folders are left out, which nobody would read."""
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
    sides = {False: surface, True: scaled(surface, 1 / (1 + gap))}
    race = Race(contestants=[OTHER], baseline=ONE, seed=number, cores=surface.box.cores)
    weather = Weather(surface.noise, surface.seed)
    history: list[TrialRecord] = []
    clock_s = 0.0
    while (proposal := race.propose(history)) is not None:
        side = sides[bool(proposal.settings.get("pin_memory"))]
        found, clock_s = _launch(side, proposal, len(history) + 1, weather, clock_s)
        history.append(found)
    standing = race.standing(history)
    called = "faster" if standing.won else "slower" if standing.out.get(1) == "slower" else "tie"
    truly = "faster" if gap > 0 else "slower" if gap < 0 else "tie"
    return {
        "gap": gap, "cv": cell.cv, "pace": cell.pace, "workers": cell.workers, "seeded": surface.seeded,
        "called": called, "truly": truly, "rounds": standing.rounds,
    }  # fmt: skip


def scaled(surface: Surface, factor: float) -> Surface:
    """The same training with all that it does taking so much longer."""
    sample, loader, step = surface.sample, surface.loader, surface.step
    return replace(
        surface,
        sample=replace(sample, cpu_s=factor * sample.cpu_s, latency_s=factor * sample.latency_s),
        loader=replace(loader, dispatch_s=factor * loader.dispatch_s, receive_s=factor * loader.receive_s),
        step=replace(step, base_s=factor * step.base_s, host_s=factor * step.host_s, every_s=factor * step.every_s),
    )


def _launch(
    surface: Surface, proposal: Proposal, number: int, weather: Weather, clock_s: float
) -> tuple[TrialRecord, float]:
    settings = settings_of(surface, proposal.settings)
    training = Training(surface, settings, Launch(surface, settings, number, weather), started_s=clock_s, pid=4000)
    end = follow(training, WATCH)
    # By fewer replicates than a record's own and without the step or two after it: a race looks at the rate alone.
    assert end.estimate is not None
    looks = look_on(training, Held(training), weather, end.at_s)
    measured = with_memory(end.estimate, looks, record(training, end.at_s).roles)
    found = TrialRecord(
        trial=number, origin=proposal.origin, settings=proposal.settings, reason=proposal.reason,
        status=TrialStatus.COMPLETED, detail=None, seconds=end.at_s - clock_s, measurement=measured,
        diagnosis=Diagnosis(bottleneck="unknown", verdict=""), race=proposal.race,
    )  # fmt: skip
    return found, end.at_s + 2.0


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
                        run_trial(engine, folder, trial=trial)
                        continue
                    spec = TrialSpec(
                        trial=trial, origin="probe", reason="", settings={}, effects=(), command=("train",), cwd=".",
                        env={}, token="simulated",
                    )  # fmt: skip
                    engine.run(spec, folder, replace(WATCH, window=window), lambda event: None)
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
