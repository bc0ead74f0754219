"""Where the time goes, why, and what to try: words for the numbers of one trial."""

from __future__ import annotations

from vtune.analysis.advice import (
    OTHERS_CORES,
    WAITS_LITTLE,
    WORTH_SAYING,
    Again,
    gain_of,
    in_rate_as,
    next_steps,
    periodic_share,
)
from vtune.analysis.compare import CORES_FULL
from vtune.analysis.device_words import device_lines, hidden_host
from vtune.analysis.doubts import steady_lines
from vtune.analysis.pauses import paused
from vtune.analysis.run_words import run_lines
from vtune.analysis.storage import storage_lines
from vtune.analysis.what_if_words import tail_lines, what_if_lines
from vtune.domain.advice import Advice
from vtune.domain.machine import Machine
from vtune.domain.numbers import rate, seconds
from vtune.domain.record import Bottleneck, Diagnosis, Measurement, Pause

# Above 25 % waiting the loader sets the pace.
WAITS_MUCH = 0.25
# Work of every n-th step that adds less than this to the mean is not worth a sentence.
PERIOD_FELT = 0.01
# Workers that compute in less than half of their time wait for something; most of their bytes came from the device.
WAITS_FOR_FILES = 0.5
MOSTLY_COLD = 0.5


def diagnose(measured: Measurement, machine: Machine, again: Again | None = None) -> Diagnosis:
    """`again`: how this trial is asked for once more."""
    again = again or Again()
    if measured.samples_per_s is None:
        return _without_samples(measured)
    if measured.data_wait_fraction is None:
        return Diagnosis(
            bottleneck="unknown",
            verdict=f"{rate(measured.samples_per_s)} samples/s; where the time goes could not be seen",
            why=("the batches reach the training through a thread of its own, so waiting is not visible",),
            advice=(Advice("vtune probe --ceiling tells what the training and its loader could do, each by itself"),),
        )
    if measured.fed_from_stock:
        return _fed_from_stock(measured, again)
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
            *what_if_lines(measured),
            *tail_lines(measured, bottleneck),
        ),
        advice=tuple(next_steps(measured, bottleneck, machine, again)),
        headroom=headroom,
    )


def _bottleneck(measured: Measurement, wait: float) -> Bottleneck:
    """What takes the largest share of the time from the mathematics. Without a device the main process does the
    mathematics, too: then it is late only where most of its work is something else. A validation between the steps is
    one thing, its waiting for batches included."""
    in_rate = in_rate_as(measured, "validation", "checkpoint")
    shares: dict[Bottleneck, float] = {
        "data": max(0.0, wait - sum(pause.wait_fraction for pause in in_rate)),
        "transfer": measured.transfer_fraction or 0.0,
        "host": measured.host_fraction or _outside(measured, wait),
        **{pause.what: pause.time_fraction or 0.0 for pause in in_rate if pause.what != "stop"},
    }
    largest = max(shares, key=lambda name: shares[name])
    if shares[largest] > WAITS_MUCH:
        return "storage" if largest == "data" and _waits_for_storage(measured) else largest
    return "compute" if shares[largest] < WAITS_LITTLE else "balanced"


def _outside(measured: Measurement, wait: float) -> float:
    share = measured.outside_fraction or 0.0
    return share if share > (1 - wait - paused(measured)) / 2 else 0.0


def _without_samples(measured: Measurement) -> Diagnosis:
    if measured.step_time_s is None:
        return Diagnosis(bottleneck="unknown", verdict="no rate could be measured")
    return Diagnosis(
        bottleneck="unknown",
        verdict=f"{rate(1 / measured.step_time_s.mean)} steps/s; no DataLoader was seen to feed them",
        why=("data that does not come through a PyTorch DataLoader can be neither counted nor timed",),
    )


def _fed_from_stock(measured: Measurement, again: Again) -> Diagnosis:
    """The window says nothing of how long the training would wait once the stock is used up."""
    longer = "more --steps" if again.precise else "--precise"
    return Diagnosis(
        bottleneck="data",
        verdict=(
            f"data-bound once its stock is used up: the loader can deliver at most"
            f" {rate(measured.loader_samples_per_s)} samples/s, the window saw {rate(measured.samples_per_s)}"
        ),
        why=(f"not shown to be steady: {measured.unsteady_because}",),
        advice=(Advice(f"measure longer with {longer}: this rate will not last"),),
    )


def _wait_share(measured: Measurement, in_steps: float) -> float:
    """Share of a whole epoch spent waiting for data: between its steps, and for the first batch after a restart."""
    epoch_s, restart_s = measured.part_s or measured.projected.epoch_s, measured.epoch_restart_s
    if epoch_s is None or restart_s is None or measured.epoch_restart_wait_s is None:
        return in_steps
    return ((epoch_s - restart_s) * in_steps + min(restart_s, measured.epoch_restart_wait_s)) / epoch_s


def _waits_for_storage(measured: Measurement) -> bool:
    """The workers hardly compute, and what they read came from the disk: not from the page cache, a sleep or a lock."""
    if any(one.change == "storage_free" for one in measured.what_if) and gain_of(measured, "storage_free") is None:
        return False  # nothing would be won by it
    cost, cold = measured.worker_cost, measured.cold_fraction
    computing = cost.cpu_fraction if cost is not None else None
    return computing is not None and computing < WAITS_FOR_FILES and cold is not None and cold > MOSTLY_COLD


def _verdict(measured: Measurement, bottleneck: Bottleneck, wait: float, headroom: float | None) -> str:
    worth = headroom is not None and headroom >= WORTH_SAYING
    at_most = f"; better loading could win at most {headroom:.2g}×" if worth else ""
    what = "for its loaders" if measured.fed_by else "for its loader"
    if wait > 2 * (measured.data_wait_fraction or 0) and wait > WAITS_LITTLE:
        what = f"{what}, most of it at the start of each epoch,"
    elif (measured.other_loaders_wait_fraction or 0) > wait / 2:
        what = "for a loader other than the one that feeds its steps"
    match bottleneck:
        case "data":
            return f"data-bound: the training waits {what} {wait:.0%} of the time{at_most}"
        case "storage":
            return (
                f"storage-bound: the training waits {what} {wait:.0%} of the time, and its workers for files{at_most}"
            )
        case "host" if measured.host_fraction is None:
            return (
                f"host-bound: {measured.outside_fraction:.0%} of the time the training's process works outside its"
                " model and optimizer"
            )
        case "host":
            share = f"{measured.host_fraction:.0%}"
            return f"host-bound: the device idles {share} of the time while the main process does work of its own"
        case "validation" | "checkpoint":
            return _paused_verdict(in_rate_as(measured, bottleneck)[0])
        case "transfer":
            share = f"{measured.transfer_fraction:.0%}"
            return f"transfer-bound: the device idles {share} of the time until its batch has come to it"
        case "compute" if hidden_host(measured):
            return (
                f"bound by its computing or by the process that feeds it, which could not be told apart:"
                f" only {wait:.1%} of the time is spent waiting for data{at_most}"
            )
        case "compute" if (periodic := periodic_share(measured) or 0.0) > WAITS_MUCH:
            every = measured.training_cost.period_steps if measured.training_cost is not None else None
            return (
                f"bound by its own process: {periodic:.0%} of the time goes into work that only every {every} steps"
                f" one does, and {wait:.1%} into waiting for data"
            )
        case "compute":
            return f"compute-bound: only {wait:.1%} of the time is spent waiting for data{at_most}"
        case _:
            return f"balanced: the training waits {what} {wait:.0%} of the time{at_most}"


def _paused_verdict(pause: Pause) -> str:
    often = f" every {pause.every_steps:.0f} steps" if pause.every_steps is not None else ""
    waits = (
        f"; {pause.wait_fraction:.0%} of the time it waits for the {pause.what}'s loader"
        if pause.wait_fraction >= WAITS_LITTLE
        else ""
    )
    return (
        f"{pause.what}-bound: {pause.time_fraction or 0.0:.0%} of the time goes into a {pause.what}{often}"
        f" of {seconds(pause.seconds)}{waits}"
    )


def _why(measured: Measurement, machine: Machine) -> list[str]:
    wait, worker = measured.data_wait_fraction or 0.0, measured.worker_cost
    workers = measured.effective_settings.get("workers")
    lines = []
    if measured.step_time_s is not None:
        mean = measured.step_time_s.mean
        other = measured.other_loaders_wait_fraction or 0.0
        own = "its own loaders" if measured.fed_by else "its own loader"
        beside = f", {seconds(mean * other)} in that of {_whose_loader(measured)}" if other >= WAITS_LITTLE else ""
        lines.append(
            f"of {seconds(mean)} a step, {seconds(mean * (wait - other))} are spent in next() of {own}{beside}"
        )
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
    if measured.fed_by:
        places = ", ".join(measured.fed_by)
        lines.append(f"{len(measured.fed_by)} loaders feed its steps, and the samples of all of them count: {places}")
    lines += run_lines(measured)
    tree = measured.tree_cores
    if tree is not None and tree > CORES_FULL * machine.cores:
        lines.append(f"the training keeps {tree:.1f} of {machine.cores:g} cores busy")
    if measured.others_cores is not None and measured.others_cores > OTHERS_CORES:
        lines.append(f"other programs kept {measured.others_cores:.1f} cores busy meanwhile: the rate may be too low")
    lines += _period_line(measured)
    if measured.rate_from == "batch_means":
        lines.append("less sure: the rate is the window's own, not that of a replay of its loader")
    lines += steady_lines(measured)
    return lines


def _whose_loader(measured: Measurement) -> str:
    """Most of the waiting for loaders that feed no step."""
    other = measured.other_loaders_wait_fraction or 0.0
    validating = sum(pause.wait_fraction for pause in in_rate_as(measured, "validation"))
    return "the validation's loader" if validating > other / 2 else "a loader that feeds no step"


def _period_line(measured: Measurement) -> list[str]:
    cost = measured.training_cost
    share = periodic_share(measured)
    if cost is None or cost.period_extra_s is None or share is None or share < PERIOD_FELT:
        return []
    return [f"every {cost.period_steps} steps one takes {seconds(cost.period_extra_s)} longer: it counts as it comes"]
