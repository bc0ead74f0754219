"""What to try next, with what the replay says it would bring."""

from __future__ import annotations

from vtune.analysis.host import outside
from vtune.domain.machine import Machine
from vtune.domain.numbers import rate, seconds
from vtune.domain.record import Bottleneck, Change, Measurement, WhatIf

# Below this nothing in the loader can win more than noise.
WAITS_LITTLE = 0.05
# A gain below this is noise and not worth a word.
WORTH_SAYING = 1.05
# A process that waits for a core for this share of the time would wait longer beside one more.
QUEUED_MUCH = 0.25
# However little a worker computes, its queues and copies cost something.
MOST_WAITING = 0.1
# The tree keeps this share of the cores busy: more workers would take time from the training itself.
CORES_FULL = 0.9


def next_steps(measured: Measurement, bottleneck: Bottleneck, machine: Machine) -> list[str]:
    settings = measured.effective_settings
    lines = []
    waited = (measured.data_wait_fraction or 0.0) - (measured.other_loaders_wait_fraction or 0.0)
    if waited >= WAITS_LITTLE:
        lines += [*_workers(measured, machine), *_queue(measured)]
    if _restart_is_felt(measured) and settings.get("workers") and settings.get("persistent_workers") is False:
        lines.append(
            "try vtune probe --set persistent_workers=true: starting workers anew is felt in so short an epoch"
        )
    if bottleneck == "host":
        lines.append(_host(measured))
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
    elif measured.tail is not None and measured.tail.matters and waited >= WAITS_LITTLE:
        lines.append("rare slow batches carry much of the time: --precise sees more of them")
    return lines


def gain_of(measured: Measurement, change: Change) -> tuple[WhatIf, float] | None:
    """Worth a word, or None."""
    found = next((one for one in measured.what_if if one.change == change), None)
    if found is None or not measured.samples_per_s:
        return None
    gain = found.samples_per_s / measured.samples_per_s
    return (found, gain) if gain >= WORTH_SAYING else None


def _predicted(found: tuple[WhatIf, float] | None) -> str:
    return f" (predicted: {rate(found[0].samples_per_s)} samples/s, {found[1]:.2g}×)" if found is not None else ""


def _workers(measured: Measurement, machine: Machine) -> list[str]:
    workers = measured.effective_settings.get("workers")
    if not isinstance(workers, int):
        return []
    more = min(max(1, workers * 2), _useful_workers(measured, machine))
    gain = gain_of(measured, "twice_the_workers")
    if more > workers and _cores_are_short(measured):
        return [
            f"the cores are the limit ({machine.cores:g}), its processes wait for one: make a sample cheaper, or"
            " give it more cores"
        ]
    if more <= workers:
        return [f"workers are as many as cores ({machine.cores:g}): make a sample cheaper, or load less of it"]
    if measured.what_if and gain is None:
        return [f"{more} workers would hardly help: the replay of the loader says so; make a sample cheaper"]
    told = _predicted(gain) if more == max(1, workers * 2) else ""
    return [f"try {more} workers: vtune probe --set workers={more}{told}"]


def _queue(measured: Measurement) -> list[str]:
    prefetch = measured.effective_settings.get("prefetch_factor")
    lines = []
    gain = gain_of(measured, "twice_the_prefetch")
    if isinstance(prefetch, int) and (gain is not None or (prefetch < 2 and not measured.what_if)):
        lines.append(
            f"try vtune probe --set prefetch_factor={2 * prefetch}: more in advance gives slack for a slow batch"
            f"{_predicted(gain)}"
        )
    unordered = gain_of(measured, "order_not_kept")
    if unordered is not None:
        lines.append(
            "slow batches hold up finished ones: vtune probe --set in_order=false hands them over as they come"
            f"{_predicted(unordered)}; the order of samples changes with it"
        )
    if (stored := gain_of(measured, "storage_free")) is not None:
        lines.append(f"faster storage, or data that fits the page cache, would help{_predicted(stored)}")
    return lines


def _host(measured: Measurement) -> str:
    parts = outside(measured)
    if parts is not None:
        in_loss = parts.loss_s >= parts.between_s
        where = (
            f"in its loss ({seconds(parts.loss_s)} a step)"
            if in_loss
            else f"between two steps ({seconds(parts.between_s)})"
        )
        return f"look at what the training does {where}: losses, metrics, .item() or logging; more workers cannot help"
    longest = max(measured.stages, key=lambda one: one.host_s, default=None)
    where = f", most of all in the {longest.stage} stage ({seconds(longest.host_s)})" if longest is not None else ""
    return (
        f"look at what the training does between its kernels{where}: a loss or metric on the CPU, .item() or"
        " logging every step; more workers cannot help"
    )


def _cores_are_short(measured: Measurement) -> bool:
    """Workers that wait for a core would take it from each other, or from the training."""
    queued = [use.queued_fraction for use in measured.processes if use.queued_fraction is not None]
    return max(queued, default=0.0) >= QUEUED_MUCH


def _useful_workers(measured: Measurement, machine: Machine) -> int:
    """As many as the cores can feed: workers that mostly wait for storage leave their core to others."""
    computing = measured.worker_cost.cpu_fraction if measured.worker_cost is not None else None
    return max(1, int(machine.cores / max(computing if computing is not None else 1.0, MOST_WAITING)))


def _restart_is_felt(measured: Measurement) -> bool:
    waited = measured.first_batch_s if measured.epoch_restart_wait_s is None else measured.epoch_restart_wait_s
    epoch_s = measured.projected.epoch_s
    return waited is not None and epoch_s is not None and waited > 0.02 * epoch_s
