"""A simulated training as the hooks would have seen it, up to a moment: events and facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vtune.analysis.measure import Observed
from vtune.analysis.roles import Roles, find_roles
from vtune.domain.events import Backward, BatchDelivered, BatchLoaded, DeviceStepped, Fact, OptimizerStepped
from vtune.execution.engines.simulated.surface import MIB, Device, Settings, settings_of
from vtune.execution.engines.simulated.training import Training

LOADER_KEY = "train.py:30:Samples#0@51a7ed00"
DEVICE_UUID = "00000000-5111-4a7e-d000-000000000000"
# From the process's start to torch's import.
HELLO_AFTER_S = 0.5
# By the third look of the hooks, a data set that keeps its samples is known to.
KEPT_IS_SEEN = 8
# Of a context and its libraries, beside the allocator.
CONTEXT_BYTES = 400 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    loaded: tuple[BatchLoaded, ...]
    delivered: tuple[BatchDelivered, ...]
    backwards: tuple[Backward, ...]
    steps: tuple[OptimizerStepped, ...]
    device_steps: tuple[DeviceStepped, ...]
    facts: tuple[Fact, ...]
    roles: Roles | None

    def observed(self, started_s: float) -> Observed:
        """As a running trial is judged: without its telemetry."""
        return Observed(
            roles=self.roles,
            loaded=self.loaded,
            delivered=self.delivered,
            steps=self.steps,
            backwards=self.backwards,
            facts=self.facts,
            telemetry=(),
            device_steps=self.device_steps,
            started_s=started_s,
        )


def record(training: Training, until_s: float, *, end_reason: str | None = None) -> Recording:
    pid, device = training.pid, training.surface.device
    steps = [one for one in training.steps if one.ended_s <= until_s]
    stepped = tuple(
        OptimizerStepped(pid=pid, optimizer=0, number=one.number, ended_s=one.ended_s, main_thread=True)
        for one in steps
    )
    delivered = tuple(
        BatchDelivered(
            pid=pid,
            loader=0,
            pass_number=one.pass_number,
            index=one.index,
            asked_s=one.asked_s,
            returned_s=one.returned_s,
            leading=one.samples,
            samples=one.samples,
            main_thread=True,
            nested=False,
            grad=True,
        )
        for one in training.deliveries
        if one.returned_s <= until_s
    )
    facts = _facts(training, until_s)
    if end_reason is not None:
        facts.append(Fact(pid=pid, t_s=until_s, name="end", data={"reason": end_reason, "step": len(steps)}))
    return Recording(
        loaded=tuple(
            BatchLoaded(
                pid=one.pid,
                worker=one.worker,
                resume=one.resume,
                index=one.index,
                started_s=one.started_s,
                finished_s=one.finished_s,
                cpu_s=one.cpu_s,
                samples=one.samples,
                files=None,
            )
            for one in training.loads
            if one.finished_s <= until_s
        ),
        delivered=delivered,
        backwards=tuple(
            Backward(pid=pid, number=number, started_s=started_s, ended_s=ended_s, main_thread=True)
            for number, (started_s, ended_s) in enumerate(training.backwards)
            if ended_s <= until_s
        ),
        steps=stepped,
        device_steps=() if device is None else tuple(_device_steps(training, until_s)),
        facts=tuple(facts),
        roles=find_roles(stepped, delivered, facts),
    )


def _device_steps(training: Training, until_s: float) -> list[DeviceStepped]:
    found: list[DeviceStepped] = []
    idle_since_s: float | None = None
    for one in training.steps:
        if one.ended_s > until_s:
            break
        gap_s = None if idle_since_s is None else max(0.0, one.on_device_s - idle_since_s)
        found.append(
            DeviceStepped(
                pid=training.pid, device=0, optimizer=0, number=one.number, busy_s=one.device_busy_s, gap_s=gap_s
            )
        )
        idle_since_s = one.on_device_s + one.device_busy_s
    return found


def _facts(training: Training, until_s: float) -> list[Fact]:
    pid, facts = training.pid, []

    def tell(t_s: float, name: str, data: Mapping[str, Any]) -> None:
        if t_s <= until_s:
            facts.append(Fact(pid=pid, t_s=t_s, name=name, data=data))

    tell(training.started_s + HELLO_AFTER_S, "hello", {
        "pid": pid, "ppid": pid - 1, "argv": ["train.py"], "executable": "python", "python": "3.11.0",
        "torch": "simulated", "rank": None, "world_size": None,
    })  # fmt: skip
    effective = effective_options(training.settings)
    for one in training.passes:
        if one.number == 0:
            tell(one.ready_s, "loader", {
                "loader": 0, "key": LOADER_KEY, "dataset": "Samples", "where": "train.py:30",
                "asked": effective_options(settings_of(training.surface, {})), "effective": effective,
                "iterable": False, "own_batch_sampler": False, "turned": {}, "left_alone": {},
            })  # fmt: skip
            tell(one.ready_s, "optimizer", {
                "optimizer": 0, "class": "SGD", "parameters": 2, "where": "train.py:20",
            })  # fmt: skip
        tell(one.ready_s, "pass", {
            "loader": 0, "iterator": one.iterator, "resume": one.resume, "begun": one.begun_s, "ready": one.ready_s,
            "length": one.length, "samples": training.surface.samples_per_epoch,
            "worker_pids": list(one.worker_pids), "effective": effective, "pass": one.number,
            "order": training.surface.unsteady.order,
        })  # fmt: skip
        if one.ended_s is not None:
            tell(one.ended_s, "pass_end", {"batches": one.batches, "pass": one.number})
    told_s = [one.returned_s for one in training.deliveries[:KEPT_IS_SEEN]]
    if training.surface.unsteady.kept_factor is not None and len(told_s) == KEPT_IS_SEEN:
        tell(told_s[-1], "data_set_grows", {"attribute": "cache"})
    if training.deliveries:
        tell(training.deliveries[0].returned_s, "shape", _shape(training))
    device = training.surface.device
    if device is not None and training.steps:
        _tell_device(tell, training, device)
    return facts


def _shape(training: Training) -> dict[str, Any]:
    """As if each batch were one tensor of floats."""
    batch = training.settings.batch
    size = int(batch * training.surface.sample.batch_bytes)
    pinned = 1 << (size - 1).bit_length() if size else 0
    return {"loader": 0, "shape": [batch, size // (4 * batch)], "bytes": size, "pinned_bytes": pinned}


def _tell_device(tell: Any, training: Training, device: Device) -> None:
    at_s = training.steps[0].ended_s
    tell(at_s, "device", {
        "device": 0, "type": "cuda", "name": device.name, "uuid": DEVICE_UUID, "total_bytes": device.vram_bytes,
        "backend": None, "pci": None, "visible": None,
    })  # fmt: skip
    reserved = int(device.base_bytes + training.settings.batch * device.sample_bytes) - CONTEXT_BYTES
    allocated = int(0.92 * reserved)
    for one in training.steps[:2]:
        tell(one.ended_s, "memory", {
            "device": 0, "allocated_peak": allocated, "reserved_peak": reserved, "allocated": allocated // 2,
            "reserved": reserved, "retries": 0, "ooms": 0, "step": one.number, "outside": CONTEXT_BYTES,
        })  # fmt: skip


def effective_options(settings: Settings) -> dict[str, Any]:
    """In torch's names."""
    return {
        "num_workers": settings.workers,
        "prefetch_factor": settings.prefetch if settings.workers else None,
        "persistent_workers": settings.persistent,
        "pin_memory": settings.pin,
        "batch_size": settings.batch,
        "in_order": settings.in_order,
        "start_method": "fork" if settings.workers else None,
    }
