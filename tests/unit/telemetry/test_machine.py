from __future__ import annotations

import os

import pytest

from vtune.telemetry.machine import this_machine

GIB = 1024**3


def v1(proc, controller: str, line: str, root: str, files: dict[str, int]) -> None:
    top = f"{proc.root.parent}/{controller}"
    mount = f"31 20 0:27 {root} {top} rw,nosuid shared:9 - cgroup cgroup rw,{controller}"
    proc.group(line, mount, {f"../{controller}/{path}": value for path, value in files.items()})


def v2(proc, line: str, files: dict[str, int | str], root: str = "/") -> None:
    mount = f"30 20 0:26 {root} {proc.root.parent}/unified rw,nosuid - cgroup2 cgroup2 rw"
    proc.group(line, mount, {f"../unified/{path}": value for path, value in files.items()})


def test_without_groups_it_is_what_is_built_in(proc):
    machine = this_machine(proc.root)
    assert machine.ram_bytes == 16 * GIB
    assert machine.cores == len(os.sched_getaffinity(0))


def test_affinity_limits_the_cores(proc):
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert this_machine(proc.root).cores == 1.0
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize(("quota", "cores"), [("50000 100000", 0.5), ("max 100000", None), ("99900000 100000", None)])
def test_a_quota_of_version_2_limits_the_cores(proc, quota, cores):
    v2(proc, "0::/job", {"job/cpu.max": quota})
    assert this_machine(proc.root).cores == (cores or len(os.sched_getaffinity(0)))


def test_a_quota_of_version_1_limits_the_cores(proc):
    v1(proc, "cpu", "3:cpu,cpuacct:/job", "/", {"job/cpu.cfs_quota_us": 25000, "job/cpu.cfs_period_us": 100000})
    assert this_machine(proc.root).cores == 0.25


def test_no_quota_of_version_1_is_minus_one(proc):
    v1(proc, "cpu", "3:cpu:/job", "/", {"job/cpu.cfs_quota_us": -1, "job/cpu.cfs_period_us": 100000})
    assert this_machine(proc.root).cores == len(os.sched_getaffinity(0))


def test_the_tightest_group_above_counts(proc):
    v2(proc, "0::/user/job", {"user/job/memory.max": "max", "user/memory.max": 2 * GIB, "memory.max": 3 * GIB})
    assert this_machine(proc.root).ram_bytes == 2 * GIB


def test_no_limit_of_version_1_is_a_huge_number(proc):
    v1(proc, "memory", "4:memory:/job", "/", {"job/memory.limit_in_bytes": 9223372036854771712})
    assert this_machine(proc.root).ram_bytes == 16 * GIB


def test_in_a_container_the_hosts_path_is_taken_below_the_mounted_root(proc):
    v1(proc, "memory", "4:memory:/docker/abc", "/docker/abc", {"memory.limit_in_bytes": GIB})
    assert this_machine(proc.root).ram_bytes == GIB


def test_a_group_that_is_not_visible_here_falls_back_to_the_mounted_root(proc):
    v1(proc, "memory", "4:memory:/slurm/job_7", "/", {"memory.limit_in_bytes": 5 * GIB})
    assert this_machine(proc.root).ram_bytes == 5 * GIB


@pytest.mark.parametrize(
    ("cpuinfo", "model"),
    [
        ("processor\t: 0\nmodel name\t: AMD  EPYC 7763\nmodel name\t: other\n", "AMD EPYC 7763"),
        ("processor\t: 0\ncpu\t\t: POWER9, altivec supported\n", "POWER9, altivec supported"),
        ("processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\n", None),
    ],
)
def test_the_processor_is_named_as_the_kernel_names_it(proc, cpuinfo, model):
    proc.write("cpuinfo", cpuinfo)
    assert this_machine(proc.root).cpu_model == model


def test_this_very_machine_is_known():
    machine = this_machine()
    assert machine.cores > 0
    assert machine.ram_bytes is not None and machine.ram_bytes > GIB // 4
    assert machine.host and machine.kernel
