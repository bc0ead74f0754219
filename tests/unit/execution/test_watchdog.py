from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from vtune.execution.watchdog import RAREST_S, SHM_FULL_S, Watchdog

MIB = 2**20
LIMIT = 1024 * MIB
FLOOR = 256 * MIB
# What an exact reading of a tree takes of a core: it decides how often there is one.
READING_S = 0.01


class Machine:
    """The readings of a machine with 16 GiB, all of which a test can set."""

    def __init__(self) -> None:
        self.left = 16384 * MIB
        self.shared = 0
        self.by_pid: dict[int, int] = {10: 100 * MIB}
        self.exact: int | None = None
        # Of a machine with many cores.
        self.lag = LIMIT
        self.readings = 0
        self.listings = 0
        self.shm_left = 8192 * MIB
        self.held_in_shm = 0
        # What happens while an exact reading is taken.
        self.meanwhile: Callable[[], object] = lambda: None

    def anonymous_bytes(self, pids: Sequence[int]) -> list[int]:
        return [self.by_pid[pid] for pid in pids if pid in self.by_pid]

    def machine(self) -> tuple[int | None, int | None]:
        return self.left, self.shared

    def lag_bytes(self, processes: int) -> int:
        return self.lag * processes

    def exact_bytes(self, pids: Sequence[int]) -> tuple[int, int] | None:
        self.readings += 1
        until_s = time.thread_time() + READING_S
        while time.thread_time() < until_s:
            pass
        self.meanwhile()
        return None if self.exact is None else (self.exact, sum(self.anonymous_bytes(pids)))

    def held_in_shm_bytes(self, pids: Sequence[int]) -> int:
        return self.held_in_shm

    def shm_left_bytes(self) -> int | None:
        return self.shm_left

    def shm_bytes(self) -> int | None:
        return 8192 * MIB

    def pids(self) -> list[int]:
        self.listings += 1
        return [*self.by_pid]


class Group:
    kind = "cgroup v1"

    def __init__(self, used: int = 0) -> None:
        self.used, self.kills = used, 0
        self.at_wall: bool | None = True

    def used_bytes(self) -> int | None:
        return self.used

    def oom_kills(self) -> int | None:
        return self.kills

    def was_at_wall(self) -> bool | None:
        return self.at_wall


@pytest.fixture
def machine() -> Machine:
    return Machine()


def watchdog(machine: Machine, group: Any = None, limit: int | None = LIMIT) -> Watchdog:
    limits = {"ram_bytes": limit, "floor_bytes": FLOOR}
    reading: Any = machine
    return Watchdog(limits, group, machine.pids, reading=reading, now_s=0.0)


def what(over: dict[str, Any] | None) -> tuple[str, int] | None:
    return None if over is None else (over["what"], over["used_bytes"])


def test_far_from_the_limit_it_looks_seldom_and_reads_nothing_dear(machine: Machine) -> None:
    dog = watchdog(machine)
    assert dog.look(0.0) is None
    assert dog.due_s >= RAREST_S and machine.readings == 0


def test_near_the_limit_it_looks_sooner_than_the_rest_could_be_filled(machine: Machine) -> None:
    dog = watchdog(machine)
    dog.look(0.0)
    machine.by_pid[10] = machine.exact = LIMIT - 64 * MIB
    assert dog.look(1.0) is None
    # At one GiB a second, the rest would last for 62 ms.
    assert dog.due_s - 1.0 < 0.05


def test_pages_that_workers_share_are_no_reason_to_end_anybody(machine: Machine) -> None:
    dog = watchdog(machine)
    machine.by_pid = dict.fromkeys(range(10, 15), 400 * MIB)
    machine.exact = 450 * MIB
    looks = [dog.look(0.1 * n) for n in range(100)]
    assert not any(looks)
    assert machine.readings < 10, "an innocent is not read again and again"


def test_what_grows_after_an_exact_reading_is_known_without_another(machine: Machine) -> None:
    dog = watchdog(machine)
    machine.by_pid = dict.fromkeys(range(10, 15), 400 * MIB)
    machine.exact = 1000 * MIB
    dog.look(0.0)
    assert machine.readings == 1
    machine.by_pid[12] += 60 * MIB
    assert what(dog.look(0.01)) == ("ram", 1060 * MIB)
    assert machine.readings == 1


def test_a_little_over_is_read_exactly_before_anybody_is_ended_for_it(machine: Machine) -> None:
    # Cheap numbers are counted by each core for itself, and lag behind.
    dog = watchdog(machine)
    machine.by_pid = dict.fromkeys(range(10, 15), 400 * MIB)
    machine.exact = 1000 * MIB
    dog.look(0.0)
    machine.by_pid[12] += 30 * MIB
    assert dog.look(0.1) is None
    assert machine.readings == 2
    machine.by_pid[12] += 30 * MIB
    machine.exact = 1040 * MIB
    assert what(dog.look(0.2)) == ("ram", 1040 * MIB)


def test_a_queue_drained_from_dev_shm_into_a_process_is_no_growth(machine: Machine) -> None:
    dog = watchdog(machine)
    machine.by_pid, machine.shared, machine.exact = {10: 760 * MIB}, 200 * MIB, 960 * MIB
    machine.left -= 860 * MIB
    assert dog.look(0.0) is None
    machine.by_pid, machine.shared, machine.exact = {10: 860 * MIB}, 0, 860 * MIB
    machine.left += 100 * MIB
    assert dog.look(0.1) is None


def test_shared_memory_that_others_give_back_does_not_hide_growth(machine: Machine) -> None:
    dog = watchdog(machine)
    machine.by_pid, machine.shared, machine.exact = {10: 960 * MIB}, 500 * MIB, 960 * MIB
    assert dog.look(0.0) is None
    machine.by_pid, machine.shared, machine.exact = {10: 1100 * MIB}, 0, 1100 * MIB
    assert what(dog.look(0.1)) == ("ram", 1100 * MIB)


def test_what_came_while_it_was_read_is_not_counted_twice(machine: Machine) -> None:
    dog = watchdog(machine)
    machine.by_pid, machine.exact = dict.fromkeys(range(10, 15), 400 * MIB), 1020 * MIB

    def grow() -> None:
        machine.by_pid[12] += 50 * MIB

    machine.meanwhile = grow
    assert dog.look(0.0) is None
    machine.meanwhile = lambda: None
    assert dog.look(0.1) is None


def test_copies_on_write_are_noticed_by_the_memory_that_the_machine_loses(machine: Machine) -> None:
    dog = watchdog(machine)
    machine.by_pid = dict.fromkeys(range(10, 15), 400 * MIB)
    machine.exact = 500 * MIB
    dog.look(0.0)
    machine.left -= 700 * MIB
    machine.exact = 1200 * MIB
    assert what(dog.look(1.0)) == ("ram", 1200 * MIB)


def test_a_process_that_nobody_knew_is_found_by_the_memory_that_the_machine_loses(machine: Machine) -> None:
    dog = watchdog(machine)
    dog.look(0.0)
    listings = machine.listings
    machine.by_pid[11] = 1000 * MIB
    machine.exact = 1100 * MIB
    machine.left -= 1000 * MIB
    assert what(dog.look(0.2)) == ("ram", 1100 * MIB)
    assert machine.listings == listings + 1


def test_shared_memory_of_others_is_asked_about_and_not_blamed_on_the_trial(machine: Machine) -> None:
    dog = watchdog(machine)
    dog.look(0.0)
    machine.shared, machine.exact = 3000 * MIB, 100 * MIB
    machine.left -= 3000 * MIB
    assert dog.look(1.0) is None
    assert machine.readings == 1


def test_where_pages_cannot_be_told_apart_only_a_single_process_passes_the_limit(machine: Machine) -> None:
    dog = watchdog(machine)
    machine.by_pid = dict.fromkeys(range(10, 15), 400 * MIB)
    assert not dog.look(0.0) and not dog.look(1.0)
    machine.by_pid[10] = 1100 * MIB
    assert what(dog.look(2.0)) == ("ram", 1100 * MIB)


def test_one_reading_that_failed_does_not_make_it_blind(machine: Machine) -> None:
    dog = watchdog(machine)
    machine.by_pid = dict.fromkeys(range(10, 15), 400 * MIB)
    assert not dog.look(0.0)
    machine.exact = 1300 * MIB
    assert what(dog.look(1.0)) == ("ram", 1300 * MIB)


def test_readings_that_fail_again_and_again_cost_little(machine: Machine) -> None:
    dog = watchdog(machine)
    machine.by_pid = dict.fromkeys(range(10, 15), 400 * MIB)
    assert not any(dog.look(0.01 * n) for n in range(200))
    assert machine.readings <= 2.0 * 0.05 / READING_S + 1


def test_in_a_group_the_kernels_own_count_decides(machine: Machine) -> None:
    group = Group(used=LIMIT)
    dog = watchdog(machine, group)
    machine.by_pid = dict.fromkeys(range(10, 15), 400 * MIB)
    assert dog.look(0.0) is None
    group.used += 1
    assert what(dog.look(0.1)) == ("ram", LIMIT + 1)
    assert machine.readings == machine.listings == 0


def test_one_worker_killed_by_the_kernel_ends_the_trial(machine: Machine) -> None:
    group = Group(used=900 * MIB)
    dog = watchdog(machine, group)
    dog.look(0.0)
    group.used, group.kills = 50 * MIB, 1
    assert what(dog.look(0.1)) == ("kernel", 900 * MIB)


def test_a_kill_for_a_limit_further_out_is_not_put_down_to_the_trials_own(machine: Machine) -> None:
    group = Group(used=400 * MIB)
    dog = watchdog(machine, group)
    group.kills, group.at_wall = 1, False
    assert dog.look(0.1) is None


@pytest.mark.parametrize("used", [1000, 12000])
def test_a_machine_short_of_memory_ends_the_trial_that_took_it_and_no_other(machine: Machine, used: int) -> None:
    group = Group()
    dog = watchdog(machine, group, limit=None)
    assert dog.look(0.0) is None
    machine.left, group.used = FLOOR - 1, used * MIB
    over = dog.look(1.0)
    if used == 1000:
        assert over is None, "others took nearly all of it"
    else:
        assert over == {"what": "machine", "used_bytes": used * MIB, "limit_bytes": FLOOR, "left_bytes": FLOOR - 1}


def test_a_full_dev_shm_ends_the_trial_when_it_stays_full(machine: Machine) -> None:
    dog = watchdog(machine)
    dog.look(0.0)
    machine.shm_left, machine.held_in_shm = 0, 8000 * MIB
    assert dog.look(0.5) is None
    over = dog.look(0.6 + SHM_FULL_S)
    assert over is not None and (over["what"], over["left_bytes"], over["limit_bytes"]) == ("shm", 0, 8192 * MIB)


def test_a_dev_shm_that_was_full_before_the_trial_is_not_its_fault(machine: Machine) -> None:
    machine.shm_left = 0
    dog = watchdog(machine)
    assert not any(dog.look(float(n)) for n in range(5))


@pytest.mark.parametrize("group", [None, Group(used=100 * MIB)])
def test_a_dev_shm_that_a_neighbour_fills_is_not_the_trials_fault(machine: Machine, group: Group | None) -> None:
    dog = watchdog(machine, group)
    dog.look(0.0)
    machine.shm_left, machine.held_in_shm = 0, 1000 * MIB
    listings = machine.listings
    assert not any(dog.look(0.1 * n) for n in range(1, 100))
    assert machine.listings - listings < 20, "an innocent is not looked at again and again"
    machine.held_in_shm = 6000 * MIB
    over = [dog.look(0.1 * n) for n in range(100, 200)]
    assert any(one is not None and one["what"] == "shm" for one in over)
