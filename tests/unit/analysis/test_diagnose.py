from dataclasses import replace

from support.records import a_record
from vtune.analysis.diagnose import WorkerCost, diagnose
from vtune.domain.machine import Machine

MACHINE = Machine(host="a", kernel="6", cpu_model=None, cores=12.0, ram_bytes=None, shm_bytes=None)
MEASURED = replace(
    a_record().measurement,
    effective_settings={"workers": 1, "prefetch_factor": 1, "persistent_workers": False, "batch_size": 1},
)


def test_a_training_that_waits_is_data_bound_and_told_what_to_try() -> None:
    found = diagnose(MEASURED, MACHINE, WorkerCost(batch_s=0.3, cpu_fraction=0.9), tree_cores=1.2)
    assert found.bottleneck == "data" and "83%" in found.verdict
    assert found.headroom is not None and 5.7 < found.headroom < 5.8
    assert any("workers=2" in line for line in found.next)
    assert any("300 ms" in line for line in found.why)


def test_no_more_workers_are_proposed_than_there_are_cores() -> None:
    found = diagnose(MEASURED, replace(MACHINE, cores=1.0), None, tree_cores=1.0)
    assert not any("--set workers" in line for line in found.next)


def test_a_training_that_does_not_wait_is_compute_bound_and_workers_are_not_proposed() -> None:
    found = diagnose(replace(MEASURED, data_wait_fraction=0.01, compute_samples_per_s=12.4), MACHINE, None, None)
    assert found.bottleneck == "compute"
    assert not any("--set workers" in line for line in found.next)


def test_neighbours_are_named_because_the_numbers_suffer() -> None:
    found = diagnose(replace(MEASURED, others_cores=1.5), MACHINE, None, None)
    assert any("1.5 cores" in line for line in found.why)


def test_without_a_visible_wait_nothing_is_claimed() -> None:
    found = diagnose(replace(MEASURED, data_wait_fraction=None), MACHINE, None, None)
    assert found.bottleneck == "unknown" and found.headroom is None


def test_steps_without_a_loader_are_still_counted() -> None:
    found = diagnose(replace(MEASURED, samples_per_s=None), MACHINE, None, None)
    assert "steps/s" in found.verdict and found.bottleneck == "unknown"
