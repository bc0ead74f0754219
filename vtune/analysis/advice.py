"""What to try next, with what the replay says it would bring."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from vtune.analysis.host import outside
from vtune.domain.effects import Scalar
from vtune.domain.machine import Machine
from vtune.domain.numbers import rate, seconds
from vtune.domain.record import Bottleneck, Change, Measurement, WhatIf

# Below this nothing in the loader can win more than noise.
WAITS_LITTLE = 0.05
# A gain below this is noise and not worth a word.
WORTH_SAYING = 1.05
# Others that keep more than this share of a core busy make every number here a lower bound.
OTHERS_CORES = 0.3
# A process that waits for a core for this share of the time would wait longer beside one more.
QUEUED_MUCH = 0.25
# However little a worker computes, its queues and copies cost something.
MOST_WAITING = 0.1
# The tree keeps this share of the cores busy: more workers would take time from the training itself.
CORES_FULL = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """How this very trial is asked for: what is tried next goes on from its settings, in its study."""

    study: str | None = None
    # The folder of all studies, where it is another one than a command looks into by itself.
    results: str | None = None
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    # The limit it runs under.
    ram_limit_bytes: int | None = None

    def but(self, **changed: Scalar) -> str:
        return self.of({**self.settings, **changed})

    def of(self, settings: Mapping[str, Scalar]) -> str:
        """The line to paste, whatever this trial was asked for with."""
        words = ["vtune", "probe", *(["--study", self.study] if self.study is not None else [])]
        words += ["--results", self.results] if self.results is not None else []
        words += [word for name, value in settings.items() for word in ("--set", f"{name}={str(value).lower()}")]
        return shlex.join(words)


def next_steps(measured: Measurement, bottleneck: Bottleneck, machine: Machine, again: Again) -> list[str]:
    settings = measured.effective_settings
    lines = []
    waited = (measured.data_wait_fraction or 0.0) - (measured.other_loaders_wait_fraction or 0.0)
    if waited >= WAITS_LITTLE:
        lines += [*_workers(measured, machine, again), *_queue(measured, again)]
    # What workers gather goes with them at the epoch's end: where they persist it would last for the run.
    gather = any(one.who == "workers" for one in measured.ram_growth)
    restarts = _restart_is_felt(measured) and settings.get("workers") and settings.get("persistent_workers") is False
    if restarts and not gather:
        not_known = "; whether their memory would grow on then, a trial of it shows"
        lines.append(
            f"try {again.but(persistent_workers=True)}: starting workers anew is felt in so short an epoch"
            f"{_steady_epoch(measured)}{not_known if 'ram_growth' in measured.unknown else ''}"
        )
    if bottleneck == "host":
        lines.append(_host(measured, waits=waited >= WAITS_LITTLE))
    if bottleneck == "transfer":
        if settings.get("pin_memory") is False:
            lines.append(f"try {again.but(pin_memory=True)}: copies from pinned memory need not be waited for")
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


def _workers(measured: Measurement, machine: Machine, again: Again) -> list[str]:
    workers = measured.effective_settings.get("workers")
    if not isinstance(workers, int):
        return []
    cost = measured.worker_cost
    if cost is not None and cost.delivering is not None and cost.delivering < workers:
        return [
            f"only {cost.delivering} of {workers} workers still deliver: give the data set at least as many parts"
            " (shards, files) as workers"
        ]
    more = min(max(1, workers * 2), _useful_workers(measured, machine))
    gain = gain_of(measured, "twice_the_workers")
    if more > workers and _cores_are_short(measured):
        return [
            f"the cores are the limit ({machine.cores:g}), its processes wait for one: make a sample cheaper, or"
            " give it more cores"
        ]
    if more <= workers:
        cores = machine.cores_to_plan_for
        return [f"workers are as many as cores ({cores:g}): make a sample cheaper, or load less of it"]
    if measured.what_if and gain is None:
        return [f"{more} workers would hardly help: the replay of the loader says so; make a sample cheaper"]
    told = _predicted(gain) if more == max(1, workers * 2) else ""
    fit = _fitting_workers(workers, measured, again.ram_limit_bytes)
    if fit is not None and fit < more:
        if fit <= workers:
            return [f"{more} workers would hardly fit the RAM limit{told}: make a worker smaller, or a sample cheaper"]
        more, told = fit, "; more would hardly fit the RAM limit"
    unproven = _unproven(measured, again.ram_limit_bytes)
    return [f"try {more} {'worker' if more == 1 else 'workers'}: {again.but(workers=more)}{told}{unproven}"]


def _queue(measured: Measurement, again: Again) -> list[str]:
    prefetch = measured.effective_settings.get("prefetch_factor")
    lines = []
    gain = gain_of(measured, "twice_the_prefetch")
    if isinstance(prefetch, int) and (gain is not None or (prefetch < 2 and not measured.what_if)):
        lines.append(
            f"try {again.but(prefetch_factor=2 * prefetch)}: more in advance gives slack for a slow batch"
            f"{_predicted(gain)}"
        )
    unordered = gain_of(measured, "order_not_kept")
    if unordered is not None:
        lines.append(
            f"slow batches hold up finished ones: {again.but(in_order=False)} hands them over as they come"
            f"{_predicted(unordered)}; the order of samples changes with it"
        )
    if (stored := gain_of(measured, "storage_free")) is not None:
        lines.append(f"faster storage, or data that fits the page cache, would help{_predicted(stored)}")
    return lines


def _steady_epoch(measured: Measurement) -> str:
    rate_, samples, epoch_s = measured.samples_per_s, measured.samples_per_epoch, measured.projected.epoch_s
    if not rate_ or not samples or not epoch_s:
        return ""
    return f" (without it an epoch would take {seconds(samples / rate_)} instead of {seconds(epoch_s)})"


def _host(measured: Measurement, *, waits: bool) -> str:
    cannot = "" if waits else "; more workers cannot help"
    parts = outside(measured)
    if parts is not None:
        in_loss = parts.loss_s >= parts.between_s
        where = (
            f"in its loss ({seconds(parts.loss_s)} a step)"
            if in_loss
            else f"between two steps ({seconds(parts.between_s)})"
        )
        return f"look at what the training does {where}: losses, metrics, .item() or logging{cannot}"
    longest = max(measured.stages, key=lambda one: one.host_s, default=None)
    where = f", most of all in the {longest.stage} stage ({seconds(longest.host_s)})" if longest is not None else ""
    return (
        f"look at what the training does between its kernels{where}: a loss or metric on the CPU, .item() or"
        f" logging every step{cannot}"
    )


def _unproven(measured: Measurement, limit_bytes: int | None) -> str:
    interval = measured.ram_projected_ci95
    if limit_bytes is None or interval is None or interval[1] <= limit_bytes:
        return ""
    return "; whether a whole run of it stays under the RAM limit, so short a trial cannot show"


def _cores_are_short(measured: Measurement) -> bool:
    """Workers that wait for a core would take it from each other, or from the training; not where others took it."""
    if (measured.others_cores or 0.0) >= OTHERS_CORES:
        return False
    queued = [use.queued_fraction for use in measured.processes if use.queued_fraction is not None]
    return max(queued, default=0.0) >= QUEUED_MUCH


def _useful_workers(measured: Measurement, machine: Machine) -> int:
    """As many as the cores can feed: workers that mostly wait for storage leave their core to others."""
    computing = measured.worker_cost.cpu_fraction if measured.worker_cost is not None else None
    return max(1, int(machine.cores_to_plan_for / max(computing if computing is not None else 1.0, MOST_WAITING)))


def _fitting_workers(workers: int, measured: Measurement, limit_bytes: int | None) -> int | None:
    """Under the limit, if one more takes as much as what is there takes on average, the training itself included."""
    needs = max(measured.ram_peak_bytes or 0, measured.ram_projected_bytes or 0)
    if limit_bytes is None or not needs or not workers:
        return None
    return workers + max(0, int((limit_bytes - needs) / (needs / (workers + 1))))


def _restart_is_felt(measured: Measurement) -> bool:
    waited = measured.first_batch_s if measured.epoch_restart_wait_s is None else measured.epoch_restart_wait_s
    epoch_s = measured.projected.epoch_s
    return waited is not None and epoch_s is not None and waited > 0.02 * epoch_s
