"""From what the training's process saw of its device to numbers; how idle time is shared out: docs/decisions/0005."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from vtune.analysis.gpus import neighbour_computes
from vtune.analysis.pauses import Stop
from vtune.analysis.roles import Roles
from vtune.analysis.window import StepWindow
from vtune.domain.effects import Scalar
from vtune.domain.events import DeviceStepped, Fact, StageEnded, StageName
from vtune.domain.machine import bare_uuid
from vtune.domain.machine_use import StageTime
from vtune.domain.record import Measurement

STAGES: tuple[StageName, ...] = ("transfer", "forward", "loss", "backward", "step")
# Without the driver's word only a part of the device's idle time can be proven: below this it says nothing.
WORTH_PROVING = 0.05


def with_device(
    measured: Measurement,
    *,
    device_steps: Sequence[DeviceStepped],
    stages: Sequence[StageEnded],
    facts: Sequence[Fact],
    roles: Roles | None,
    regular: Sequence[StepWindow],
    stops: Sequence[Stop] = (),
) -> Measurement:
    """`regular`: the measured window, which may be empty. `measured.gpus` must be there already. `stops`: validations
    and checkpoints."""
    allocated, reserved = _peaks(facts, roles)
    measured = replace(measured, vram_allocated_peak_bytes=allocated, vram_reserved_peak_bytes=reserved)
    if roles is None:
        return measured
    measured = replace(measured, skipped_steps=_skipped(facts, roles), precision=_precision(facts, roles))
    if not regular:
        return measured
    steps = _by_window(device_steps, roles, regular)
    samples = _samples(stages, roles, regular)
    measured = replace(
        measured,
        alloc_retries=_retries(facts, roles, regular),
        device_step_s=_mean(step.busy_s for step, _ in steps),
        device_gap_s=_mean(step.gap_s for step, _ in steps if step.gap_s is not None),
        stages=tuple(_stage(stage, samples) for stage in STAGES) if samples else (),
        after_step_s=_after_step_s(samples, roles, stops),
    )
    return _with_idle_shares(measured, facts, roles, steps, regular)


def _with_idle_shares(
    measured: Measurement,
    facts: Sequence[Fact],
    roles: Roles,
    steps: Sequence[tuple[DeviceStepped, StepWindow]],
    regular: Sequence[StepWindow],
) -> Measurement:
    known = [(step.gap_s, window.wait_s + window.other_wait_s) for step, window in steps if step.gap_s is not None]
    seen_s = sum(window.duration_s for step, window in steps if step.gap_s is not None)
    if seen_s <= 0 or not all(batch.main_thread for window in regular for batch in window.batches):
        return measured
    for_data = sum(min(gap, wait) for gap, wait in known) / seen_s
    between = sum(max(0.0, gap - wait) for gap, wait in known) / seen_s
    transfer = _transfer_share(measured.stages, regular)
    idle = _idle_share(measured, facts, roles)
    if idle is None:
        proven = between if between >= WORTH_PROVING else None
        return replace(measured, transfer_fraction=transfer, host_fraction=proven)
    others = max(0.0, idle - for_data)
    if transfer is not None:
        # Copies overlap with kernels where a script arranges for it.
        transfer = min(transfer, others)
    return replace(measured, transfer_fraction=transfer, host_fraction=max(0.0, others - (transfer or 0.0)))


def _transfer_share(stages: Sequence[StageTime], regular: Sequence[StepWindow]) -> float | None:
    mean_s = sum(window.duration_s for window in regular) / len(regular)
    on_device = next((one.device_s for one in stages if one.stage == "transfer"), None)
    return None if not mean_s or on_device is None else min(1.0, on_device / mean_s)


def _idle_share(measured: Measurement, facts: Sequence[Fact], roles: Roles) -> float | None:
    """By the driver, of the devices of the leading process; None where it does not say, or not of this training."""
    told = [fact.data.get("uuid") for fact in facts if fact.pid == roles.pid and fact.name == "device"]
    own = {bare_uuid(uuid) for uuid in told if isinstance(uuid, str)}
    used = [gpu for gpu in measured.gpus if bare_uuid(gpu.uuid) in own]
    if not used and not own and len(measured.gpus) == 1:
        # An early torch does not tell the UUID; with one device there is nothing to mistake.
        used = list(measured.gpus)
    shares = [gpu.util_mean for gpu in used]
    if not shares or any(neighbour_computes(gpu) for gpu in used):
        return None
    known = [share for share in shares if share is not None]
    return 1 - sum(known) / len(known) / 100 if len(known) == len(shares) else None


def _by_window(
    device_steps: Sequence[DeviceStepped], roles: Roles, regular: Sequence[StepWindow]
) -> list[tuple[DeviceStepped, StepWindow]]:
    own = [step for step in device_steps if step.pid == roles.pid]
    # With several optimizers the iteration ends with the last one's step, which need not be the one that is counted.
    own = [step for step in own if step.optimizer == roles.optimizer] or own
    numbers = {step.ended_s: step.number for step in roles.steps}
    windows = {numbers[window.ended_s]: window for window in regular}
    return [(step, windows[step.number]) for step in own if step.number in windows]


def _samples(marks: Sequence[StageEnded], roles: Roles, regular: Sequence[StepWindow]) -> list[list[StageEnded]]:
    """Those that begin after the warm-up; they lie apart from the steps that time the window."""
    samples: dict[int, list[StageEnded]] = defaultdict(list)
    for mark in marks:
        if mark.pid == roles.pid and mark.host_s >= regular[0].started_s:
            samples[mark.number].append(mark)
    return [one for one in samples.values() if one[0].stage == "begin" and any(mark.stage == "step" for mark in one)]


def _after_step_s(samples: Sequence[Sequence[StageEnded]], roles: Roles, stops: Sequence[Stop]) -> float | None:
    """What the training does once its step is over, within an epoch, validations and checkpoints apart. Of the very
    steps that were looked at: where a step does something every other time, the mean of all steps is not theirs."""
    fed = roles.fed
    asked = [batch.asked_s for batch in fed]
    stops = sorted(stops, key=_begun)
    took = []
    for marks in samples:
        ended_s = marks[-1].host_s
        place = bisect_left(asked, ended_s)
        goes_on = 0 < place < len(asked) and (roles.beside or fed[place - 1].pass_number == fed[place].pass_number)
        if goes_on:
            apart = stops[bisect_left(stops, ended_s, key=_begun) : bisect_left(stops, asked[place], key=_begun)]
            took.append(max(0.0, asked[place] - ended_s - sum(stop.seconds for stop in apart)))
    return _mean(took)


def _begun(stop: Stop) -> float:
    return stop.begun_s


def _stage(stage: StageName, samples: Sequence[Sequence[StageEnded]]) -> StageTime:
    host_s, device_s, peaks = 0.0, 0.0, []
    on_device = True
    has_device = any(mark.device is not None for marks in samples for mark in marks)
    for marks in samples:
        for before, mark in pairwise(marks):
            if mark.stage != stage:
                continue
            host_s += mark.host_s - before.host_s
            if mark.device_s is None or before.device_s is None:
                on_device = False
            else:
                device_s += mark.device_s - before.device_s
            if mark.peak_bytes is not None:
                peaks.append(mark.peak_bytes)
    return StageTime(
        stage="prepare" if stage == "transfer" and not has_device else stage,
        host_s=host_s / len(samples),
        device_s=device_s / len(samples) if on_device else None,
        peak_bytes=max(peaks, default=None),
    )


def _peaks(facts: Sequence[Fact], roles: Roles | None) -> tuple[int | None, int | None]:
    """The largest of one process on one device: limits are a device's. A training that died in its first step had no
    time to show its ranks."""
    own = [fact.data for fact in facts if fact.name == "memory" and (roles is None or fact.pid in roles.ranks)]
    return _most(data.get("allocated_peak") for data in own), _most(data.get("reserved_peak") for data in own)


def _retries(facts: Sequence[Fact], roles: Roles, regular: Sequence[StepWindow]) -> int | None:
    """After the warm-up, in which a search for kernels may well ask for more than there is. What was told first in the
    window is where it begins: a second of it may be missed, but none of the warm-up's is blamed on it. A retry that
    fails all the same is none: cuDNN tries workspaces for each new shape, and goes on without the one that does not
    fit."""
    by_device: dict[tuple[int, Any], list[int]] = defaultdict(list)
    for fact in facts:
        retries, ooms = fact.data.get("retries"), fact.data.get("ooms")
        own = fact.name == "memory" and fact.pid in roles.ranks and fact.t_s >= regular[0].started_s
        if own and isinstance(retries, int):
            by_device[fact.pid, fact.data.get("device")].append(retries - (ooms if isinstance(ooms, int) else 0))
    return sum(max(0, seen[-1] - seen[0]) for seen in by_device.values()) if by_device else None


def _skipped(facts: Sequence[Fact], roles: Roles) -> int | None:
    told = [fact.data.get("skipped") for fact in facts if fact.name == "scaler" and fact.pid == roles.pid]
    return told[-1] if told and isinstance(told[-1], int) else None


def _precision(facts: Sequence[Fact], roles: Roles) -> Mapping[str, Scalar]:
    told = [fact.data for fact in facts if fact.name == "precision" and fact.pid == roles.pid]
    return {name: value for name, value in told[-1].items() if isinstance(value, (bool, str))} if told else {}


def _most(values: Iterable[Any]) -> int | None:
    return max((value for value in values if isinstance(value, int)), default=None)


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return sum(known) / len(known) if known else None
