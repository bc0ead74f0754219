"""A whole epoch of the quickstart, projected from one trial, against epochs as they run. The two take turns."""

from __future__ import annotations

import statistics
import sys
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from launches import ROOT, Bench, Failed
from table import Claim, percent

ROUNDS = 4
# The first epoch starts the process's caches; the others are what a long run consists of.
EPOCHS = 3
ROUND_S = 150.0
# Of an epoch, where only the harness is tried.
QUICK_STEPS = 40
BAR = 0.05


def measure(bench: Bench) -> dict[str, Any]:
    rounds, epochs = (1, 2) if bench.quick else (ROUNDS, EPOCHS)
    rows: list[dict[str, Any]] = []
    failures: list[str] = []
    for number in range(rounds):
        bench.tell(f"{number + 1}/{rounds}; about {(rounds - number) * ROUND_S / 60:.0f} min left")
        try:
            config = written_config(bench.scratch / str(number), epochs, QUICK_STEPS if bench.quick else None)
            if number % 2:
                run, told = as_run(bench, config), projected(bench, config, number)
            else:
                told, run = projected(bench, config, number), as_run(bench, config)
            rows.append({**told, **run})
        except Failed as failure:
            failures.append(str(failure))
            bench.tell(str(failure))
        bench.keep({"rows": rows, "failures": failures})
    return {"rows": rows, "failures": failures}


def written_config(folder: Path, epochs: int, steps: int | None) -> Path:
    """The quickstart as it is, its output kept apart; more than one epoch, so that there is one after the first."""
    folder.mkdir()
    config = yaml.safe_load((ROOT / "configs" / "quickstart.yaml").read_text(encoding="utf-8"))
    config["output_dir"] = str(folder / "output")
    config["training"]["max_epochs"] = epochs
    if steps is not None:
        config["training"]["train_iterations_per_epoch"] = steps
    path = folder / "quickstart.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def projected(bench: Bench, config: Path, number: int) -> dict[str, Any]:
    said = bench.vtune(
        "probe", "--json", "--quiet", "--config", config, "--study", f"epoch-{number}", "--results", bench.scratch
    )
    if said.code != 0:
        raise Failed(f"probe: {said.why}")
    trial = said.json["trial"]
    bench.note_others(trial.get("others_cores"))
    return {
        "projected_epoch_s": trial["projected"]["epoch_s"],
        "rate": trial["samples_per_s"],
        "ci95": trial["samples_per_s_ci95"],
        "rate_from": trial.get("rate_from"),
        "restart_s": trial.get("epoch_restart_s") or trial.get("first_batch_s"),
        "steps_measured": trial["steps_measured"],
    }


def as_run(bench: Bench, config: Path) -> dict[str, Any]:
    """By the training's own log: from each epoch's end to the next one's."""
    log = Path(yaml.safe_load(config.read_text(encoding="utf-8"))["output_dir"], "logs", "train.log")
    bench.plain([sys.executable, "-m", "vtune.pipelines.unet3d.train", "--config", config])
    ends = [at for at, words in times(log) if words.startswith("Epoch ") and " done" in words]
    return {"epochs_s": [(after - before).total_seconds() for before, after in pairwise(ends)]}


def times(log: Path) -> list[tuple[datetime, str]]:
    found = []
    for line in log.read_text(encoding="utf-8").splitlines():
        day, clock, words = line.split(" ", 2)
        found.append((datetime.strptime(f"{day} {clock}", "%Y-%m-%d %H:%M:%S,%f"), words))
    return found


def error(row: dict[str, Any]) -> float | None:
    if row["projected_epoch_s"] is None or not row["epochs_s"]:
        return None
    value: float = row["projected_epoch_s"] / statistics.fmean(row["epochs_s"]) - 1
    return value


def claims(data: dict[str, Any]) -> list[Claim]:
    errors = [found for row in data["rows"] if (found := error(row)) is not None]
    if not errors:
        return [Claim("an epoch of the quickstart, projected", "< 5 %", "not measured", False)]
    worst = max(errors, key=abs)
    figure = f"{worst:+.1%} at worst, {percent(statistics.fmean(map(abs, errors)))} on average, {len(errors)} trials"
    return [Claim("an epoch of the quickstart, projected", "< 5 %", figure, abs(worst) < BAR)]


def lines(data: dict[str, Any]) -> list[str]:
    out = [
        "| projected from one trial | epochs as run | error | samples/s | restart of the loader |",
        "|---|---|---|---|---|",
    ]
    for row in data["rows"]:
        found = error(row)
        epochs = ", ".join(f"{seconds:.1f}" for seconds in row["epochs_s"])
        out.append(
            f"| {row['projected_epoch_s']:.1f} s | {epochs} s | {found:+.1%} | {row['rate']:.2f} |"
            f" {row['restart_s'] or 0:.2f} s |"
            if found is not None
            else f"| none | {epochs} s | | | |"
        )
    return out
