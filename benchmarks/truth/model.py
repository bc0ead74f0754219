"""What the model says of settings that were not tried, held against long simulated runs of them.

    python benchmarks/truth/model.py                    # Markdown to stdout; some minutes
    python benchmarks/truth/model.py --only scrolls     # one surface
    python benchmarks/truth/model.py --json FILE        # the figures as well; with --only, added to what is there
    python benchmarks/truth/model.py --quick            # does it work? The figures mean nothing

Each surface: the user's own settings and one trial with more workers and twice the batch; then four more, drawn at
random. The truth of each setting of a grid is a long run of the discrete-event simulation, which shares no formula with
the model. Validations are left out: a trial that is over before its first epoch has no way to tell of one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from simulated import OWN, WATCH, WINDOW

from vtune.analysis.comparable import launched_rate
from vtune.analysis.model.fit import fit_model
from vtune.domain.choice import RankedBy
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment, Limits, PlannedRun, Workload
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialSpec, TrialStatus
from vtune.execution.engines.simulated.engine import SimulatedEngine, machine_of
from vtune.execution.engines.simulated.surface import Surface
from vtune.execution.engines.simulated.surfaces import SHORT_EPOCHS, SURFACES, misspecified
from vtune.execution.engines.simulated.truth import true_whole_run_rate
from vtune.execution.read import read_trial
from vtune.journal.paths import TrialPaths

RANKED_BY: RankedBy = "samples_per_s_whole_run"
WORKERS, PREFETCH, PERSISTENT, PIN = (0, 1, 2, 3, 4, 6, 8, 12, 16), (1, 2, 4, 8), (False, True), (False, True)
# Of the user's own.
BATCHES = (0.5, 1, 2, 4)
SETTINGS, TRUTH_BATCHES, TRUTH_BATCHES_IF_UNEVEN = 40, 4000, 8000
# Draws of the four further trials.
DRAWS = 5
AFTER = (1, 2, 6)
# Predictions that are closer than this are one: the least of them is the first pick.
EQUAL = 0.99
SEED = 31
Settings = dict[str, Scalar]


@dataclass(frozen=True)
class Task:
    surface: Surface
    misspecified: bool
    settings: int


def one_surface(task: Task) -> dict[str, Any]:
    # Batches in proportion to the settings, so that a smoke run is one.
    full = task.settings == SETTINGS
    surface = replace(task.surface, validation_s=0.0)
    surface = misspecified(surface) if task.misspecified else surface
    uneven = task.misspecified or surface.sample.slow_fraction > 0
    batches = (TRUTH_BATCHES_IF_UNEVEN if uneven else TRUTH_BATCHES) if full else 400
    asked = [{}, second(surface), *grid(surface, task.settings)]
    records, truths = [], []
    engine = SimulatedEngine(surface)
    with tempfile.TemporaryDirectory() as scratch:
        for number, settings in enumerate(asked, 1):
            record = measured(engine, Path(scratch) / str(number), settings, number, records[:1])
            if record.status is TrialStatus.COMPLETED:
                records.append(record)
                truths.append(true_whole_run_rate(surface, settings, batches=batches))
    found = {str(after): predicted(surface, records, truths, after, draws=DRAWS if full else 1) for after in AFTER}
    return {
        "surface": surface.name,
        "misspecified": task.misspecified,
        "settings": len(truths),
        "after": found,
        "measured": own_error(records, truths, machine_of(surface).cores),
    }


def second(surface: Surface) -> Settings:
    """What a user would try: more workers, as far as there are cores, and twice the batch where it fits."""
    own, batch = surface.settings["workers"], surface.settings["batch_size"]
    assert isinstance(own, int) and isinstance(batch, int)
    workers = int(min(max(8, 2 * own), machine_of(surface).cores))
    point: Settings = {**surface.settings, "workers": workers, "batch_size": 2 * batch}
    fitting = fits(surface, {"prefetch_factor": 2, **point})
    return {"workers": workers, **({"batch_size": 2 * batch} if fitting else {})}


def grid(surface: Surface, count: int) -> list[Settings]:
    own = surface.settings["batch_size"]
    assert isinstance(own, int)
    sizes = sorted({max(1, int(own * factor)) for factor in BATCHES})
    points = [
        {"workers": workers, "prefetch_factor": prefetch, "batch_size": batch, "persistent_workers": kept,
         "pin_memory": pin}
        for workers, prefetch, batch, kept, pin in itertools.product(WORKERS, PREFETCH, sizes, PERSISTENT, PIN)
        if workers or (prefetch == 2 and not kept)
    ]  # fmt: skip
    fitting = [point for point in points if fits(surface, point)]
    order = np.random.default_rng(SEED).permutation(len(fitting))
    return [_asked(surface, fitting[at]) for at in order[:count]]


def fits(surface: Surface, point: Settings) -> bool:
    """With full queues, so that no run of it dies of its luck."""
    workers, prefetch, batch = (int(point[name] or 0) for name in ("workers", "prefetch_factor", "batch_size"))
    memory, device = surface.memory, surface.device
    queue = (workers * prefetch + 2) * batch * surface.sample.batch_bytes
    ram = memory.main_bytes + workers * (memory.worker_bytes + batch * memory.work_bytes) + queue
    vram = 0.0 if device is None else device.base_bytes + batch * device.sample_bytes
    return (
        ram < surface.box.ram_bytes and queue < surface.box.shm_bytes and (device is None or vram < device.vram_bytes)
    )


def _asked(surface: Surface, point: Settings) -> Settings:
    changed = {name: value for name, value in point.items() if surface.settings.get(name) != value}
    return changed if point["workers"] else {k: v for k, v in changed.items() if k not in _OF_WORKERS}


_OF_WORKERS = ("prefetch_factor", "persistent_workers")


def measured(
    engine: SimulatedEngine, folder: Path, settings: Settings, trial: int, earlier: Sequence[TrialRecord]
) -> TrialRecord:
    folder.mkdir()
    spec = TrialSpec(
        trial=trial, origin=OWN.origin, reason=OWN.reason if not settings else "another setting", settings=settings,
        effects=(), command=("train",), cwd=".", env={}, token="simulated",
    )  # fmt: skip
    planned = PlannedRun(epochs=engine.surface.epochs)
    experiment = Experiment(
        study="s", workload=Workload(command=spec.command, cwd=Path(".")), window=WINDOW, planned_run=planned
    )
    watch = replace(WATCH, planned=planned, earlier=tuple(earlier))
    outcome = engine.run(spec, TrialPaths(folder), watch, lambda event: None)
    return read_trial(experiment, machine_of(engine.surface), spec, outcome, TrialPaths(folder), earlier=earlier)


def predicted(
    surface: Surface, records: Sequence[TrialRecord], truths: Sequence[float], after: int, *, draws: int
) -> dict[str, float]:
    logs, covered, widths, regrets, ranks = [], [], [], [], []
    ram, ram_covered, too_big = [], [], 0
    for draw in range(draws if after > 2 else 1):
        further = 2 + np.random.default_rng((SEED, draw)).permutation(len(records) - 2)
        known = [*range(min(after, 2)), *further[: max(0, after - 2)].tolist()]
        machine = machine_of(surface)
        model = fit_model([records[at] for at in known], cores=machine.cores, ram_total_bytes=machine.ram_bytes)
        assert model is not None
        found = [model.predict(record.settings) for record in records]
        rates = np.array([one.samples_per_s for one in found if one is not None])
        bounds = np.array([one.samples_per_s_ci95 for one in found if one is not None])
        truth = np.array(truths)
        new = np.array([at not in known for at in range(len(records))])
        logs += np.log(rates / truth)[new].tolist()
        covered += ((bounds[:, 0] <= truth) & (truth <= bounds[:, 1]))[new].tolist()
        widths += (np.log(bounds[:, 1] / bounds[:, 0]) / 2)[new].tolist()
        for at in np.flatnonzero(new).tolist():
            took, one = _took(records[at]), found[at]
            if one is not None and one.ram_bytes is not None and one.ram_ci95 is not None:
                ram.append(abs(np.log(one.ram_bytes / took)))
                ram_covered.append(one.ram_ci95[0] <= took <= one.ram_ci95[1])
            # All of them ran to their end.
            too_big += model.surely_too_big(records[at].settings, Limits()) is not None
        near = [at for at in range(len(rates)) if rates[at] >= EQUAL * rates.max()]
        pick = min(near, key=lambda at: _burden(records[at]))
        regrets.append(1 - truth[pick] / truth.max())
        ranks.append(int((truth > truth[pick]).sum()) + 1)
    return {
        "median": float(np.median(np.abs(logs))),
        "p95": float(np.percentile(np.abs(logs), 95)),
        "covered": float(np.mean(covered)),
        "half_width": float(np.median(widths)),
        "regret": float(np.mean(regrets)),
        "rank": float(np.mean(ranks)),
        "ram_median": float(np.median(ram)),
        "ram_covered": float(np.mean(ram_covered)),
        "called_too_big": float(too_big),
    }


def _took(record: TrialRecord) -> float:
    """Of RAM, without what a queue that filled up in the window is taken to grow by."""
    measured = record.measurement
    grows = sum(one.to_come_bytes or 0 for one in measured.ram_growth if one.who == "shared")
    return float(max(measured.ram_peak_bytes or 0, (measured.ram_projected_bytes or 0) - grows))


def _burden(record: TrialRecord) -> tuple[float, ...]:
    ran = record.measurement.effective_settings
    return tuple(float(ran.get(name) or 0) for name in ("workers", "batch_size", "prefetch_factor"))


def own_error(records: Sequence[TrialRecord], truths: Sequence[float], cores: float) -> dict[str, float]:
    """What the trials of these settings say themselves: no prediction can be expected to be nearer."""
    rates = [launched_rate(record, RANKED_BY, cores) for record in records]
    logs = np.abs(np.log([rate.value / truth for rate, truth in zip(rates, truths, strict=True)]))
    inside = [
        rate.interval is not None and rate.interval[0] <= truth <= rate.interval[1]
        for rate, truth in zip(rates, truths, strict=True)
    ]
    return {
        "median": float(np.median(logs)),
        "p95": float(np.percentile(logs, 95)),
        "covered": float(np.mean(inside)),
    }


def markdown(rows: Sequence[dict[str, Any]]) -> list[str]:
    out = [
        "| surface | settings | after | error: median | 95 % | in the interval | ± | first pick loses | its rank "
        "| RAM: median error | in the interval | called too big |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        name = f"{row['surface']}{', unmodelled' if row['misspecified'] else ''}"
        for after, found in row["after"].items():
            trials = f"{after} trial{'' if after == '1' else 's'}"
            out.append(
                f"| {name} | {row['settings']} | {trials} | {_percent(found['median'])} | {_percent(found['p95'])} "
                f"| {found['covered']:.0%} | {_percent(found['half_width'])} | {_percent(found['regret'])} "
                f"| {found['rank']:.0f} | {_percent(found['ram_median'])} | {found['ram_covered']:.0%} "
                f"| {found['called_too_big']:.0f} |"
            )
        own = row["measured"]
        told = f"{_percent(own['median'])} | {_percent(own['p95'])} | {own['covered']:.0%}"
        out.append(f"| {name} | {row['settings']} | a trial of each | {told} | | | | | | |")
    return out


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def tasks(only: Sequence[str], settings: int) -> list[Task]:
    chosen = [surface for surface in SURFACES if not only or surface.name in only]
    # Three short epochs are all that the truth of one is made of: too few of costs that drift.
    drifting = [surface for surface in chosen if surface is not SHORT_EPOCHS]
    return [Task(one, False, settings) for one in chosen] + [Task(one, True, settings) for one in drifting]


def main() -> int:
    parser = argparse.ArgumentParser(description="Predictions of settings that were not tried.")
    parser.add_argument("--only", action="append", default=[], help="a surface's name")
    parser.add_argument("--quick", action="store_true", help="a smoke run: the figures mean nothing")
    parser.add_argument("--json", type=Path, help="where the figures go")
    options = parser.parse_args()
    with ProcessPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        rows = list(pool.map(one_surface, tasks(options.only, 8 if options.quick else SETTINGS)))
    if options.json is not None:
        before = json.loads(options.json.read_text(encoding="utf-8")) if options.json.exists() else []
        new = {(row["surface"], row["misspecified"]) for row in rows}
        rows = [*(row for row in before if (row["surface"], row["misspecified"]) not in new), *rows]
        rows.sort(key=lambda row: (row["misspecified"], [one.name for one in SURFACES].index(row["surface"])))
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print("\n".join(markdown(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
