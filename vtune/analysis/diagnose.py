"""Where the time goes, why, and what to try: words for the numbers of one trial."""

from __future__ import annotations

from dataclasses import dataclass

from vtune.domain.machine import Machine
from vtune.domain.record import Bottleneck, Diagnosis, Measurement

# Below 5 % waiting nothing in the loader can win more than noise; above 25 % the loader sets the pace.
WAITS_LITTLE = 0.05
WAITS_MUCH = 0.25
# Others that keep more than this share of a core busy make every number here a lower bound.
OTHERS_CORES = 0.3
# The tree keeps this share of the cores busy: more workers would take time from the training itself.
CORES_FULL = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCost:
    """A loader worker's batch, split: its wall time and the share of it spent computing."""

    batch_s: float
    cpu_fraction: float | None


def diagnose(measured: Measurement, machine: Machine, worker: WorkerCost | None, tree_cores: float | None) -> Diagnosis:
    if measured.samples_per_s is None:
        return _without_samples(measured)
    wait = measured.data_wait_fraction
    headroom = _headroom(measured)
    if wait is None:
        return Diagnosis(
            bottleneck="unknown",
            verdict=f"{measured.samples_per_s:.3g} samples/s; where the time goes could not be seen",
            why=("the batches reach the training through a thread of its own, so waiting is not visible",),
            headroom=None,
        )
    bottleneck: Bottleneck = "data" if wait > WAITS_MUCH else "compute" if wait < WAITS_LITTLE else "balanced"
    return Diagnosis(
        bottleneck=bottleneck,
        verdict=_verdict(measured, bottleneck, wait, headroom),
        why=tuple(_why(measured, wait, worker, tree_cores, machine)),
        next=tuple(_next(measured, bottleneck, headroom, tree_cores, machine)),
        headroom=headroom,
    )


def _without_samples(measured: Measurement) -> Diagnosis:
    if measured.step_time_s is None:
        return Diagnosis(bottleneck="unknown", verdict="no rate could be measured")
    return Diagnosis(
        bottleneck="unknown",
        verdict=f"{1 / measured.step_time_s.mean:.3g} steps/s; no DataLoader was seen to feed them",
        why=("data that does not come through a PyTorch DataLoader can be neither counted nor timed",),
    )


def _headroom(measured: Measurement) -> float | None:
    if measured.samples_per_s is None or measured.compute_samples_per_s is None:
        return None
    return max(1.0, measured.compute_samples_per_s / measured.samples_per_s)


def _verdict(measured: Measurement, bottleneck: Bottleneck, wait: float, headroom: float | None) -> str:
    at_most = f"; better loading could win at most {headroom:.2g}×" if headroom else ""
    match bottleneck:
        case "data":
            return f"data-bound: the training waits for its loader {wait:.0%} of the time{at_most}"
        case "compute":
            return f"compute-bound: only {wait:.1%} of the time is spent waiting for data{at_most}"
        case _:
            return f"balanced: {wait:.0%} of the time is spent waiting for data{at_most}"


def _why(
    measured: Measurement, wait: float, worker: WorkerCost | None, tree_cores: float | None, machine: Machine
) -> list[str]:
    settings = measured.effective_settings
    workers = settings.get("workers")
    lines = []
    if measured.step_time_s is not None:
        mean = measured.step_time_s.mean
        lines.append(f"of {mean * 1e3:.4g} ms a step, {mean * wait * 1e3:.3g} ms are spent in next() of the loader")
    if worker is not None and isinstance(workers, int) and workers > 0:
        cpu = f", {worker.cpu_fraction:.0%} of it computing" if worker.cpu_fraction is not None else ""
        one = "worker needs" if workers == 1 else "workers need each"
        lines.append(f"{workers} loader {one} {worker.batch_s * 1e3:.3g} ms for a batch{cpu}")
    elif workers == 0:
        lines.append("there is no loader worker: every batch is made by the training process itself")
    if measured.loader_samples_per_s is not None and measured.compute_samples_per_s is not None:
        lines.append(
            f"the loader alone could deliver up to {measured.loader_samples_per_s:.3g} samples/s,"
            f" the rest of the step could take {measured.compute_samples_per_s:.3g}"
        )
    if measured.first_batch_s is not None and settings.get("persistent_workers") is False and workers:
        lines.append(
            f"workers are started again every epoch: the first batch took {measured.first_batch_s:.2g} s to come"
        )
    if tree_cores is not None and tree_cores > CORES_FULL * machine.cores:
        lines.append(f"the training keeps {tree_cores:.1f} of {machine.cores:g} cores busy")
    if measured.others_cores is not None and measured.others_cores > OTHERS_CORES:
        lines.append(f"other programs kept {measured.others_cores:.1f} cores busy meanwhile: the rate may be too low")
    if measured.unsteady_because:
        lines.append(f"not shown to be steady: {measured.unsteady_because}")
    return lines


def _next(
    measured: Measurement,
    bottleneck: Bottleneck,
    headroom: float | None,
    tree_cores: float | None,
    machine: Machine,
) -> list[str]:
    settings = measured.effective_settings
    workers, prefetch = settings.get("workers"), settings.get("prefetch_factor")
    lines = []
    if bottleneck in ("data", "balanced") and isinstance(workers, int):
        more = min(max(1, workers * 2), max(1, int(machine.cores)))
        if more > workers:
            lines.append(f"try --set workers={more}")
        else:
            lines.append(f"workers are as many as cores ({machine.cores:g}): make a sample cheaper, or load less of it")
        if isinstance(prefetch, int) and prefetch < 2:
            lines.append("try --set prefetch_factor=2: one batch in advance leaves no slack for a slow one")
    if bottleneck == "compute":
        lines.append("more workers or prefetching cannot help; a larger batch or cheaper compute may")
    restarts = workers and settings.get("persistent_workers") is False and measured.projected.epoch_s
    if restarts and measured.first_batch_s and measured.first_batch_s > 0.02 * (measured.projected.epoch_s or 0):
        lines.append("try --set persistent_workers=true: the restart is felt in so short an epoch")
    if tree_cores is not None and tree_cores > CORES_FULL * machine.cores and bottleneck != "data":
        lines.append("all cores are busy: the number of threads (OMP_NUM_THREADS) may matter more than workers")
    if measured.unsteady_because and measured.steps_measured:
        lines.append("measure longer with --precise to be sure")
    return lines
