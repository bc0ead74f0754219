"""Processes in virtual time, against arithmetic by hand."""

import math

import pytest

from vtune.execution.engines.simulated.events import Queue, Server, World, cores, mount


def ends_of(server: Server, jobs: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """Each job comes at its time with its work → when it ended, and how long it was served."""
    world = World(0.0, (server,))
    ended: dict[str, tuple[float, float]] = {}

    def job(name: str, comes_s: float, work_s: float):
        yield comes_s
        served_s = yield (server, work_s, 1.0)
        ended[name] = (world.now_s, served_s)

    for name, (comes_s, work_s) in jobs.items():
        world.start(job(name, comes_s, work_s))
    world.run(lambda: len(ended) == len(jobs))
    return ended


def test_as_many_jobs_as_cores_do_not_hinder_each_other() -> None:
    ended = ends_of(Server(cores(2), 0.0), {"a": (0.0, 1.0), "b": (0.0, 3.0)})
    assert ended == {"a": (pytest.approx(1.0), pytest.approx(1.0)), "b": (pytest.approx(3.0), pytest.approx(3.0))}


def test_two_jobs_share_one_core_and_a_third_comes_later() -> None:
    # a and b run at half speed; at 1 c comes and all three run at a third; a has 1 s left then and needs 3 s for it.
    ended = ends_of(Server(cores(1), 0.0), {"a": (0.0, 1.5), "b": (0.0, 10.0), "c": (1.0, 0.5)})
    assert ended["c"][0] == pytest.approx(2.5)
    assert ended["a"][0] == pytest.approx(2.5 + 2 * 0.5)
    assert ended["b"][0] == pytest.approx(12.0)
    # A thread's own clock counts what it did, not what it waited.
    assert {name: served_s for name, (_, served_s) in ended.items()} == {
        "a": pytest.approx(1.5), "b": pytest.approx(10.0), "c": pytest.approx(0.5)
    }  # fmt: skip


def test_hardware_threads_are_less_than_a_core_each_and_count_as_time_on_one() -> None:
    # One core, two threads that do 1.25 together: each job runs at 0.625, and is on a core all the while.
    ended = ends_of(Server(cores(1, 2, 1.25), 0.0), {"a": (0.0, 1.0), "b": (0.0, 1.0)})
    assert ended["a"] == (pytest.approx(1.6), pytest.approx(1.6))


def test_a_line_is_shared_only_once_it_is_full() -> None:
    alone = ends_of(Server(mount(100.0, 40.0), 0.0), {"a": (0.0, 80.0)})
    assert alone["a"][0] == pytest.approx(2.0)
    four = ends_of(Server(mount(100.0, 40.0), 0.0), dict.fromkeys("abcd", (0.0, 50.0)))
    assert {round(end_s, 9) for end_s, _ in four.values()} == {2.0}


def test_a_slower_machine_finishes_its_work_later() -> None:
    server = Server(cores(1), 0.0)
    world = World(0.0, (server,))
    ended = []

    def work():
        yield (server, 2.0, 1.0)
        ended.append(world.now_s)

    def slow_down():
        yield 1.0
        server.set_pace(world.now_s, 0.5)

    world.start(work())
    world.start(slow_down())
    world.run(lambda: bool(ended))
    assert ended == [pytest.approx(3.0)]


def test_what_is_put_into_a_queue_is_taken_in_order_and_wakes_who_waits() -> None:
    world, queue = World(0.0, (Server(cores(1), 0.0),)), Queue()
    got: list[tuple[str, float]] = []

    def taker():
        while True:
            item = yield queue
            got.append((item, world.now_s))

    def giver():
        world.put(queue, "a")
        world.put(queue, "b")
        yield 2.0
        world.put(queue, "c")

    world.start(taker())
    world.start(giver())
    world.run(lambda: False)
    assert got == [("a", 0.0), ("b", 0.0), ("c", 2.0)]


def test_time_stops_where_it_is_told_to_and_goes_on_from_there() -> None:
    server = Server(cores(1), 0.0)
    world = World(0.0, (server,))
    ticks: list[float] = []

    def clock():
        while True:
            yield 1.0
            ticks.append(world.now_s)

    world.start(clock())
    world.run(lambda: False, until_s=2.5)
    assert ticks == [1.0, 2.0]
    world.run(lambda: len(ticks) == 4, until_s=math.inf)
    assert ticks == [1.0, 2.0, 3.0, 4.0]
