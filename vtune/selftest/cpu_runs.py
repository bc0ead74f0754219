"""The runs that need no GPU: what is started, what is written down. Nothing is judged here."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vtune.errors import MachineError
from vtune.execution import shm
from vtune.execution.engines.local import LocalEngine
from vtune.execution.process_tree import carriers, processes
from vtune.execution.running import RunningTrial
from vtune.execution.sampling import PSS_S, SAMPLE_S
from vtune.journal.files import dump_json
from vtune.journal.paths import TrialPaths
from vtune.journal.records import spec_to_json
from vtune.journal.step_log import StepLog
from vtune.selftest.bench import MEMORY_TREE, STARTUP_S, TRAINING, Bench
from vtune.selftest.verdicts import GONE_WITHIN_S
from vtune.telemetry.scratch import filesystem_of

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
WINDOWS = {"steps-before": SHORT, "steps-long": LONG, "steps-after": SHORT}
PAIRS, BLOCK_STEPS, STEP_MS = 40, 12, 10.0
PATIENCE_S = 30.0
# Workers are up and batches are under way.
STEPS_BEFORE_KILL = 5
AGAIN = "start the self-test once more, on a quieter machine"


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
            told = tree.answer()
            pids[:] = told.pop("pids")
            taken = sampler.sample(time.monotonic(), True)
            others = taken.others_cores
            rss = {process.pid: process.rss_bytes for process in taken.processes}
            stages.append(
                {**told, "seen_tree_bytes": taken.ram_bytes, "seen_rss_bytes": [rss.get(pid) for pid in pids]}
            )
            tree.tell("")
    dump_json(folder / "stages.json", stages)
    bench.note(folder, others_cores=others, filesystem=filesystem_of(folder))


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
                one.line()
            sampler.sample(time.monotonic(), False)
            times: dict[str, list[float]] = {"plain": [], "watched": [], "plain_cpu": [], "watched_cpu": []}
            dice = random.Random(0)
            for _ in range(pairs):
                for which, one in dice.sample([("plain", plain), ("watched", watched)], 2):
                    one.tell(str(block_steps))
                    told = one.answer()
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
    before = shm.segments()
    tree: set[int] = set()
    held: list[str] = []
    core = others = None

    def look(trial: RunningTrial, paths: TrialPaths) -> None:
        nonlocal core, others
        tree.update(trial.pids())
        core, others = _cost_of_looking(bench.sampler(trial.pids, trial.own_pids))
        tree.update(trial.pids())
        held.extend(_temporary_folders(paths.supervisor))

    killed = kill_stepping(bench, "kill", arguments, look)
    left = {
        "processes": sum(one.living for one in carriers(killed.token, processes()).values()),
        "segments of shared memory": len(shm.claim(shm.segments() - before, users=(), namesakes=tree)),
        "temporary folders": sum(os.path.exists(folder) for folder in held),
    }
    values = {
        "steps": killed.steps,
        "processes": len(tree),
        "sampler_core": core,
        "seconds": killed.seconds,
        "left": left,
        "signal": killed.signal,
        "held_folders": len(held),
        "allowed_s": GONE_WITHIN_S,
    }
    dump_json(killed.folder / "kill.json", values)
    bench.note(killed.folder, others_cores=others)


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    folder: Path
    token: str
    steps: int
    signal: int | None
    # From SIGKILL until it was gone; None: it was not, for as long as that was waited for.
    seconds: float | None


def kill_stepping(
    bench: Bench,
    name: str,
    arguments: list[str],
    look: Callable[[RunningTrial, TrialPaths], None],
    *,
    is_gone: Callable[[], bool] = lambda: True,
    patience_s: float = PATIENCE_S,
) -> Killed:
    """Start a training, wait until it steps, `look` at it, kill it, and wait until its processes are gone and
    `is_gone` says so too."""
    spec, paths = bench.prepared(name, arguments)
    dump_json(paths.spec, spec_to_json(spec))
    with LocalEngine(bench.inject).start(spec, paths.root) as trial:
        log = StepLog(paths)
        give_up_s = time.monotonic() + STARTUP_S
        while len(log.steps) < STEPS_BEFORE_KILL:
            early = trial.poll()
            if early is not None or time.monotonic() > give_up_s:
                ended = f"exit code {early.exit_code}, signal {early.signal}" if early else f"none in {STARTUP_S:g} s"
                raise MachineError(f"a known training never came to its step {STEPS_BEFORE_KILL}: {ended}", hint=AGAIN)
            time.sleep(0.05)
            log.refresh()
        look(trial, paths)
        killed_s = time.monotonic()
        if trial.leader_pid is not None and trial.poll() is None:
            os.kill(trial.leader_pid, signal.SIGKILL)
        seconds = None
        while seconds is None and time.monotonic() < killed_s + patience_s:
            if trial.poll() is not None and is_gone():
                seconds = time.monotonic() - killed_s
            else:
                time.sleep(0.05)
        ended_by = trial.poll()
    log.refresh()
    return Killed(
        folder=paths.root.parent,
        token=spec.token,
        steps=len(log.steps),
        signal=ended_by.signal if ended_by is not None else None,
        seconds=seconds,
    )


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
