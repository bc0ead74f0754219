"""A small folder with everything that a command reads: a training, configs, a plan, a study with three trials."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path

from vtune.journal.files import to_json
from vtune.telemetry.machine import this_machine

EXPERIMENT = """\
vtune:
  command: python train.py --config {config}
  limits: {ram: 85%}
  window: {steps: 20, trial_time: 3m}
  run: {epochs: 3}
  price: 3.67/h
  knobs:
    prefetch_factor: {values: [2, 4]}
    lr: {key: optimizer.lr, values: [0.1, 0.5]}
  settings: {workers: 2}
training:
  workers: 1
  batch_size: 2
optimizer: {lr: 0.1}
output_dir: runs
"""
NAMED = """\
vtune:
  command: python train.py --config {config} --num-workers 2
  config: NAME
  cwd: .
  env: {OMP_NUM_THREADS: "1"}
  resume: "--resume"
"""
TRAINING = {
    ".yaml": "training: {workers: 1, batch_size: 2}\nlr: 0.1\nname: first\nlog_dir: logs\n",
    ".json": '{"training": {"workers": 1, "batch_size": 2}, "lr": 0.1, "name": "first", "output_dir": "runs"}\n',
    ".toml": 'lr = 0.1\nname = "first"\n[training]\nworkers = 1\nbatch_size = 2\n',
}
PLAN = """\
about: three phases
phases:
  - turn: {workers: [1, 2]}
    extend: [4]
    steps: [20, 40]
  - rungs: [{batch_size: x2}, {batch_size: 4, workers: 2}]
    accumulate_instead: true
    risk: high
    watch_for: memory
    success: {gpu_util: 50%}
  - by_model: prefetch_factor
    if_allowed: true
options:
  A: {workers: 4, prefetch_factor: 4}
"""
STUDY = "demo"


@functools.cache
def _machine() -> str:
    """This one: a study of another machine is refused before anything else of it is read."""
    return json.dumps(to_json(this_machine()))


def record(trial: int, rate: float, workers: int) -> dict[str, object]:
    settings = {"workers": workers, "batch_size": 2}
    return {
        "schema": 1, "trial": trial, "origin": "probe", "settings": settings, "reason": "the current settings",
        "status": "completed", "detail": None, "seconds": 34.1, "samples_per_s": rate,
        "samples_per_s_ci95": [rate * 0.97, rate * 1.03], "steps_measured": 60, "steady": True,
        "step_time_s": {"p10": 0.15, "p50": 0.16, "p90": 0.19, "p99": 0.31, "mean": 0.165}, "data_wait_fraction": 0.8,
        "compute_samples_per_s": 71.0, "loader_samples_per_s": 12.4, "first_batch_s": 3.1,
        "samples_per_s_whole_run": rate,
        "gpus": [], "ram_peak_bytes": 3 * 2**30, "shm_peak_bytes": 2**20, "workers_rss_bytes": [7 * 2**28],
        "cache": "warm", "projected": {"epoch_s": 325.0, "run_s": 10400.0, "cost": 10.6}, "bottleneck": "data",
        "verdict": "data-bound", "why": ["because"], "next": ["try --set workers=4"], "headroom": 5.8,
        "effective_batch": 2, "samples_per_epoch": 4000, "effective_settings": settings, "notes": [], "evidence": {},
        "asked": {} if trial == 1 else {"workers": workers},
    }  # fmt: skip


def build(folder: Path) -> None:
    (folder / "train.py").write_text("import argparse\nargparse.ArgumentParser().add_argument('--config')\n")
    (folder / "exp.yaml").write_text(EXPERIMENT)
    (folder / "plan.yaml").write_text(PLAN)
    for suffix, text in TRAINING.items():
        (folder / f"user{suffix}").write_text(text)
        (folder / f"named{suffix[1:]}.yaml").write_text(NAMED.replace("NAME", f"user{suffix}"))
    study = folder / "results" / STUDY
    records = [record(1, 10.0, 1), record(2, 20.0, 2), record(3, 19.0, 4)]
    for one in records:
        trial = study / "trials" / f"{one['trial']:04d}"
        trial.mkdir(parents=True)
        command = ["python", "train.py", "--config", str(trial / "config.yaml")]
        spec = {"schema": 1, "trial": one["trial"], "command": command, "cwd": str(folder), "env": {}, "settings": {}}
        turned = {"kind": "SetDataLoaderOption", "option": "num_workers", "value": 2, "loader": "abc"}
        (trial / "spec.json").write_text(json.dumps({**spec, "effects": [turned]}))
        (trial / "outcome.json").write_text(json.dumps({"ended_by": "window", "exit_code": 0, "seconds": 30.0}))
        (trial / "config.yaml").write_text("training: {workers: 1, batch_size: 2}\n")
        (trial / "steps-7.jsonl").write_text('{"fact": "hello", "t": 1.0, "torch": "2.9", "executable": "python"}\n')
    (study / "journal.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    (study / "machine.json").write_text(_machine())
    (study / "experiment.yaml").write_text(EXPERIMENT.replace("train.py", str(folder / "train.py")))
    (study / "choice.json").write_text(json.dumps({"schema": 1, "best": 2}))
    (study / "scout.json").write_text(json.dumps({"question": "", "train_loader": "abc", "where": "", "settings": {}}))
    (study / "ignored-flags.json").write_text(json.dumps({"question": "", "flags": ["--workers"]}))
    (folder / "results" / ".last-study").write_text(f"{STUDY}\n")
    told = {"study": STUDY, "trials": records, "best": records[1], "machine": json.loads(_machine())}
    (folder / "result.json").write_text(json.dumps(told))


def state_of(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Kind, size and time of each file: a call that refuses leaves all of them as they are."""
    found = {}
    for above, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(above, name)
            stat = os.lstat(path)
            found[path] = (stat.st_mode, stat.st_size if name in files else 0, stat.st_mtime_ns)
    return found
