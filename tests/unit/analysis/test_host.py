from dataclasses import replace
from pathlib import Path

import pytest

from support.trial_writer import TrialWriter
from vtune.analysis.advice import Again, next_steps
from vtune.analysis.diagnose import diagnose
from vtune.analysis.host import outside, with_outside
from vtune.analysis.measure import Observed, measure
from vtune.analysis.roles import find_roles
from vtune.domain.experiment import PlannedRun
from vtune.domain.machine import Machine
from vtune.domain.machine_use import GpuUse, StageTime
from vtune.domain.record import Measurement, StepTimes
from vtune.journal.step_log import StepLog

MACHINE = Machine(host="a", kernel="6", cpu_model=None, cores=12.0, ram_bytes=None, shm_bytes=None)


def measured(*, loss_s: float, step_s: float, wait: float = 0.02, prepare_s: float = 0.0) -> Measurement:
    stages = tuple(
        StageTime(stage=stage, host_s=host_s)  # type: ignore[arg-type]
        for stage, host_s in (
            ("prepare", prepare_s), ("forward", 0.004), ("loss", loss_s), ("backward", 0.005), ("step", 0.001),
        )
    )  # fmt: skip
    return Measurement(
        samples_per_s=2 / step_s,
        compute_samples_per_s=2 / step_s / (1 - wait),
        data_wait_fraction=wait,
        effective_batch=2,
        stages=stages,
        after_step_s=max(0.0, step_s * (1 - wait) - 0.01 - loss_s - prepare_s),
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


def test_work_on_the_batch_before_the_model_makes_the_main_process_late() -> None:
    found = with_outside(measured(loss_s=0.0, step_s=0.09, prepare_s=0.07))
    parts = outside(found)
    assert parts is not None and parts.longest == "prepare"
    told = diagnose(found, MACHINE)
    assert told.bottleneck == "host"
    assert any("before its model has it (70 ms a step)" in line for line in told.next)


def a_step(writer: TrialWriter, number: int, *, at_s: float, prepare_s: float, device: int = 0) -> None:
    """Looked at closely: a batch, work on it, and 10 ms each of forward, loss, backward and step."""
    ends = [at_s, at_s + prepare_s, *(at_s + prepare_s + 0.01 * n for n in range(1, 5))]
    for stage, host_s in enumerate(ends):
        writer.record(6, flags=1, source=device, group=stage, index=number, a=host_s, b=host_s, c=-1.0)


@pytest.mark.parametrize(("device", "stage"), [(0, "prepare"), (1, "transfer")])
def test_without_a_device_nothing_is_a_transfer(tmp_path: Path, device: int, stage: str) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    writer.begin_pass(workers=0)
    for j in range(60):
        now = j * 0.15
        writer.deliver(now, now + 0.01, j)
        if j % 7 == 5:
            a_step(writer, j + 1, at_s=now + 0.01, prepare_s=0.09, device=device)
        writer.step(now + 0.14)
    found = numbers(writer)
    assert [(one.stage, round(one.host_s, 3)) for one in found.stages][:2] == [(stage, 0.09), ("forward", 0.01)]
    if not device:
        assert found.outside_fraction == pytest.approx(0.11 / 0.15, abs=0.02)
        assert diagnose(found, MACHINE).bottleneck == "host"
        assert not any("transfer" in line for line in diagnose(found, MACHINE).why)


@pytest.mark.parametrize("loader_s", [0.001, 0.006])
def test_a_validation_every_few_steps_is_named_and_is_no_work_of_the_main_process(
    tmp_path: Path, loader_s: float
) -> None:
    """Steps of 4.6 ms, and a validation of 72 ms after every fourth: 18 of 22.6 ms a step."""
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    writer.loader(1, "train.py:9:Patches#0 bbbb")
    writer.begin_pass(0, workers=0, length=1000)
    now, passes = 0.0, 1
    for j in range(100):
        writer.deliver(now, now + 0.0002, j)
        if j % 7 == 5:
            writer.record(6, group=0, index=j + 1, a=now + 0.0002, b=now, c=-1.0)
            for stage, part in ((1, 0.0003), (2, 0.0020), (3, 0.0022), (4, 0.0040), (5, 0.0045)):
                writer.record(6, group=stage, index=j + 1, a=now + part, b=now, c=-1.0)
        now += 0.0045
        writer.step(now)
        now += 0.0001
        if j % 4 == 3:
            writer.begin_pass(passes, loader=1, workers=0, batch=1, length=8, begun=now)
            for k in range(8):
                writer.deliver(now, now + loader_s, k, loader=1, pass_number=passes, flags=1)
                now += 0.009
            writer.fact("pass_end", **{"pass": passes}, batches=8)
            passes += 1
    found = numbers(writer)
    [pause] = found.pauses
    assert (pause.what, pause.counted, pause.every_steps) == ("validation", True, 4.0)
    assert pause.time_fraction == pytest.approx(18 / 22.6, abs=0.02)
    assert found.after_step_s == pytest.approx(0.0001, abs=0.00005)
    assert found.outside_fraction is not None and found.outside_fraction < 0.1
    # All waiting for batches is one figure: the training's own and the validation's.
    own = 0.0002 * 4 / (4 * 0.0226)
    assert found.data_wait_fraction == pytest.approx(own + pause.wait_fraction, abs=0.01)
    assert found.other_loaders_wait_fraction == pytest.approx(pause.wait_fraction, abs=0.01)
    told = diagnose(found, MACHINE)
    assert told.bottleneck == "validation" and "every 4 steps" in told.verdict
    assert not any("host" in line or "logging" in line for line in (told.verdict, *told.why, *told.next))
    assert any("every 4 steps" in line for line in told.next)


def a_pause_every_tenth_step(writer: TrialWriter, *, shown: int) -> Measurement:
    """Steps of 10 ms, and 100 ms after every tenth; in the last of those, forwards without gradients were seen."""
    writer.hello()
    writer.loader()
    writer.begin_pass(0, workers=0, length=1000)
    now, pauses = 0.0, []
    for j in range(90):
        writer.deliver(now, now + 0.0002, j)
        now += 0.010
        writer.step(now)
        if j % 10 == 9:
            pauses.append((now, now + 0.1))
            now += 0.1
    for begun, ended in pauses[3 : 3 + shown]:
        writer.fact("evaluated", begun=begun, ended=ended)
    return numbers(writer)


def test_a_validation_on_batches_of_no_loader_is_named(tmp_path: Path) -> None:
    found = a_pause_every_tenth_step(TrialWriter(tmp_path), shown=3)
    [pause] = found.pauses
    assert (pause.what, pause.every_steps) == ("validation", 10.0)
    assert pause.seconds == pytest.approx(0.1) and pause.time_fraction == pytest.approx(0.5, abs=0.03)
    told = diagnose(found, MACHINE)
    assert told.bottleneck == "validation"
    assert not any("larger batch" in line for line in told.next)


def test_what_only_every_tenth_step_does_is_told_where_nobody_saw_it(tmp_path: Path) -> None:
    found = a_pause_every_tenth_step(TrialWriter(tmp_path), shown=0)
    assert found.pauses == ()
    told = diagnose(found, MACHINE)
    assert "every 10 steps" in told.verdict
    assert any("every 10 steps" in line for line in told.next)
    assert not any("larger batch" in line for line in told.next)


def numbers(writer: TrialWriter) -> Measurement:
    log = StepLog(writer.paths)
    log.refresh()
    observed = Observed(
        roles=find_roles(log.steps, log.delivered, log.facts), loaded=log.loaded, delivered=log.delivered,
        steps=log.steps, backwards=log.backwards, facts=log.facts, telemetry=(), stages=log.stages, started_s=0.0,
    )  # fmt: skip
    return measure(observed, PlannedRun(), None)


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
    assert not any("between two steps" in one.text for one in next_steps(on_gpu, "host", MACHINE, Again()))


def test_what_is_tried_next_goes_on_from_the_settings_of_this_trial_in_its_study() -> None:
    waiting = measured(loss_s=0.0, step_s=0.05, wait=0.5)
    [advice, *_] = next_steps(waiting, "data", MACHINE, Again(study="s", settings={"in_order": False, "workers": 2}))
    assert "vtune probe --study s --set in_order=false --set workers=4" in advice.text
    assert advice.asks == {"in_order": False, "workers": 4}


def test_a_late_host_that_also_waits_is_not_told_that_workers_cannot_help() -> None:
    late = measured(loss_s=0.08, step_s=0.15, wait=0.4)
    assert not any("cannot help" in one.text for one in next_steps(late, "host", MACHINE, Again()))
    assert any(
        "cannot help" in one.text for one in next_steps(measured(loss_s=0.08, step_s=0.09), "host", MACHINE, Again())
    )
