"""What is true of the rehearsal: its grid of settings, run for real and without vtune, beside the arithmetic.

    python benchmarks/emulated/brute_force.py --reduced     # about 4 minutes
    python benchmarks/emulated/brute_force.py               # all 108 settings, about half an hour

Each setting is one plain run of train.py, its two constants edited as a user would edit them: one epoch of some seconds
and the beginning of the next. An epoch is so much shorter than the real one that what a worker keeps of each sample is
larger by as much: memory at its end is memory at the real one's end.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
CONFIG = HERE.parents[1] / "configs" / "exp001_rehearsal.yaml"
RESULT = HERE / "results" / "brute_force.json"
# The workers of the documented phases, and as many as the declared cores.
WORKERS, BATCHES, PREFETCH, PERSISTENT = (1, 2, 4, 6, 8, 12), (1, 2, 4), (1, 2, 4), (False, True)
# A rate needs steps, whatever their time; whole periods of the loss on the CPU.
LEAST_STEPS, MOST_STEPS = 48, 480
# Of the second epoch: only how long it takes to begin.
STEPS_AFTERWARDS = 2
MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    workers: int
    batch: int
    prefetch: int
    persistent: bool

    def __str__(self) -> str:
        kept = ", persistent" if self.persistent else ""
        return f"{self.workers} workers, batch {self.batch}, prefetch {self.prefetch}{kept}"


USERS = Cell(workers=1, batch=1, prefetch=1, persistent=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--reduced", action="store_true", help="every number of workers and batch size, and around the best"
    )
    parser.add_argument("--seconds", type=float, default=8.0, help="of steps, for each setting")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        run_cell(json.loads(options.cell))
        return
    config = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    grid = list(reduced() if options.reduced else everything())
    rows: list[dict[str, Any]] = []
    for number, cell in enumerate(grid, 1):
        rows.append(measure(cell, config, options.seconds))
        sys.stderr.write(f"{number}/{len(grid)} {cell}: {shown(rows[-1])}\n")
    told = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}, emulated GPU",
        "command": " ".join(["python benchmarks/emulated/brute_force.py", *sys.argv[1:]]),
        "rows": rows,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write("\n".join(table(told, config)) + "\n")


def everything() -> Iterator[Cell]:
    for workers, batch, prefetch, persistent in itertools.product(WORKERS, BATCHES, PREFETCH, PERSISTENT):
        yield Cell(workers=workers, batch=batch, prefetch=prefetch, persistent=persistent)


def reduced() -> Iterator[Cell]:
    for batch, workers in itertools.product((1, 2), WORKERS):
        yield Cell(workers=workers, batch=batch, prefetch=1, persistent=False)
    for prefetch, persistent in ((2, False), (4, False), (1, True), (2, True)):
        yield Cell(workers=6, batch=2, prefetch=prefetch, persistent=persistent)
    yield Cell(workers=12, batch=2, prefetch=2, persistent=True)
    yield Cell(workers=6, batch=4, prefetch=1, persistent=False)


def arithmetic(cell: Cell, config: dict[str, Any]) -> tuple[float, float]:
    """Samples a second that the loader delivers, and that the rest of a step takes."""
    data, emulated, loss = config["data"], config["emulated"], config["loss"]
    load_ms = data["open_ms"] + data["sample_ms"] * cell.batch
    surface_ms = loss["surface_ms"] * cell.batch / config["training"]["surface_distance_interval"]
    step_ms = emulated["step_ms"] + emulated["sample_ms"] * cell.batch + surface_ms
    return 1e3 * cell.workers * cell.batch / load_ms, 1e3 * cell.batch / step_ms


def measure(cell: Cell, config: dict[str, Any], seconds: float) -> dict[str, Any]:
    loader, step = arithmetic(cell, config)
    expected = min(loader, step)
    interval = config["training"]["surface_distance_interval"]
    in_flight = cell.workers * cell.prefetch
    # The last ones come from batches that were ready: no new ones are asked for. The first ones pay for the start.
    steps = min(MOST_STEPS, max(LEAST_STEPS, int(seconds * expected / cell.batch))) // interval * interval
    total = steps + 2 * (-(-in_flight // interval) * interval)
    asked = shortened(config, cell, total)
    with tempfile.TemporaryDirectory(prefix="brute-force-") as folder:
        asked["output_dir"] = folder
        told = run(cell, asked)
    row: dict[str, Any] = {
        **asdict(cell),
        "arithmetic_samples_per_s": expected,
        "ram_peak_bytes": told["ram_peak_bytes"],
    }
    if told["stamps"] is None:
        return {**row, "failed": told["failed"]}
    stamps, first = told["stamps"], total - steps - in_flight
    measured = stamps[first : first + steps + 1]
    rate = cell.batch * (len(measured) - 1) / (measured[-1] - measured[0])
    planned = config["training"]
    epoch_samples = planned["train_iterations_per_epoch"] * cell.batch
    run_samples = planned["train_iterations_per_epoch"] * USERS.batch * planned["max_epochs"]
    # From the last step of an epoch to the first of the next, checkpoint included.
    restart_s = stamps[total] - stamps[total - 1]
    run_s = stamps[0] - told["begun"] + run_samples / rate + (run_samples / epoch_samples) * restart_s
    return {
        **row,
        "samples_per_s": rate,
        "samples_per_s_whole_run": run_samples / run_s,
        "restart_s": restart_s,
        "steps": len(measured) - 1,
        "vram_peak_bytes": told["vram_peak_bytes"],
    }


def shortened(config: dict[str, Any], cell: Cell, steps: int) -> dict[str, Any]:
    planned = config["training"]
    # What workers keep: of an epoch's samples, or where they persist of the run's, as many as the user's own has.
    epochs = planned["max_epochs"] * USERS.batch / cell.batch if cell.persistent else 1
    shorter = planned["train_iterations_per_epoch"] / steps * epochs
    training = {
        **planned,
        "workers": cell.workers,
        "train_batch_size": cell.batch,
        "train_iterations_per_epoch": steps,
        "max_epochs": 2,
    }
    data = {**config["data"], "kept_kb": config["data"]["kept_kb"] * shorter}
    return {name: value for name, value in config.items() if name != "vtune"} | {"training": training, "data": data}


def run(cell: Cell, config: dict[str, Any]) -> dict[str, Any]:
    asked = json.dumps({"cell": asdict(cell), "config": config})
    environment = {name: value for name, value in os.environ.items() if name != "FAKE_NVML_STATE"}
    child = subprocess.Popen(
        [sys.executable, __file__, "--cell", asked],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**environment, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )  # fmt: skip
    peak = 0
    try:
        while child.poll() is None:
            peak = max(peak, memory_of(child.pid))
            time.sleep(0.2)
        said, complaint = child.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, 9)
    lines = [line for line in said.splitlines() if line.startswith("{")]
    if child.returncode or not lines:
        last = (complaint.strip().splitlines() or ["no word"])[-1]
        return {"stamps": None, "failed": last, "ram_peak_bytes": peak}
    return {**json.loads(lines[-1]), "ram_peak_bytes": peak}


def memory_of(root: int) -> int:
    """Of the tree: anonymous and shared memory, pages of several processes counted once."""
    pids, total = [root], 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                pids += [int(word) for word in (task / "children").read_text().split()]
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith(("Pss_Anon:", "Pss_Shmem:")):
                    total += int(line.split()[1]) * 1024
    return total


class Enough(Exception):
    """All that was wanted has been seen."""


def run_cell(asked: dict[str, Any]) -> None:
    """In a process of its own: the training, as if the user had edited its constants."""
    begun = time.perf_counter()
    import torch
    import train
    from torch.optim.optimizer import register_optimizer_step_post_hook

    cell, config = asked["cell"], asked["config"]
    train.PREFETCH_FACTOR, train.PERSISTENT_WORKERS = cell["prefetch"], cell["persistent"]
    stamps: list[float] = []
    wanted = config["training"]["train_iterations_per_epoch"] + STEPS_AFTERWARDS

    def stepped(*_: object) -> None:
        stamps.append(time.perf_counter())
        if len(stamps) == wanted:
            raise Enough

    register_optimizer_step_post_hook(stepped)
    with contextlib.suppress(Enough):
        train.train(config)
    device: Any = vars(torch)["emulated"]
    free, total = device.mem_get_info()
    sys.stdout.write(json.dumps({"begun": begun, "stamps": stamps, "vram_peak_bytes": total - free}) + "\n")


def shown(row: dict[str, Any]) -> str:
    return row.get("failed") or f"{row['samples_per_s']:.1f} samples/s, RAM {row['ram_peak_bytes'] / MB:.0f} MB"


def table(told: dict[str, Any], config: dict[str, Any]) -> list[str]:
    rows = told["rows"]
    limits = config["vtune"]["limits"]
    ram = float(limits["ram"].removesuffix("MB")) * MB
    vram = float(limits["vram"].removesuffix("%")) / 100 * config["emulated"]["memory_mb"] * MB
    users = next(row for row in rows if all(row[name] == value for name, value in asdict(USERS).items()))
    out = [
        f"{told['date']} · {told['machine']} · `{told['command']}`",
        "",
        "| workers | batch | prefetch | persistent | by arithmetic | samples/s | whole run | × yours | RAM | VRAM |"
        " within the limits |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        named = f"| {row['workers']} | {row['batch']} | {row['prefetch']} | {'yes' if row['persistent'] else 'no'} |"
        if "failed" in row:
            out.append(f"{named} {row['arithmetic_samples_per_s']:.1f} | - | - | - | - | - | no: {row['failed']} |")
            continue
        over = [name for name, most in (("ram", ram), ("vram", vram)) if row[f"{name}_peak_bytes"] > most]
        whole = row["samples_per_s_whole_run"]
        out.append(
            f"{named} {row['arithmetic_samples_per_s']:.1f} | {row['samples_per_s']:.1f} | {whole:.1f} |"
            f" {whole / users['samples_per_s_whole_run']:.1f} | {row['ram_peak_bytes'] / MB:.0f} MB |"
            f" {row['vram_peak_bytes'] / MB:.0f} MB | {'no: ' + ' and '.join(over).upper() if over else 'yes'} |"
        )
    return out


if __name__ == "__main__":
    main()
