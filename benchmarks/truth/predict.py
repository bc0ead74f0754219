"""One probe of four workers that prefetch two batches each: what it says of eight other settings, each run by itself.

The probe is repeated, so that its own luck shows: a window of 100 batches knows their mean no better than their spread
over ten. Beside the replay the plain rule, the slower of workers / batch time and the training's own pace.
"""

from __future__ import annotations

import statistics
import sys
from typing import Any

from launches import TRAINING, Bench, Failed, Probe
from table import Claim, percent

from vtune.analysis.costs import Costs, costs_of
from vtune.analysis.roles import find_roles
from vtune.analysis.twin import replay
from vtune.analysis.window import start_up_steps, step_windows
from vtune.journal.paths import TrialPaths
from vtune.journal.trial_files import read_trial_files

HERE = (4, 2)
THERE = ((2, 2), (6, 1), (6, 2), (8, 1), (8, 2), (8, 4), (12, 2), (16, 2))
# The loader and the training are even at eight workers. Long beside what queues and wake-ups cost, which sixteen
# workers on two cores make dearer than four do.
SAMPLE_MS, COMPUTE_MS, CV = 160.0, 20.0, 0.25
TRUE_STEPS = 1200
PROBES = 4
BAR = 0.04


def measure(bench: Bench) -> dict[str, Any]:
    there = THERE[2:3] if bench.quick else THERE
    steps, probes = (400, 1) if bench.quick else (TRUE_STEPS, PROBES)
    data: dict[str, Any] = {"steps": steps, "cv": CV, "probes": [], "settings": [], "failures": []}
    # The probes are spread among the long runs, so that neither has the machine to itself at its best.
    every = max(1, len(there) // probes)
    for number, (workers, prefetch) in enumerate(there):
        left_s = sum(5 + 1.1 * steps * step_s(w, p) for w, p in there[number:])
        bench.tell(f"{number + 1}/{len(there)} {workers}×{prefetch}; about {left_s / 60:.0f} min left")
        try:
            if number % every == 0 and len(data["probes"]) < probes:
                data["probes"].append(one_probe(bench, len(data["probes"]), there))
            true = bench.plain([*command(workers, prefetch, seed=100 + number), "--steps", str(steps)]).json
            data["settings"].append({"workers": workers, "prefetch": prefetch, "true": true["samples_per_s"]})
        except Failed as failure:
            data["failures"].append(f"{workers}×{prefetch}: {failure}")
            bench.tell(data["failures"][-1])
        bench.keep(data)
    return data


def step_s(workers: int, prefetch: int) -> float:
    return max(COMPUTE_MS, SAMPLE_MS / workers) / 1e3


def command(workers: int, prefetch: int, *, seed: int) -> list[str]:
    return [
        *(sys.executable, str(TRAINING), "--seed", str(seed), "--cv", f"{CV:g}"),
        *("--workers", str(workers), "--prefetch", str(prefetch)),
        *("--sample-ms", f"{SAMPLE_MS:g}", "--compute-ms", f"{COMPUTE_MS:g}"),
    ]


def one_probe(bench: Bench, number: int, there: tuple[tuple[int, int], ...]) -> dict[str, Any]:
    probe = bench.probe(f"predict-{number}", command(*HERE, seed=number))
    costs = costs_seen(probe)
    own, load = costs.mean_own_s, float(costs.load_s.mean())
    predicted = []
    for workers, prefetch in there:
        found = replay(costs, workers=workers, prefetch=prefetch)
        predicted.append(
            {
                "workers": workers,
                "prefetch": prefetch,
                "replay": found.rate * costs.samples_per_batch,
                "plain": min(workers / load, 1 / own) * costs.samples_per_batch,
            }
        )
    return {"rate": probe.trial["samples_per_s"], "steps": probe.trial["steps_measured"], "predicted": predicted}


def costs_seen(probe: Probe) -> Costs:
    """What the trial's own rate was replayed from."""
    log = read_trial_files(TrialPaths(probe.folder)).log
    roles = find_roles(log.steps, log.delivered, log.facts)
    windows = step_windows(roles) if roles is not None else []
    regular = [window for window in windows[start_up_steps(windows) :] if not window.boundary]
    costs = costs_of(roles, log.loaded, regular) if roles is not None else None
    if costs is None:
        raise Failed("the probe did not see both sides of the loader")
    return costs


def compared(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Each setting with the errors of each probe's two predictions."""
    found = []
    for setting in data["settings"]:
        errors: dict[str, list[float]] = {"replay": [], "plain": []}
        for probe in data["probes"]:
            for one in probe["predicted"]:
                if (one["workers"], one["prefetch"]) == (setting["workers"], setting["prefetch"]):
                    for name in errors:
                        errors[name].append(one[name] / setting["true"] - 1)
        found.append({**setting, **errors})
    return found


def mean_errors(data: dict[str, Any], name: str) -> list[float]:
    """Of each probe, over the settings."""
    settings = compared(data)
    probes = range(len(data["probes"]))
    return [statistics.fmean(abs(one[name][n]) for one in settings) for n in probes] if settings else []


def claims(data: dict[str, Any]) -> list[Claim]:
    means = mean_errors(data, "replay")
    what = f"one probe of 4×2 predicts {len(data['settings'])} other settings, mean error"
    if not means:
        return [Claim(what, "< 4 %", "not measured", False)]
    mean = statistics.fmean(means)
    each = ", ".join(percent(one) for one in means)
    return [Claim(what, "< 4 %", f"{percent(mean)} ({len(means)} probes: {each})", mean < BAR)]


def lines(data: dict[str, Any]) -> list[str]:
    if not data["settings"] or not data["probes"]:
        return []
    out = [
        "| workers × prefetch | run by itself, samples/s | predicted by each probe | plain rule |",
        "|---|---|---|---|",
    ]
    for one in compared(data):
        replays, plains = (", ".join(f"{error:+.1%}" for error in one[name]) for name in ("replay", "plain"))
        out.append(f"| {one['workers']}×{one['prefetch']} | {one['true']:.1f} | {replays} | {plains} |")
    plain = percent(statistics.fmean(mean_errors(data, "plain")))
    steps = ", ".join(str(probe["steps"]) for probe in data["probes"])
    out += [
        "",
        f"Batch costs of CV {data['cv']:g}; the loader's and the training's pace are even at eight workers. The probes"
        f" measured {steps} steps. Mean error of the plain rule: {plain}.",
    ]
    return out
