"""The cells of the self-test: what each runs, what it is judged by, and what must hold before it can be judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from vtune.domain.record import TrialRecord
from vtune.domain.selftest import Verdict
from vtune.domain.trial import TrialStatus
from vtune.selftest import verdicts
from vtune.selftest.bench import Bench
from vtune.selftest.cpu_runs import (
    LOADERS,
    LONG,
    SHORT,
    STEP_MS,
    WINDOWS,
    kill_run,
    loader_run,
    memory_run,
    turns_run,
    window_run,
)
from vtune.selftest.readings import Records, batches_by_worker, own_rate, paces

BATCH = 4
SIGKILL = 9
# File systems whose files are no page cache that could be given back.
IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs")
Run = Callable[[Bench], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    name: str
    title: str
    # Names of the runs whose records it reads.
    runs: tuple[str, ...]
    judge: Callable[[Records], Verdict]
    # Cells without which this one says nothing: a rate by a wrong clock is a wrong rate.
    needs: tuple[str, ...] = ()
    gpu: bool = False
    gpus_needed: int = 0
    # Of times on the wall, which neighbours disturb that no kernel here sees: those of a virtual machine's host.
    compares_times: bool = False


def of_record(record: TrialRecord) -> Verdict | None:
    """Why the trial itself gave nothing to judge."""
    if record.status is TrialStatus.COMPLETED:
        return None
    return verdicts.not_carried_out(f"the known training is {record.status.value}: {record.detail}")


def _clocks(records: Records) -> Verdict:
    known = records.trial("loader-4")
    return of_record(known.record) or verdicts.clocks(*paces(known))


def _memory(records: Records) -> Verdict:
    base, shared, own, _ = records.json("memory", "stages.json")
    if None in (own["seen_tree_bytes"], base["seen_tree_bytes"]):
        return verdicts.tree_memory(None, own["tree_bytes"], ())
    grown = own["seen_tree_bytes"] - base["seen_tree_bytes"]
    before, after = shared["seen_rss_bytes"][1:], own["seen_rss_bytes"][1:]
    children = [(b - a, own["child_own_bytes"]) for a, b in zip(before, after, strict=True) if None not in (a, b)]
    if len(children) != len(after):
        return verdicts.failed(f"expected {len(after)} children, seen {len(children)}")
    return verdicts.tree_memory(grown, own["tree_bytes"], children)


def _mapped(records: Records) -> Verdict:
    filesystem = records.note("memory").get("filesystem")
    if filesystem in IN_MEMORY:
        return verdicts.not_carried_out(
            f"the results folder is on {filesystem}, where a file is memory: choose one on a disk with --results"
        )
    *_, own, mapped = records.json("memory", "stages.json")
    if None in (own["seen_tree_bytes"], mapped["seen_tree_bytes"]):
        return verdicts.mapped_file(None, (), mapped["file_bytes"])
    grew = [b - a for a, b in zip(own["seen_rss_bytes"][1:], mapped["seen_rss_bytes"][1:], strict=True) if a and b]
    return verdicts.mapped_file(mapped["seen_tree_bytes"] - own["seen_tree_bytes"], grew, mapped["file_bytes"])


def rate_of(run: str, loader: str, *, on_device: bool = False) -> Callable[[Records], Verdict]:
    def judge(records: Records) -> Verdict:
        known = records.trial(run)
        own, own_wait = own_rate(known)
        measured = known.record.measurement
        return of_record(known.record) or verdicts.rates(
            measured.samples_per_s,
            own,
            measured.data_wait_fraction,
            own_wait,
            known_rate(LOADERS[loader], on_device=on_device),
        )

    return judge


def known_rate(known: dict[str, int], *, on_device: bool = False) -> float:
    """Without workers the main process loads: while a device works, but not while it sleeps for one itself."""
    load, compute, workers = known["load_ms"], known["compute_ms"], known["workers"]
    apart = not workers and not on_device
    return BATCH / ((load + compute if apart else max(compute, load / max(1, workers))) / 1e3)


def _workers(records: Records) -> Verdict:
    found = []
    for run in ("loader-4", "loader-6"):
        known = records.trial(run)
        resident = len(known.record.measurement.workers_rss_bytes)
        seen, used = batches_by_worker(known)
        verdict = of_record(known.record) or verdicts.workers(LOADERS[run]["workers"], resident, seen, used)
        if verdict.status != "passed":
            return verdict
        found.append(verdict.sentence)
    return verdicts.passed("; ".join(found))


def instrumentation(run: str) -> Callable[[Records], Verdict]:
    def judge(records: Records) -> Verdict:
        turns = records.json(run, "turns.json")
        if not turns["recorded"]:
            return verdicts.failed("expected the watched process to record its steps, seen no record")
        added_cpu_s = median(turns["watched_cpu"]) - median(turns["plain_cpu"])
        return verdicts.instrumentation(turns["plain"], turns["watched"], STEP_MS / 1e3, added_cpu_s)

    return judge


def _window(records: Records) -> Verdict:
    before, long, after = (records.trial(run) for run in WINDOWS)
    for known in (before, long, after):
        if (without := of_record(known.record)) is not None:
            return without
    shorts = [known.record.measurement.samples_per_s for known in (before, after)]
    others = [known.record.measurement.others_cores for known in (before, long, after)]
    most = max((cores for cores in others if cores is not None), default=None)
    return verdicts.short_and_long(shorts, long.record.measurement.samples_per_s, (SHORT, LONG), most)


def _killed(records: Records) -> Verdict:
    seen = records.json("kill", "kill.json")
    if seen["steps"] < 1 or not seen["held_folders"] or seen["signal"] != SIGKILL:
        return verdicts.failed(
            f"expected a training that steps until SIGKILL, seen {seen['steps']} steps and signal {seen['signal']}"
        )
    return verdicts.killed(seen["seconds"], seen["left"])


def _sampler(records: Records) -> Verdict:
    seen = records.json("kill", "kill.json")
    return verdicts.sampler_cost(seen["sampler_core"], seen["processes"], records.note("kill").get("others_cores"))


RUNS: dict[str, Run] = {
    **{name: loader_run(name) for name in LOADERS},
    "memory": memory_run,
    "turns": turns_run("turns", arguments=[f"--compute-ms={STEP_MS}"]),
    **{name: window_run(name, steps) for name, steps in WINDOWS.items()},
    "kill": kill_run,
}

CPU_CELLS: tuple[Cell, ...] = (
    Cell(name="clocks", title="all clocks run at one pace", runs=("loader-4",), judge=_clocks),
    Cell(name="memory", title="memory of a known tree", runs=("memory",), judge=_memory),
    Cell(name="mapped_file", title="a mapped file is page cache", runs=("memory",), judge=_mapped),
    *(
        Cell(
            name=f"rate_{number}",
            title=f"known loader × step: {known['workers']} workers, {known['load_ms']} × {known['compute_ms']} ms",
            runs=(run,),
            judge=rate_of(run, run),
            needs=("clocks",),
        )
        for number, (run, known) in enumerate(LOADERS.items(), 1)
    ),
    Cell(name="workers", title="every loader worker is seen", runs=("loader-4", "loader-6"), judge=_workers),
    Cell(
        name="instrumentation",
        title="what watching adds to a step",
        runs=("turns",),
        judge=instrumentation("turns"),
        compares_times=True,
    ),
    Cell(
        name="window",
        title=f"{SHORT} steps against {LONG}",
        runs=tuple(WINDOWS),
        judge=_window,
        needs=("clocks",),
        compares_times=True,
    ),
    Cell(name="killed", title="a killed training leaves nothing", runs=("kill",), judge=_killed),
    Cell(name="sampler", title="what looking costs", runs=("kill",), judge=_sampler),
)
