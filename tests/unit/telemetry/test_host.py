from __future__ import annotations

import os

import pytest

from vtune.telemetry.host import HostSampler

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def sampler(proc, pids=(10,), own_pids=()):
    return HostSampler(lambda: pids, own_pids, proc=proc.root)


def test_a_process_is_described_by_its_parent_name_memory_and_processor_time(proc):
    proc.process(10, ppid=4, name="a) S (b", ticks=3 * TICKS, children=5 * TICKS)
    (process,) = sampler(proc).sample(1.0, False).processes
    assert (process.pid, process.ppid, process.name, process.rss_bytes) == (10, 4, "a) S (b", 256 * PAGE)
    assert process.cpu_s == pytest.approx(3.0)


def test_processes_that_vanished_and_zombies_are_left_out(proc):
    proc.process(10)
    proc.process(11, state="Z")
    assert [p.pid for p in sampler(proc, (10, 11, 12)).sample(1.0, True).processes] == [10]


def test_memory_is_the_trees_anonymous_and_shared_pages_each_once(proc):
    for pid in (10, 11):
        proc.process(pid)
        proc.shares(pid, anonymous_kib=1000, shared_kib=24)
    assert sampler(proc, (10, 11)).sample(1.0, True).ram_bytes == 2 * 1024 * 1024
    assert sampler(proc, (10, 11)).sample(1.0, False).ram_bytes is None


def test_what_a_process_holds_of_no_file_is_told_at_each_look_and_its_own_part_at_the_dear_ones(proc):
    proc.process(10)
    proc.shares(10, anonymous_kib=300, shared_kib=24)
    watch = sampler(proc)
    (cheap,) = watch.sample(1.0, False).processes
    assert (cheap.anon_bytes, cheap.own_bytes) == (246 * PAGE, None)
    with open(proc.root / "10/smaps_rollup", "a") as file:
        file.write("Anonymous:      900 kB\n")
    (dear,) = watch.sample(2.0, True).processes
    assert (dear.anon_bytes, dear.own_bytes) == (900 * 1024, 300 * 1024)


def test_memory_is_unknown_and_not_less_when_the_kernel_does_not_tell_it(proc):
    proc.process(10)
    proc.process(11)
    proc.shares(10, anonymous_kib=1000, shared_kib=24)
    assert sampler(proc, (10, 11)).sample(1.0, True).ram_bytes is None
    proc.write("11/smaps_rollup", "55e0-7ffd ---p 00000000 00:00 0 [rollup]\nRss: 10 kB\nPss: 9 kB\n")
    assert sampler(proc, (10, 11)).sample(1.0, True).ram_bytes is None


def test_memory_of_no_process_is_unknown(proc):
    assert sampler(proc, ()).sample(1.0, True).ram_bytes is None


def test_the_neighbours_are_what_the_machine_did_beyond_the_trial_and_vtune(proc):
    proc.process(10, ticks=0)
    proc.process(os.getpid(), ticks=0)
    proc.process(77, ticks=0)
    proc.machine(0)
    watch = sampler(proc, (10,), (77,))
    assert watch.sample(0.0, False).others_cores is None
    proc.process(10, ticks=100)
    proc.process(os.getpid(), ticks=20)
    proc.process(77, ticks=10)
    proc.machine(280, idle_ticks=1000)
    assert watch.sample(1.0, False).others_cores == pytest.approx(150 / TICKS)


def test_a_worker_that_ended_does_not_make_its_seconds_a_neighbours(proc):
    proc.process(10, ticks=0)
    proc.process(11, ppid=10, ticks=0)
    pids = [10, 11]
    watch = sampler(proc, pids)
    watch.sample(0.0, False)
    pids.remove(11)
    proc.process(10, ticks=50, children=50)  # it has waited for 11
    proc.machine(100)
    assert watch.sample(1.0, False).others_cores == pytest.approx(0.0)


def test_neighbours_are_never_less_than_none(proc):
    proc.process(10, ticks=0)
    watch = sampler(proc)
    watch.sample(0.0, False)
    proc.process(10, ticks=500)
    assert watch.sample(1.0, False).others_cores == 0.0
    assert watch.sample(1.0, False).others_cores is not None


def test_neighbours_are_judged_over_the_last_two_seconds(proc):
    proc.process(10)
    watch = sampler(proc)
    for tenth in range(35):
        proc.machine(min(tenth, 10) * TICKS // 10)  # one busy core in the first second only
        last = watch.sample(tenth / 10, False).others_cores
    assert last == pytest.approx(0.0)


def test_the_available_memory_is_the_machines_or_what_the_tightest_group_leaves(proc):
    assert sampler(proc).sample(0.0, False).ram_available_bytes == 8 * 1024**3
    files = {
        "memory.max": 4 * 1024**3,
        "memory.current": 3 * 1024**3,
        "memory.stat": f"file 9\ninactive_file {1024**3}",
    }
    group = {f"../groups/job/{name}": value for name, value in files.items()}
    proc.group("0::/job", f"30 20 0:26 / {proc.root.parent}/groups rw - cgroup2 cgroup2 rw", group)
    assert sampler(proc).sample(0.0, False).ram_available_bytes == 2 * 1024**3


def test_the_machine_of_this_test_is_read_without_a_gap():
    sample = HostSampler(lambda: [os.getpid()]).sample(0.0, True)
    assert sample.processes[0].rss_bytes > 1024**2
    assert sample.ram_available_bytes is not None and sample.ram_available_bytes > 1024**2
