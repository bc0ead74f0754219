"""Where the time goes, why, and what to try: words for the numbers of one trial."""

from __future__ import annotations

from vtune.analysis.device_words import device_lines, hidden_host
from vtune.analysis.storage import storage_lines
from vtune.domain.machine import Machine
from vtune.domain.numbers import rate, seconds
from vtune.domain.record import Bottleneck, Diagnosis, Measurement

# Below 5 % waiting nothing in the loader can win more than noise; above 25 % the loader sets the pace.
WAITS_LITTLE = 0.05
WAITS_MUCH = 0.25
# Others that keep more than this share of a core busy make every number here a lower bound.
OTHERS_CORES = 0.3
# The tree keeps this share of the cores busy: more workers would take time from the training itself.
CORES_FULL = 0.9
# Workers that compute in less than half of their time wait for something; most of their bytes came from the device.
WAITS_FOR_FILES = 0.5
MOSTLY_COLD = 0.5
# A process that waits for a core for this share of the time would wait longer beside one more.
QUEUED_MUCH = 0.25
# However little a worker computes, its queues and copies cost something.
MOST_WAITING = 0.1
# A gain below this is noise and not worth a word.
WORTH_SAYING = 1.05


def diagnose(measured: Measurement, machine: Machine) -> Diagnosis:
    if measured.samples_per_s is None:
        return _without_samples(measured)
    if measured.data_wait_fraction is None:
        return Diagnosis(
            bottleneck="unknown",
            verdict=f"{rate(measured.samples_per_s)} samples/s; where the time goes could not be seen",
            why=("the batches reach the training through a thread of its own, so waiting is not visible",),
        )
    if measured.fed_from_stock:
        return _fed_from_stock(measured)
    wait = _wait_share(measured, measured.data_wait_fraction)
    headroom = max(1.0, 1 / (1 - wait)) if wait < 1 else None
    bottleneck = _bottleneck(measured, wait)
    return Diagnosis(
        bottleneck=bottleneck,
        verdict=_verdict(measured, bottleneck, wait, headroom),
        why=(
            *_why(measured, machine),
            *device_lines(measured),
            *storage_lines(measured),
        ),
        next=tuple(_next(measured, bottleneck, machine)),
        headroom=headroom,
    )


def _bottleneck(measured: Measurement, wait: float) -> Bottleneck:
    """What takes the largest share of the time from the mathematics; without a device the host is part of it."""
    shares: dict[Bottleneck, float] = {
        "data": wait,
        "transfer": measured.transfer_fraction or 0.0,
        "host": measured.host_fraction or 0.0,
    }
    largest = max(shares, key=lambda name: shares[name])
    if shares[largest] > WAITS_MUCH:
        return "storage" if largest == "data" and _waits_for_storage(measured) else largest
    return "compute" if shares[largest] < WAITS_LITTLE else "balanced"


def _without_samples(measured: Measurement) -> Diagnosis:
    if measured.step_time_s is None:
        return Diagnosis(bottleneck="unknown", verdict="no rate could be measured")
    return Diagnosis(
        bottleneck="unknown",
        verdict=f"{rate(1 / measured.step_time_s.mean)} steps/s; no DataLoader was seen to feed them",
        why=("data that does not come through a PyTorch DataLoader can be neither counted nor timed",),
    )


def _fed_from_stock(measured: Measurement) -> Diagnosis:
    """The window says nothing of how long the training would wait once the stock is used up."""
    return Diagnosis(
        bottleneck="data",
        verdict=(
            f"data-bound once its stock is used up: the loader can deliver at most"
            f" {rate(measured.loader_samples_per_s)} samples/s, the window saw {rate(measured.samples_per_s)}"
        ),
        why=(f"not shown to be steady: {measured.unsteady_because}",),
        next=("measure longer with --precise: this rate will not last",),
    )


def _wait_share(measured: Measurement, in_steps: float) -> float:
    """Share of a whole epoch spent waiting for data: between its steps, and for the first batch after a restart."""
    epoch_s, restart_s = measured.projected.epoch_s, measured.epoch_restart_s
    if epoch_s is None or restart_s is None or measured.epoch_restart_wait_s is None:
        return in_steps
    return ((epoch_s - restart_s) * in_steps + min(restart_s, measured.epoch_restart_wait_s)) / epoch_s


def _waits_for_storage(measured: Measurement) -> bool:
    """The workers hardly compute, and what they read came from the disk: not from the page cache, a sleep or a lock."""
    cost, cold = measured.worker_cost, measured.cold_fraction
    computing = cost.cpu_fraction if cost is not None else None
    return computing is not None and computing < WAITS_FOR_FILES and cold is not None and cold > MOSTLY_COLD


def _verdict(measured: Measurement, bottleneck: Bottleneck, wait: float, headroom: float | None) -> str:
    worth = headroom is not None and headroom >= WORTH_SAYING
    at_most = f"; better loading could win at most {headroom:.2g}×" if worth else ""
    what = "for its loader"
    if wait > 2 * (measured.data_wait_fraction or 0) and wait > WAITS_LITTLE:
        what = "for its loader, most of it at the start of each epoch,"
    elif (measured.other_loaders_wait_fraction or 0) > wait / 2:
        what = "for a loader other than the one that feeds its steps"
    match bottleneck:
        case "data":
            return f"data-bound: the training waits {what} {wait:.0%} of the time{at_most}"
        case "storage":
            return (
                f"storage-bound: the training waits {what} {wait:.0%} of the time, and its workers for files{at_most}"
            )
        case "host":
            share = f"{measured.host_fraction:.0%}"
            return f"host-bound: the device idles {share} of the time while the main process does work of its own"
        case "transfer":
            share = f"{measured.transfer_fraction:.0%}"
            return f"transfer-bound: the device idles {share} of the time until its batch has come to it"
        case "compute" if hidden_host(measured):
            return (
                f"bound by its computing or by the process that feeds it, which could not be told apart:"
                f" only {wait:.1%} of the time is spent waiting for data{at_most}"
            )
        case "compute":
            return f"compute-bound: only {wait:.1%} of the time is spent waiting for data{at_most}"
        case _:
            return f"balanced: the training waits {what} {wait:.0%} of the time{at_most}"


def _why(measured: Measurement, machine: Machine) -> list[str]:
    settings, wait, worker = measured.effective_settings, measured.data_wait_fraction or 0.0, measured.worker_cost
    workers = settings.get("workers")
    lines = []
    if measured.step_time_s is not None:
        mean = measured.step_time_s.mean
        lines.append(f"of {seconds(mean)} a step, {seconds(mean * wait)} are spent in next() of loaders")
        other = measured.other_loaders_wait_fraction or 0.0
        if other >= WAITS_LITTLE:
            lines.append(f"{seconds(mean * other)} of it in another loader than the one whose batches are counted")
    if worker is not None and isinstance(workers, int) and workers > 0:
        cpu = f", {worker.cpu_fraction:.0%} of it computing" if worker.cpu_fraction is not None else ""
        one = "worker needs" if workers == 1 else "workers need each"
        lines.append(f"{workers} loader {one} {seconds(worker.batch_s)} for a batch{cpu}")
    elif workers == 0:
        lines.append("there is no loader worker: every batch is made by the training process itself")
    if measured.loader_samples_per_s is not None and measured.compute_samples_per_s is not None:
        lines.append(
            f"the loader alone could deliver up to {rate(measured.loader_samples_per_s)} samples/s,"
            f" the rest of the step could take {rate(measured.compute_samples_per_s)}"
        )
    if measured.restarts_in_rate:
        lines.append("the epochs are so short that the rate is that of whole ones, with their restarts")
    elif measured.epoch_restart_s is not None:
        lines.append(f"between two epochs {seconds(measured.epoch_restart_s)} pass without a step")
    elif measured.first_batch_s is not None and settings.get("persistent_workers") is False and workers:
        lines.append(f"workers start again every epoch: the first batch took {seconds(measured.first_batch_s)}")
    if measured.projected.epoch_s is not None and measured.epoch_restart_s is None and not measured.restarts_in_rate:
        lines.append("no end of an epoch was seen: the projection leaves out validation and checkpoints")
    tree = measured.tree_cores
    if tree is not None and tree > CORES_FULL * machine.cores:
        lines.append(f"the training keeps {tree:.1f} of {machine.cores:g} cores busy")
    if measured.others_cores is not None and measured.others_cores > OTHERS_CORES:
        lines.append(f"other programs kept {measured.others_cores:.1f} cores busy meanwhile: the rate may be too low")
    if measured.unsteady_because:
        lines.append(f"not shown to be steady: {measured.unsteady_because}")
    return lines


def _cores_are_short(measured: Measurement) -> bool:
    """Workers that wait for a core would take it from each other, or from the training."""
    queued = [use.queued_fraction for use in measured.processes if use.queued_fraction is not None]
    return max(queued, default=0.0) >= QUEUED_MUCH


def _next(measured: Measurement, bottleneck: Bottleneck, machine: Machine) -> list[str]:
    settings = measured.effective_settings
    workers, prefetch = settings.get("workers"), settings.get("prefetch_factor")
    waited = (measured.data_wait_fraction or 0.0) - (measured.other_loaders_wait_fraction or 0.0)
    waits_in_steps = waited >= WAITS_LITTLE
    lines = []
    if waits_in_steps and isinstance(workers, int):
        more = min(max(1, workers * 2), _useful_workers(measured, machine))
        if more > workers and _cores_are_short(measured):
            lines.append(
                f"the cores are the limit ({machine.cores:g}), its processes wait for one: make a sample cheaper, or"
                " give it more cores"
            )
        elif more > workers:
            lines.append(f"try {more} workers: vtune probe --set workers={more}")
        else:
            lines.append(f"workers are as many as cores ({machine.cores:g}): make a sample cheaper, or load less of it")
        if isinstance(prefetch, int) and prefetch < 2:
            lines.append("try vtune probe --set prefetch_factor=2: one batch in advance leaves no slack for a slow one")
    if _restart_is_felt(measured) and workers and settings.get("persistent_workers") is False:
        lines.append(
            "try vtune probe --set persistent_workers=true: starting workers anew is felt in so short an epoch"
        )
    if bottleneck == "host":
        longest = max(measured.stages, key=lambda one: one.host_s, default=None)
        where = f", most of all in the {longest.stage} stage ({seconds(longest.host_s)})" if longest is not None else ""
        lines.append(
            f"look at what the training does between its kernels{where}: a loss or metric on the CPU, .item() or"
            " logging every step; more workers cannot help"
        )
    if bottleneck == "transfer":
        if settings.get("pin_memory") is False:
            lines.append("try vtune probe --set pin_memory=true: copies from pinned memory need not be waited for")
        lines.append("copies overlap with computing only with .to(device, non_blocking=True) from pinned memory")
    if bottleneck == "compute":
        lines.append("more workers or prefetching cannot help; a larger batch or cheaper compute may")
        if measured.tree_cores is not None and measured.tree_cores > CORES_FULL * machine.cores:
            lines.append("all cores are busy: the number of threads (OMP_NUM_THREADS) may matter more than workers")
    if measured.unsteady_because and measured.steps_measured:
        lines.append("measure longer with --precise to be sure")
    return lines


def _useful_workers(measured: Measurement, machine: Machine) -> int:
    """As many as the cores can feed: workers that mostly wait for storage leave their core to others."""
    computing = measured.worker_cost.cpu_fraction if measured.worker_cost is not None else None
    return max(1, int(machine.cores / max(computing if computing is not None else 1.0, MOST_WAITING)))


def _restart_is_felt(measured: Measurement) -> bool:
    waited = measured.first_batch_s if measured.epoch_restart_wait_s is None else measured.epoch_restart_wait_s
    epoch_s = measured.projected.epoch_s
    return waited is not None and epoch_s is not None and waited > 0.02 * epoch_s
