from __future__ import annotations

import os

import pytest

from vtune.telemetry.host import HostSampler
from vtune.telemetry.machine_load import MachineLoad
from vtune.telemetry.proc_files import ProcFiles
from vtune.telemetry.processes import Stat

TICKS = os.sysconf("SC_CLK_TCK")


def cores(proc, *busy_s: float) -> None:
    """Each core has worked so long."""
    lines = [f"cpu{n} {int(s * TICKS)} 0 0 9 0 0 0 0 0 0" for n, s in enumerate(busy_s)]
    lines.insert(0, f"cpu  {int(sum(busy_s) * TICKS)} 0 0 9 0 0 0 0 0 0")
    proc.write("stat", "\n".join([*lines, "intr 5 0 0", "ctxt 7"]) + "\n")


def quota(proc, cores_: float, used_s: float) -> None:
    if not (proc.root / "self/cgroup").read_text():
        proc.group("0::/job", f"30 20 0:26 / {proc.root.parent}/groups rw - cgroup2 cgroup2 rw", {})
    proc.write("../groups/job/cpu.max", f"{int(cores_ * 100000)} 100000\n")
    proc.write("../groups/job/cpu.stat", f"usage_usec {int(used_s * 1e6)}\nuser_usec 5\n")


def others(proc, then, *, ours_s: float, allowed=range(16)) -> float | None:
    """Over one second in which the trial worked for `ours_s`."""
    load = MachineLoad(ProcFiles(proc.root), proc.root, frozenset(allowed))
    assert load.others_cores(0.0, [Stat(1, "python", False, 0.0, 0.0)]) is None
    then()
    return load.others_cores(1.0, [Stat(1, "python", False, ours_s, 0.0)])


def test_only_the_cores_that_we_may_use_count(proc):
    cores(proc, 0.0, 0.0, 0.0, 0.0)
    # Two foreign cores are full, ours have a second for another.
    found = others(proc, lambda: cores(proc, 1.0, 1.0, 1.0, 0.5), ours_s=0.5, allowed={2, 3})
    assert found == pytest.approx(1.0)


def test_under_a_quota_the_rest_of_the_machine_may_be_busy(proc):
    cores(proc, *[0.0] * 16)
    quota(proc, 4.0, 0.0)

    def then() -> None:
        cores(proc, *[0.75] * 16)  # 12 cores, 3.5 of them ours
        quota(proc, 4.0, 3.5)

    assert others(proc, then, ours_s=3.5) == pytest.approx(0.0)


def test_under_a_quota_who_shares_it_takes_from_us(proc):
    cores(proc, *[0.0] * 16)
    quota(proc, 4.0, 0.0)

    def then() -> None:
        cores(proc, *[0.25] * 16)
        quota(proc, 4.0, 4.0)

    assert others(proc, then, ours_s=2.5) == pytest.approx(1.5)


def test_under_a_quota_a_full_machine_takes_from_us(proc):
    cores(proc, *[0.0] * 16)
    quota(proc, 4.0, 0.0)

    def then() -> None:
        cores(proc, *[1.0] * 16)
        quota(proc, 4.0, 3.0)

    assert others(proc, then, ours_s=3.0) == pytest.approx(1.0)


def test_a_process_nobody_waited_for_does_not_become_a_neighbour_when_it_ends(proc):
    cores(proc, 0.0)
    proc.process(10, ticks=0)
    proc.process(11, ppid=1, ticks=50 * TICKS)
    pids = [10, 11]
    watch = HostSampler(lambda: pids, proc=proc.root)
    watch.sample(0.0, False)
    cores(proc, 1.0)
    pids.remove(11)  # its 50 s are in nobody's sum
    assert watch.sample(1.0, False).others_cores is None
    proc.process(10, ticks=TICKS)
    cores(proc, 2.0)
    assert watch.sample(2.0, False).others_cores == pytest.approx(0.0)


def test_children_too_short_to_be_seen_are_their_parents_work(proc):
    cores(proc, 0.0)
    proc.process(10, ticks=0, children=0)
    watch = HostSampler(lambda: (10,), proc=proc.root)
    watch.sample(0.0, False)
    proc.process(10, ticks=TICKS // 10, children=TICKS * 9 // 10)
    cores(proc, 1.0)
    assert watch.sample(1.0, False).others_cores == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("busy_s", "quota_cores", "in_group_s", "ours_s", "idle"),
    [(0.25, None, 0.0, 0.5, 3.0), (1.0, None, 0.0, 3.9, 0.0), (0.5, 2.0, 2.0, 1.9, 0.0), (0.25, 2.0, 0.5, 0.5, 1.5)],
)
def test_cores_that_nobody_uses_are_counted_within_the_quota(proc, busy_s, quota_cores, in_group_s, ours_s, idle):
    cores(proc, *[0.0] * 4)
    if quota_cores is not None:
        quota(proc, quota_cores, 0.0)
    load = MachineLoad(ProcFiles(proc.root), proc.root, frozenset(range(4)))
    load.others_cores(0.0, [Stat(1, "python", False, 0.0, 0.0)])
    assert load.idle_cores is None
    cores(proc, *[busy_s] * 4)
    if quota_cores is not None:
        quota(proc, quota_cores, in_group_s)
    load.others_cores(1.0, [Stat(1, "python", False, ours_s, 0.0)])
    assert load.idle_cores == pytest.approx(idle)
