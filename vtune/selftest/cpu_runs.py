"""The runs that need no GPU: what is started, what is written down. Nothing is judged here."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vtune.errors import MachineError
from vtune.execution import shm
from vtune.execution.engines.local import LocalEngine
from vtune.execution.process_tree import carriers, processes
from vtune.execution.sampling import PSS_S, SAMPLE_S
from vtune.journal.files import dump_json
from vtune.journal.records import spec_to_json
from vtune.journal.step_log import StepLog
from vtune.selftest.bench import MEMORY_TREE, STARTUP_S, TRAINING, Bench
from vtune.selftest.verdicts import GONE_WITHIN_S

# Loader × step: with and without workers, the loader much slower, slower, as fast, and faster than the step, with a
# shallow and a deep queue. Milliseconds of a batch of four and of a step; none so short that a sleep's 0.1 ms shows.
LOADERS = {
    "loader-1": {"workers": 0, "load_ms": 10, "compute_ms": 20},
    "loader-2": {"workers": 0, "load_ms": 30, "compute_ms": 10},
    "loader-3": {"workers": 1, "load_ms": 40, "compute_ms": 15},
    "loader-4": {"workers": 2, "load_ms": 30, "compute_ms": 30},
    "loader-5": {"workers": 2, "load_ms": 80, "compute_ms": 20},
    "loader-6": {"workers": 4, "load_ms": 80, "compute_ms": 30, "prefetch": 4},
}
LOADER_STEPS = 50
SHORT, LONG = 60, 600
PAIRS, BLOCK_STEPS, STEP_MS = 40, 12, 10.0
PATIENCE_S = 30.0


def loader_run(name: str) -> Callable[[Bench], None]:
    def run(bench: Bench) -> None:
        bench.trial(name, loader_arguments(LOADERS[name]), steps=LOADER_STEPS)

    return run


def loader_arguments(known: dict[str, int]) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in known.items()]


def window_run(name: str, steps: int) -> Callable[[Bench], None]:
    def run(bench: Bench) -> None:
        bench.trial(name, ["--workers=2", "--load-ms=16", "--compute-ms=12"], steps=steps)

    return run


def memory_run(bench: Bench) -> None:
    """Stages of a tree, and what the sampler says of each."""
    folder = bench.folder("memory")
    stages: list[dict[str, Any]] = []
    others = None
    with bench.script(MEMORY_TREE, str(folder)) as tree:
        pids: list[int] = [tree.pid]
        sampler = bench.sampler(lambda: pids)
        for _ in range(4):
            told = answer(tree)
            pids[:] = told.pop("pids")
            taken = sampler.sample(time.monotonic(), True)
            others = taken.others_cores
            rss = {process.pid: process.rss_bytes for process in taken.processes}
            stages.append(
                {**told, "seen_tree_bytes": taken.ram_bytes, "seen_rss_bytes": [rss.get(pid) for pid in pids]}
            )
            tell(tree, "")
    dump_json(folder / "stages.json", stages)
    bench.note(folder, others_cores=others)


def turns_run(
    name: str, *, arguments: list[str], pairs: int = PAIRS, block_steps: int = BLOCK_STEPS
) -> Callable[[Bench], None]:
    """Two processes of one training, with and without the hooks; blocks of steps take turns, so that both meet the
    same machine. The one that does not have its turn waits for a line."""

    def run(bench: Bench) -> None:
        folder = bench.folder(name)
        trial = folder / "watched"
        trial.mkdir()
        dump_json(trial / "spec.json", {"effects": []})
        path = os.pathsep.join(part for part in (str(bench.inject), os.environ.get("PYTHONPATH")) if part)
        hooks = {"VTUNE_TRIAL": str(trial), "VTUNE_TOKEN": "selftest", "PYTHONPATH": path}
        with (
            bench.script(TRAINING, *arguments, "--turns") as plain,
            bench.script(TRAINING, *arguments, "--turns", env=hooks) as watched,
        ):
            sampler = bench.sampler(lambda: (plain.pid, watched.pid))
            for one in (plain, watched):
                _line(one)
            sampler.sample(time.monotonic(), False)
            times: dict[str, list[float]] = {"plain": [], "watched": [], "plain_cpu": [], "watched_cpu": []}
            dice = random.Random(0)
            for _ in range(pairs):
                for which, one in dice.sample([("plain", plain), ("watched", watched)], 2):
                    tell(one, str(block_steps))
                    told = answer(one)
                    times[which].append(told["seconds"] / block_steps)
                    times[f"{which}_cpu"].append(told["cpu_s"] / block_steps)
            others = sampler.sample(time.monotonic(), False).others_cores
        recorded = any(trial.glob("steps-*.bin"))
        dump_json(folder / "turns.json", {**times, "recorded": recorded})
        bench.note(folder, others_cores=others)

    return run


def kill_run(bench: Bench) -> None:
    """A training with workers, temporary files and batches under way is killed; first the sampler is timed on it."""
    arguments = ["--workers=2", "--load-ms=20", "--compute-ms=10", "--item-kib=512", "--prefetch=4"]
    spec, paths = bench.prepared("kill", arguments)
    before = shm.segments()
    dump_json(paths.spec, spec_to_json(spec))
    with LocalEngine(bench.inject).start(spec, paths.root) as trial:
        log = StepLog(paths)
        give_up_s = time.monotonic() + STARTUP_S
        while len(log.steps) < 5 and trial.poll() is None and time.monotonic() < give_up_s:
            time.sleep(0.05)
            log.refresh()
        tree = list(trial.pids())
        sampler = bench.sampler(trial.pids, trial.own_pids)
        core, others = _cost_of_looking(sampler)
        tree = sorted({*tree, *trial.pids()})
        held = sorted(_temporary_folders(paths.supervisor))
        killed_s = time.monotonic()
        if trial.leader_pid is not None and trial.poll() is None:
            os.kill(trial.leader_pid, signal.SIGKILL)
        while trial.poll() is None and time.monotonic() < killed_s + PATIENCE_S:
            time.sleep(0.05)
        ended = trial.poll()
        seconds = time.monotonic() - killed_s if ended is not None else None
    left = {
        "processes": sum(one.living for one in carriers(spec.token, processes()).values()),
        "segments of shared memory": len(shm.claim(shm.segments() - before, users=(), namesakes=set(tree))),
        "temporary folders": sum(os.path.exists(folder) for folder in held),
    }
    values = {"steps": len(log.steps), "processes": len(tree), "sampler_core": core, "seconds": seconds, "left": left}
    values["signal"] = ended.signal if ended is not None else None
    dump_json(paths.root.parent / "kill.json", {**values, "held_folders": len(held), "allowed_s": GONE_WITHIN_S})
    bench.note(paths.root.parent, others_cores=others)


def _cost_of_looking(sampler: Any) -> tuple[float, float | None]:
    """The share of a core, by the time that this thread itself spent in it, at the rhythm of a trial."""
    plain, dear = 0.0, 0.0
    looks, others = 15, None
    for _ in range(looks):
        begun = time.thread_time()
        others = sampler.sample(time.monotonic(), False).others_cores
        plain += time.thread_time() - begun
        time.sleep(SAMPLE_S)
    for _ in range(2):
        begun = time.thread_time()
        sampler.sample(time.monotonic(), True)
        dear += time.thread_time() - begun
    each = plain / looks
    return each / SAMPLE_S + max(0.0, dear / 2 - each) / PSS_S, others


def _temporary_folders(supervisor: Path) -> set[str]:
    try:
        folder = json.loads(supervisor.read_text(encoding="utf-8")).get("tmpdir")
    except (OSError, ValueError):
        return set()
    return {folder} if folder and os.path.isdir(folder) else set()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise MachineError(
            f"a known training of the self-test ended by itself with exit code {process.wait()}",
            hint="see whether the training's Python can import torch: vtune doctor",
        )
    return line


def answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(_line(process))
    return told


def tell(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(text + "\n")
        process.stdin.flush()
    except BrokenPipeError:
        _line(process)
