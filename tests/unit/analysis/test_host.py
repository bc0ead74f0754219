from dataclasses import replace

import pytest

from vtune.analysis.advice import Again, next_steps
from vtune.analysis.diagnose import diagnose
from vtune.analysis.host import with_outside
from vtune.domain.machine import Machine
from vtune.domain.record import GpuUse, Measurement, StageTime, StepTimes

MACHINE = Machine(host="a", kernel="6", cpu_model=None, cores=12.0, ram_bytes=None, shm_bytes=None)


def measured(*, loss_s: float, step_s: float, wait: float = 0.02) -> Measurement:
    stages = tuple(
        StageTime(stage=stage, host_s=host_s)  # type: ignore[arg-type]
        for stage, host_s in (("forward", 0.004), ("loss", loss_s), ("backward", 0.005), ("step", 0.001))
    )
    return Measurement(
        samples_per_s=2 / step_s,
        compute_samples_per_s=2 / step_s / (1 - wait),
        data_wait_fraction=wait,
        effective_batch=2,
        stages=stages,
        after_step_s=max(0.0, step_s * (1 - wait) - 0.01 - loss_s),
        step_time_s=StepTimes(p10=step_s, p50=step_s, p90=step_s, p99=step_s, mean=step_s),
        effective_settings={"workers": 2},
    )


def test_a_loss_on_the_cpu_makes_the_main_process_late() -> None:
    found = with_outside(measured(loss_s=0.08, step_s=0.09))
    assert found.outside_fraction == pytest.approx(0.08 / 0.09, abs=0.03)
    told = diagnose(found, MACHINE)
    assert told.bottleneck == "host" and "outside its model" in told.verdict
    assert any("in its loss (80 ms" in line for line in told.next)


def test_logging_between_two_steps_makes_the_main_process_late() -> None:
    found = with_outside(measured(loss_s=0.0, step_s=0.09))
    told = diagnose(found, MACHINE)
    assert told.bottleneck == "host"
    assert any("between two steps" in line for line in told.next)


def test_a_model_that_computes_is_no_late_host() -> None:
    found = with_outside(measured(loss_s=0.003, step_s=0.0133))
    assert found.outside_fraction == pytest.approx(0.2, abs=0.05)
    assert diagnose(found, MACHINE).bottleneck == "compute"


def test_waiting_for_data_is_not_the_hosts_own_time() -> None:
    found = with_outside(measured(loss_s=0.08, step_s=0.9, wait=0.9))
    assert found.outside_fraction == pytest.approx(0.09, abs=0.02)
    assert diagnose(found, MACHINE).bottleneck == "data"


def test_with_a_device_its_own_clock_decides() -> None:
    on_gpu = replace(measured(loss_s=0.08, step_s=0.09), gpus=(GpuUse(index=0, uuid="GPU-1"),))
    assert with_outside(on_gpu).outside_fraction is None
    assert not any("between two steps" in line for line in next_steps(on_gpu, "host", MACHINE, Again()))


def test_what_is_tried_next_goes_on_from_the_settings_of_this_trial_in_its_study() -> None:
    waiting = measured(loss_s=0.0, step_s=0.05, wait=0.5)
    [line, *_] = next_steps(waiting, "data", MACHINE, Again(study="s", settings={"in_order": False, "workers": 2}))
    assert "vtune probe --study s --set in_order=false --set workers=4" in line


def test_a_late_host_that_also_waits_is_not_told_that_workers_cannot_help() -> None:
    late = measured(loss_s=0.08, step_s=0.15, wait=0.4)
    assert not any("cannot help" in line for line in next_steps(late, "host", MACHINE, Again()))
    assert any(
        "cannot help" in line for line in next_steps(measured(loss_s=0.08, step_s=0.09), "host", MACHINE, Again())
    )
