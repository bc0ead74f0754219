"""Where a trial may be given a memory group of its own."""

from __future__ import annotations

import pytest

from vtune.telemetry.cgroup import MemoryGroups, PlaceForGroups


@pytest.fixture
def top(proc):
    return proc.root.parent / "groups"


def version_1(proc, **files: str) -> None:
    mount = f"31 20 0:27 / {proc.root.parent}/groups rw - cgroup cgroup rw,memory"
    given = {"cgroup.procs": "", "memory.use_hierarchy": "1", **files}
    proc.group("4:memory:/job", mount, {f"../groups/job/{name}": value for name, value in given.items()})


def version_2(proc, own: str, parent: dict[str, str], **files: str) -> None:
    mount = f"30 20 0:26 / {proc.root.parent}/groups rw - cgroup2 cgroup2 rw"
    around = {f"../groups/app/{name}": value for name, value in parent.items()}
    within = {f"../groups/app/shell/{name}": value for name, value in {"cgroup.procs": "", **files}.items()}
    proc.group(f"0::{own}", mount, {**around, **within})


def test_of_version_1_it_is_inside_our_own_group(proc, top) -> None:
    version_1(proc)
    assert MemoryGroups(proc.root).place_for_trials() == PlaceForGroups(kind="cgroup v1", parent=str(top / "job"))


def test_where_limits_are_not_inherited_there_is_none(proc) -> None:
    version_1(proc, **{"memory.use_hierarchy": "0"})
    assert "cannot be divided" in str(MemoryGroups(proc.root).place_for_trials())


DELEGATED = {"cgroup.procs": "", "cgroup.subtree_control": "memory pids"}


def test_of_version_2_it_is_beside_our_own_group(proc, top) -> None:
    unlimited = {"memory.max": "max", "cpu.max": "max 100000", "cpu.weight": "100", "cpuset.cpus": ""}
    version_2(proc, "/app/shell", DELEGATED, **unlimited)
    assert MemoryGroups(proc.root).place_for_trials() == PlaceForGroups(kind="cgroup v2", parent=str(top / "app"))


@pytest.mark.parametrize(
    ("name", "value"),
    [("memory.max", "1073741824"), ("cpu.max", "200000 100000"), ("cpuset.cpus", "0-3"), ("cpu.weight", "10")],
)
def test_a_trial_is_not_led_out_of_the_limits_that_hold_for_vtune(proc, name: str, value: str) -> None:
    version_2(proc, "/app/shell", DELEGATED, **{name: value})
    assert "would escape the limits" in str(MemoryGroups(proc.root).place_for_trials())


@pytest.mark.parametrize("parent", [{"cgroup.procs": "", "cgroup.subtree_control": "pids"}, {}])
def test_what_is_not_delegated_is_left_alone(proc, parent: dict[str, str]) -> None:
    version_2(proc, "/app/shell", parent)
    assert "not delegated" in str(MemoryGroups(proc.root).place_for_trials())


def test_of_the_root_of_version_2_it_is_inside(proc, top) -> None:
    version_2(proc, "/", {})
    for name, value in DELEGATED.items():
        proc.write(f"../groups/{name}", value)
    assert MemoryGroups(proc.root).place_for_trials() == PlaceForGroups(kind="cgroup v2", parent=str(top))


def test_memory_may_be_of_version_1_beside_a_version_2_without_it(proc, top) -> None:
    (proc.root.parent / "unified").mkdir()
    proc.group("0::/", f"29 20 0:26 / {proc.root.parent}/unified rw - cgroup2 cgroup2 rw", {})
    version_1(proc)
    assert MemoryGroups(proc.root).place_for_trials() == PlaceForGroups(kind="cgroup v1", parent=str(top / "job"))


def test_where_no_groups_are_seen_that_is_the_reason(proc) -> None:
    assert MemoryGroups(proc.root).place_for_trials() == "no memory control groups are seen here"
