from __future__ import annotations

from vtune.telemetry.cgroup import MemoryGroups
from vtune.telemetry.memory import MachineMemory, TreeMemory
from vtune.telemetry.proc_files import ProcFiles

MIB = 1024 * 1024
MEMINFO = "MemAvailable: 8388608 kB\nBuffers: 1024 kB\nCached: 5120 kB\nShmem: 2048 kB\n"


class Clock:
    """Processor time that each reading takes."""

    def __init__(self, reading_s: float) -> None:
        self.now, self.reading_s, self.calls = 0.0, reading_s, 0

    def __call__(self) -> float:
        self.calls += 1
        if self.calls % 2 == 0:
            self.now += self.reading_s
        return self.now


def a_tree(proc, reading_s):
    proc.process(10)
    proc.shares(10, anonymous_kib=1024, shared_kib=1024)
    return TreeMemory(ProcFiles(proc.root), Clock(reading_s))


def readings(memory, seconds, every=5, held=100 * MIB):
    return [
        t for t in range(0, seconds, every) if memory.used_bytes(float(t), [10], held_bytes=held, due=True) is not None
    ]


def test_cheap_readings_are_made_as_often_as_asked(proc):
    assert len(readings(a_tree(proc, 0.025), 300)) == 60


def test_dear_readings_are_made_less_often_and_stay_below_their_share(proc):
    made = readings(a_tree(proc, 0.1), 600)
    assert made[0] == 0
    assert 0.004 < 0.1 * len(made) / 600 < 0.007


def test_however_dear_they_are_a_limit_is_watched_over_twice_a_minute(proc):
    assert readings(a_tree(proc, 3.0), 120) == [0, 30, 60, 90]


def test_half_a_minutes_trial_stays_below_a_per_cent_however_dear_a_reading_is(proc):
    assert 0.055 * len(readings(a_tree(proc, 0.055), 30)) / 30 < 0.009


def test_a_reading_that_is_needed_is_made_whatever_it_costs(proc):
    memory = a_tree(proc, 2.0)
    assert memory.used_bytes(0.0, [10], held_bytes=0, due=True) == 2 * MIB
    assert memory.used_bytes(1.0, [10], held_bytes=0, due=True) is None
    assert memory.used_bytes(1.0, [10], held_bytes=0, due=True, needed=True) == 2 * MIB


def test_a_jump_is_looked_at_whatever_it_costs(proc):
    memory = a_tree(proc, 2.0)
    assert memory.used_bytes(0.0, [10], held_bytes=100 * MIB, due=True) == 2 * MIB
    assert memory.used_bytes(5.0, [10], held_bytes=110 * MIB, due=True) is None
    assert memory.used_bytes(5.0, [10], held_bytes=300 * MIB, due=True) == 2 * MIB
    assert memory.used_bytes(10.0, [10], held_bytes=300 * MIB, due=True) is None


def test_a_jump_is_looked_at_between_two_readings_and_nothing_else_is(proc):
    memory = a_tree(proc, 0.025)
    assert memory.used_bytes(0.0, [10], held_bytes=1000 * MIB, due=False) is None
    assert memory.used_bytes(0.0, [10], held_bytes=1000 * MIB, due=True) == 2 * MIB
    assert memory.used_bytes(0.2, [10], held_bytes=1110 * MIB, due=False) is None
    assert memory.used_bytes(0.4, [10], held_bytes=1115 * MIB, due=False) == 2 * MIB
    assert memory.used_bytes(0.6, [10], held_bytes=1115 * MIB, due=False) is None


def test_the_page_cache_is_what_the_kernel_would_give_back(proc):
    proc.write("meminfo", MEMINFO)
    files, groups = ProcFiles(proc.root), MemoryGroups(proc.root)
    assert MachineMemory(files, groups).look(0.0) == (8 * 1024 * MIB, (5 + 1 - 2) * MIB)


def test_where_a_group_limits_us_it_is_the_groups_page_cache(proc):
    proc.write("meminfo", MEMINFO)
    stat = f"anon 5\nfile {900 * MIB}\nshmem {100 * MIB}\ninactive_file {300 * MIB}"
    group = {"job/memory.max": 1024 * MIB, "job/memory.current": 1000 * MIB, "job/memory.stat": stat}
    group |= {"memory.max": 4096 * MIB, "memory.current": 1000 * MIB, "memory.stat": "file 7\nshmem 0\n"}
    mount = f"30 20 0:26 / {proc.root.parent}/groups rw - cgroup2 cgroup2 rw"
    proc.group("0::/job", mount, {f"../groups/{name}": value for name, value in group.items()})
    memory = MachineMemory(ProcFiles(proc.root), MemoryGroups(proc.root))
    assert memory.look(0.0) == (324 * MIB, 800 * MIB)


def test_a_page_cache_that_nobody_tells_is_unknown(proc):
    proc.write("meminfo", "MemAvailable: 8 kB\n")
    assert MachineMemory(ProcFiles(proc.root), MemoryGroups(proc.root)).look(0.0) == (8192, None)
