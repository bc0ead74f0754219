"""What plans of phases find, and what they leave: simulated trainings, against the best of all settings that fit.

    python benchmarks/phases/run.py                    # Markdown to stdout; some ten minutes on one core
    python benchmarks/phases/run.py --only scrolls     # one training
    python benchmarks/phases/run.py --plans guided     # one plan
    python benchmarks/phases/run.py --misspecified     # with effects of some 10 % that no model of a loader knows
    python benchmarks/phases/run.py --json FILE        # the figures as well
    python benchmarks/phases/run.py --quick            # does it work? The figures mean nothing

Each plan is walked by vtune's own loop over a simulated engine, which shares no formula with the analysis. What is
true of settings is a long run of the simulation; what of them fits is by the surface's own arithmetic.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vtune.config.plan_file import bundled_plans, load_plan
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment, Limit, Limits, PlannedRun, Window, Workload
from vtune.domain.phases import AskedPhases, Walk
from vtune.execution.engines.simulated.engine import SimulatedEngine, machine_of
from vtune.execution.engines.simulated.surface import Surface
from vtune.execution.engines.simulated.surfaces import SURFACES, misspecified
from vtune.execution.engines.simulated.truth import true_whole_run_rate
from vtune.journal.study import open_study
from vtune.knobs.registry import knob_named
from vtune.knobs.values import values_of
from vtune.strategies.phases import Phases
from vtune.tuner import Tuning, tune

PLANS = ("ladder", "guided")
# Shares of what the machine and its device have.
RAM, VRAM = 0.6, 0.95
# Of the user's own batch, and in advance by worker.
BATCHES, PREFETCH = (1, 2, 4, 8), (2, 4, 8)
BATCHES_SEEN, QUICK = 1500, 200
Settings = Mapping[str, Scalar]


def grid(surface: Surface) -> Iterator[dict[str, Scalar]]:
    """Every setting that fits, the user's own values of what the plans do not turn."""
    machine, own = machine_of(surface), surface.settings["batch_size"]
    assert isinstance(own, int)
    workers = [value for value in values_of(knob_named("workers"), machine, None) if value]
    for count, times, ahead, stay in itertools.product(workers, BATCHES, PREFETCH, (False, True)):
        assert isinstance(count, int)
        if fits(surface, count, own * times, ahead):
            yield {
                "workers": count,
                "batch_size": own * times,
                "prefetch_factor": ahead,
                "persistent_workers": stay,
            }


def fits(surface: Surface, workers: int, batch: int, ahead: int) -> bool:
    memory, device = surface.memory, surface.device
    queued = (workers * ahead + 2) * batch * surface.sample.batch_bytes
    ram = memory.main_bytes + workers * (memory.worker_bytes + memory.work_bytes * batch) + queued
    vram = device.base_bytes + device.sample_bytes * batch if device is not None else 0.0
    return ram <= RAM * surface.box.ram_bytes and (device is None or vram <= VRAM * device.vram_bytes)


def experiment_of(surface: Surface) -> Experiment:
    """With a config that names what the surface runs with, so that each knob has a way that needs no scout."""
    named = {"accumulate_steps": 1, "persistent_workers": False, "pin_memory": False, **surface.settings}
    config = {"training": {("train_batch_size" if name == "batch_size" else name): v for name, v in named.items()}}
    return Experiment(
        study=surface.name,
        workload=Workload(command=("python", "train.py", "{config}"), cwd=Path("."), config=config),
        limits=Limits(ram=Limit(fraction=RAM, text=f"{RAM:.0%}"), vram=Limit(fraction=VRAM, text=f"{VRAM:.0%}")),
        window=Window(trial_time_s=1e6, startup_time_s=1e6),
        planned_run=PlannedRun(epochs=surface.epochs),
    )


def walked(surface: Surface, plan: str) -> tuple[Walk, int, int]:
    """And the launches that it took: those of the phases, and those of the race."""
    experiment, machine = experiment_of(surface), machine_of(surface)
    phases = Phases(AskedPhases(plan=load_plan(plan)), experiment, machine)
    with tempfile.TemporaryDirectory() as scratch, open_study(Path(scratch), surface.name, machine) as study:
        tuning = Tuning(
            study=study,
            experiment=experiment,
            engine=SimulatedEngine(surface),
            machine=machine,
            notify=lambda event: None,
        )
        history = tune(tuning, phases)
    raced = sum(record.race is not None for record in history)
    return phases.walk(history), len(history) - raced, raced


def row_of(surface: Surface, plans: Sequence[str], batches: int, *, quick: bool) -> dict[str, Any]:
    def truth(settings: Settings) -> float:
        return true_whole_run_rate(surface, settings, batches=batches)

    every = list(grid(surface))
    rates = {json.dumps(settings): truth(settings) for settings in (every[::40] if quick else every)}
    best = max(rates, key=lambda one: rates[one])
    row: dict[str, Any] = {"training": surface.name, "settings": len(rates), "best": json.loads(best), "plans": {}}
    row["best_gain"] = rates[best] / truth({})
    for plan in plans:
        walk, trials, raced = walked(surface, plan)
        found = truth(walk.settings)
        row["plans"][plan] = {
            "trials": trials,
            "raced": raced,
            "settings": dict(walk.settings),
            "gain": found / truth({}),
            # Plans also turn what the grid does not.
            "regret": max(0.0, 1 - found / rates[best]),
        }
    return row


def table(rows: Sequence[dict[str, Any]], plans: Sequence[str]) -> list[str]:
    titles = " | ".join(f"{plan}: trials | × yours | regret" for plan in plans)
    out = [f"| training | settings that fit | best | {titles} |", "|---" * (3 + 3 * len(plans)) + "|"]
    for row in rows:
        cells = []
        for plan in plans:
            one = row["plans"][plan]
            raced = f" + {one['raced']} of a race" if one["raced"] else ""
            cells.append(f"{one['trials']}{raced} | {one['gain']:.3g} | {100 * one['regret']:.1f} %")
        out.append(f"| {row['training']} | {row['settings']} | {row['best_gain']:.3g} | {' | '.join(cells)} |")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=[surface.name for surface in SURFACES])
    parser.add_argument("--plans", nargs="+", choices=bundled_plans(), default=PLANS)
    parser.add_argument("--misspecified", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    rows = []
    batches = QUICK if options.quick else BATCHES_SEEN
    for surface in SURFACES:
        if options.only not in (None, surface.name):
            continue
        asked = misspecified(surface) if options.misspecified else surface
        rows.append(row_of(asked, options.plans, batches, quick=options.quick))
        sys.stderr.write(f"{surface.name}: {json.dumps(rows[-1]['plans'])}\n")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write("\n".join(table(rows, options.plans)) + "\n")


if __name__ == "__main__":
    main()
