"""A window of many thousand steps costs as many times as much as a short one, and not the square of it."""

from __future__ import annotations

import time

from support.trial_writer import PID
from vtune.analysis.measure import Observed, measure, steps_measured
from vtune.analysis.roles import find_roles
from vtune.domain.events import BatchDelivered, BatchLoaded, Fact, OptimizerStepped, ProcessSample, TelemetrySample
from vtune.domain.experiment import PlannedRun

TRAIN, VALIDATION = 0, 1
STEP_S, PASS, EVERY = 0.001, 40, 4


def observed(steps: int) -> Observed:
    """Short epochs by a worker each, a validation of two batches every fourth step, and a checkpoint at each end."""
    facts = [
        Fact(pid=PID, t_s=0.0, name="loader", data={"loader": number, "key": f"train.py:{number}:Set#0 aaaa"})
        for number in (TRAIN, VALIDATION)
    ]
    loaded, delivered, stepped, telemetry = [], [], [], []
    now, passes, number = 0.0, 0, 0

    def begin(loader: int, worker: int | None) -> int:
        nonlocal passes
        effective = {"num_workers": int(worker is not None), "prefetch_factor": 2, "batch_size": 2}
        data = {
            "pass": passes,
            "loader": loader,
            "begun": now,
            "length": PASS,
            "effective": effective,
            "worker_pids": [] if worker is None else [worker],
        }
        facts.append(Fact(pid=PID, t_s=now, name="pass", data=data))
        passes += 1
        return passes - 1

    def deliver(loader: int, pass_number: int, index: int, *, grad: bool) -> None:
        delivered.append(
            BatchDelivered(
                pid=PID,
                loader=loader,
                pass_number=pass_number,
                index=index,
                asked_s=now,
                returned_s=now + 1e-4,
                leading=2,
                samples=2,
                main_thread=True,
                nested=False,
                grad=grad,
            )
        )

    while number < steps:
        worker = 10_000 + passes
        mine = begin(TRAIN, worker)
        for index in range(PASS):
            loaded.append(
                BatchLoaded(
                    pid=worker,
                    worker=0,
                    resume=0,
                    index=index,
                    started_s=now - STEP_S / 2,
                    finished_s=now,
                    cpu_s=1e-4,
                    samples=2,
                    files=None,
                )
            )
            deliver(TRAIN, mine, index, grad=True)
            now += STEP_S * (1 + 0.1 * (number % 7 == 3))
            stepped.append(OptimizerStepped(pid=PID, optimizer=0, number=number, ended_s=now, main_thread=True))
            number += 1
            if number % EVERY == 0:
                other = begin(VALIDATION, None)
                for place in range(2):
                    deliver(VALIDATION, other, place, grad=False)
                    now += STEP_S / 2
        facts.append(Fact(pid=PID, t_s=now, name="pass_end", data={"pass": mine, "batches": PASS}))
        facts.append(Fact(pid=PID, t_s=now, name="saved", data={"begun": now, "seconds": STEP_S}))
        now += STEP_S
        one = ProcessSample(pid=PID, ppid=1, name="python", rss_bytes=2**28, cpu_s=now, anon_bytes=2**27)
        telemetry.append(
            TelemetrySample(
                t_s=now,
                processes=(one,),
                ram_bytes=2**28,
                shm_used_bytes=2**20,
                others_cores=0.0,
                ram_available_bytes=2**33,
            )
        )
    return Observed(
        roles=find_roles(stepped, delivered, facts),
        loaded=loaded,
        delivered=delivered,
        steps=stepped,
        backwards=(),
        facts=facts,
        telemetry=telemetry,
        started_s=-1.0,
    )


def cost_s(steps: int) -> float:
    seen = observed(steps)
    began_s = time.process_time()
    assert steps_measured(seen.roles, seen.loaded, seen.facts) > steps / 2
    found = measure(seen, PlannedRun(epochs=10**6), None)
    took_s = time.process_time() - began_s
    assert found.samples_per_s is not None and {pause.what for pause in found.pauses} == {"validation", "checkpoint"}
    return took_s


def test_four_times_the_steps_cost_far_less_than_sixteen_times_as_much() -> None:
    """Processor time, the least of three: neighbours empty the caches, which costs twofold now and then."""
    less, more = (min(cost_s(steps) for _ in range(3)) for steps in (2000, 8000))
    assert more < 10 * less
