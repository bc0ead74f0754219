from dataclasses import replace

import pytest

from support.records import a_record
from vtune.analysis.advice import Again
from vtune.analysis.diagnose import diagnose
from vtune.domain.machine import Machine
from vtune.domain.machine_use import GpuUse, ProcessUse, RamGrowth, StageTime
from vtune.domain.record import Measurement, Projection, Tail, WhatIf, WorkerCost
from vtune.domain.repeated import Repeated, Repeats
from vtune.domain.steady import FewSteps, WideInterval

MACHINE = Machine(host="a", kernel="6", cpu_model=None, cores=12.0, ram_bytes=None, shm_bytes=None)
MEASURED = replace(
    a_record().measurement,
    effective_settings={"workers": 1, "prefetch_factor": 1, "persistent_workers": False, "batch_size": 1},
)


def test_a_training_that_waits_is_data_bound_and_told_what_to_try() -> None:
    found = diagnose(replace(MEASURED, worker_cost=WorkerCost(batch_s=0.3, cpu_fraction=0.9)), MACHINE)
    assert found.bottleneck == "data" and "83%" in found.verdict
    assert found.headroom is not None and 5.8 < found.headroom < 5.9
    assert any("workers=2" in line for line in found.next)
    assert any("300 ms" in line for line in found.why)


def test_no_more_workers_are_proposed_than_there_are_cores() -> None:
    found = diagnose(MEASURED, replace(MACHINE, cores=1.0))
    assert not any("--set workers" in line for line in found.next)


def test_workers_that_only_wait_may_be_more_than_the_cores() -> None:
    waiting = replace(MEASURED, worker_cost=WorkerCost(batch_s=0.3, cpu_fraction=0.02))
    assert any("workers=2" in line for line in diagnose(waiting, replace(MACHINE, cores=1.0)).next)


@pytest.mark.parametrize(
    ("limit_mib", "said"), [(2000, "try 8 workers"), (850, "try 6 workers"), (700, "8 workers would hardly fit")]
)
def test_no_more_workers_are_proposed_than_the_ram_limit_holds(limit_mib: int, said: str) -> None:
    # 600 MiB for the training and four workers: 120 MiB for each of the five.
    waiting = replace(MEASURED, effective_settings={"workers": 4}, ram_peak_bytes=600 * 2**20)
    found = diagnose(waiting, MACHINE, Again(ram_limit_bytes=limit_mib * 2**20)).next
    assert any(said in line for line in found), found


def test_a_training_that_does_not_wait_is_compute_bound_and_workers_are_not_proposed() -> None:
    found = diagnose(replace(MEASURED, data_wait_fraction=0.01), MACHINE)
    assert "at most" not in found.verdict
    assert found.bottleneck == "compute"
    assert not any("--set workers" in line for line in found.next)


@pytest.mark.parametrize(
    ("data_free", "loader", "twice", "is_limited_by_steps"),
    [(95.1, 1311.0, 90.0, True), (120.0, 1311.0, 90.0, False), (95.1, 110.0, 90.0, False), (95.1, 1311.0, 95.0, False)],
)
def test_a_training_whose_steps_are_the_limit_is_not_told_to_make_a_sample_cheaper(
    data_free: float, loader: float, twice: float, is_limited_by_steps: bool
) -> None:
    replayed = (
        WhatIf(change="data_free", samples_per_s=data_free), WhatIf(change="twice_the_workers", samples_per_s=twice)
    )  # fmt: skip
    waiting = replace(
        MEASURED, samples_per_s=90.0, samples_per_s_ci95=(88.0, 92.0), data_wait_fraction=0.054, what_if=replayed,
        loader_samples_per_s=loader, compute_samples_per_s=95.1, worker_cost=WorkerCost(batch_s=0.003, cpu_fraction=0.3)
    )  # fmt: skip
    found = diagnose(waiting, MACHINE).next
    assert any("the steps are the limit" in line and "1.06×" in line for line in found) is is_limited_by_steps
    assert not (is_limited_by_steps and [line for line in found if "worker" in line or "sample cheaper" in line])


def test_a_longer_look_is_not_advised_before_repeated_data_is_mended() -> None:
    found = Repeated(reason=Repeats.SAME_NUMBERS, workers=2, dataset="Crops", generator="self.rng")
    unsteady = replace(
        MEASURED, steady=False, doubts=(WideInterval(half_width=0.2, of="steps"),), unsteady_because="it varies"
    )
    assert any("--precise" in line for line in diagnose(unsteady, MACHINE).next)
    assert not any("--precise" in line for line in diagnose(replace(unsteady, repeated=found), MACHINE).next)


def test_no_more_workers_are_proposed_where_its_processes_wait_for_cores() -> None:
    cheap = replace(MEASURED, worker_cost=WorkerCost(batch_s=0.3, cpu_fraction=0.4))
    queued = replace(cheap, processes=(ProcessUse(role="main"), ProcessUse(role="worker 0", queued_fraction=0.5)))
    assert any("--set workers" in line for line in diagnose(cheap, MACHINE).next)
    lines = diagnose(queued, MACHINE).next
    assert any("the cores are the limit" in line for line in lines)
    assert not any("--set workers" in line for line in lines)


def test_neighbours_are_named_because_the_numbers_suffer() -> None:
    found = diagnose(replace(MEASURED, others_cores=1.5), MACHINE)
    assert any("1.5 cores" in line for line in found.why)


def test_without_a_visible_wait_nothing_is_claimed() -> None:
    found = diagnose(replace(MEASURED, data_wait_fraction=None), MACHINE)
    assert found.bottleneck == "unknown" and found.headroom is None


def test_steps_without_a_loader_are_still_counted() -> None:
    found = diagnose(replace(MEASURED, samples_per_s=None), MACHINE)
    assert "steps/s" in found.verdict and found.bottleneck == "unknown"


def test_short_epochs_whose_restart_is_waited_for_are_data_bound() -> None:
    restarting = replace(
        MEASURED,
        data_wait_fraction=0.0,
        epoch_restart_s=8.0,
        epoch_restart_wait_s=7.9,
        projected=Projection(epoch_s=8.8),
    )
    found = diagnose(restarting, MACHINE)
    assert found.bottleneck == "data" and "start of each epoch" in found.verdict
    assert any("persistent_workers=true" in line for line in found.next)
    assert not any("--set workers" in line for line in found.next)


@pytest.mark.parametrize(
    ("waited_s", "epochs", "rebuilt", "worth"),
    [(1.0, None, False, True), (1.0, 30, False, True), (0.26, 30, False, False), (1.0, 1, False, False),
     (1.0, 30, True, False)],
)  # fmt: skip
def test_workers_that_stay_are_advised_only_where_a_run_would_be_felt_to_be_shorter(
    waited_s: float, epochs: int | None, rebuilt: bool, worth: bool
) -> None:
    restarting = replace(
        MEASURED, epoch_restart_s=waited_s, epoch_restart_wait_s=waited_s, loader_rebuilt=rebuilt,
        projected=Projection(epoch_s=18.2, epochs=epochs), worker_cost=WorkerCost(batch_s=0.01, cpu_fraction=0.9),
    )  # fmt: skip
    found = diagnose(restarting, MACHINE)
    assert any("persistent_workers=true" in line for line in found.next) == worth
    assert any("whatever persistent_workers says" in line for line in found.why) == rebuilt


def test_settings_that_were_no_faster_are_not_advised() -> None:
    tried = ({"workers": 2, "batch_size": 1, "prefetch_factor": 1}, {"workers": 1, "prefetch_factor": 2})
    fresh, known = (diagnose(MEASURED, MACHINE, Again(no_faster=some)) for some in ((), tried))
    assert any("--set workers=2" in line for line in fresh.next)
    assert not any("--set workers=2" in line for line in known.next)
    other = diagnose(MEASURED, MACHINE, Again(no_faster=({"workers": 2, "batch_size": 8},)))
    assert any("--set workers=2" in line for line in other.next)


def test_one_worker_is_one_worker() -> None:
    alone = replace(MEASURED, effective_settings={"workers": 0, "batch_size": 1}, ram_peak_bytes=600 * 2**20)
    lines = diagnose(alone, replace(MACHINE, cores=1.0), Again(no_faster=({"workers": 1, "batch_size": 1},))).next
    assert any(line.startswith("1 worker:") for line in lines)


def test_workers_whose_memory_grows_are_not_advised_to_persist() -> None:
    restarting = replace(
        MEASURED,
        data_wait_fraction=0.0,
        epoch_restart_s=8.0,
        epoch_restart_wait_s=7.9,
        projected=Projection(epoch_s=8.8),
    )
    leak = RamGrowth(
        kind="leak", who="workers", bytes_per_step=1e6, bytes_per_step_ci95=(9e5, 1.1e6), steps=100, to_come_bytes=10**8
    )
    leaking = diagnose(replace(restarting, ram_growth=(leak,)), MACHINE)
    assert not any("persistent_workers=true" in line for line in leaking.next)
    mains = diagnose(replace(restarting, ram_growth=(replace(leak, who="main"),)), MACHINE)
    assert any("persistent_workers=true" in line for line in mains.next)
    (line,) = [
        line
        for line in diagnose(replace(restarting, unknown={"ram_growth": "too short"}), MACHINE).next
        if "persistent_workers=true" in line
    ]
    assert "whether their memory would grow on" in line


def test_a_window_fed_from_stock_is_no_proof_of_anything_but_the_loaders_pace() -> None:
    found = diagnose(replace(MEASURED, fed_from_stock=True, data_wait_fraction=0.0), MACHINE)
    assert found.bottleneck == "data" and found.headroom is None and "--precise" in found.next[0]


@pytest.mark.parametrize(
    "measured",
    [
        replace(MEASURED, steady=False, unsteady_because="few steps", doubts=(FewSteps(steps=3),)),
        replace(MEASURED, steady=False, fed_from_stock=True),
        replace(MEASURED, tail=Tail(slow=9, batches=90, matters=True)),
    ],
)
def test_a_precise_window_is_not_advised_after_one(measured: Measurement) -> None:
    usual, precise = (diagnose(measured, MACHINE, Again(precise=asked)).next for asked in (False, True))
    assert any("--precise" in line for line in usual) and not any("--precise" in line for line in precise)


def test_in_between_is_called_balanced() -> None:
    assert diagnose(replace(MEASURED, data_wait_fraction=0.15), MACHINE).bottleneck == "balanced"


def test_a_projection_without_an_epochs_end_says_what_it_leaves_out() -> None:
    assert any("leaves out validation" in line for line in diagnose(MEASURED, MACHINE).why)


GPU = GpuUse(index=0, uuid="GPU-1", name="A100", util_mean=20.0)
ON_A_GPU = replace(MEASURED, data_wait_fraction=0.01, gpus=(GPU,), device_step_s=0.03)


def test_a_device_that_idles_while_the_main_process_works_is_host_bound_not_compute_bound() -> None:
    found = diagnose(replace(ON_A_GPU, host_fraction=0.7, transfer_fraction=0.05), MACHINE)
    assert found.bottleneck == "host" and "70%" in found.verdict
    assert any(line.startswith("look at what the training does between its kernels:") for line in found.next)
    stages = (StageTime(stage="forward", host_s=0.002), StageTime(stage="loss", host_s=0.08))
    staged = diagnose(replace(ON_A_GPU, host_fraction=0.7, stages=stages), MACHINE)
    assert any("in the loss stage (80 ms)" in line for line in staged.next)
    assert not any("--set workers" in line for line in found.next)


def test_a_device_that_waits_for_its_batch_is_transfer_bound() -> None:
    found = diagnose(replace(ON_A_GPU, host_fraction=0.05, transfer_fraction=0.4), MACHINE)
    assert found.bottleneck == "transfer" and "40%" in found.verdict


def test_compute_is_not_blamed_where_the_devices_idling_could_not_be_seen() -> None:
    assert "could not be told apart" in diagnose(ON_A_GPU, MACHINE).verdict
    assert "could not be told apart" not in diagnose(replace(ON_A_GPU, host_fraction=0.01), MACHINE).verdict


def test_storage_is_blamed_only_when_the_bytes_came_from_the_disk() -> None:
    waiting = replace(MEASURED, worker_cost=WorkerCost(batch_s=0.3, cpu_fraction=0.1), cold_fraction=0.95)
    assert diagnose(waiting, MACHINE).bottleneck == "storage"
    assert diagnose(replace(waiting, cold_fraction=0.02), MACHINE).bottleneck == "data"
    assert diagnose(replace(waiting, cold_fraction=None), MACHINE).bottleneck == "data"
    computing = replace(waiting, worker_cost=WorkerCost(batch_s=0.3, cpu_fraction=0.9))
    assert diagnose(computing, MACHINE).bottleneck == "data"


def test_clocks_held_down_and_a_full_allocator_are_named() -> None:
    gpu = replace(GPU, throttled={"heat": 0.5, "power cap": 0.01})
    lines = diagnose(replace(ON_A_GPU, gpus=(gpu,), alloc_retries=3), MACHINE).why
    assert any("heat in 50%" in line for line in lines) and not any("power cap" in line for line in lines)
    assert any("3 times" in line for line in lines)
    kept = replace(ON_A_GPU, vram_reserved_peak_bytes=2 * 2**30, vram_allocated_peak_bytes=2**30, skipped_steps=2)
    lines = diagnose(kept, MACHINE).why
    assert any("2 GiB of VRAM, of which 1 GiB" in line for line in lines)
    assert any(line.startswith("2 optimizer steps were left out") for line in lines)
