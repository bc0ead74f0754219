"""How a loader worker counts the files that one batch opens; each in a child of its own, which becomes a worker."""

from __future__ import annotations

import builtins
import concurrent.futures
import cProfile
import gzip
import inspect
import io
import multiprocessing
import os
import pathlib
import pickle
import struct
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SIZE = 48


def in_a_child(work: Callable[[], Any]) -> Any:
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writes, pickle.dumps(work()))
        finally:
            os._exit(0)
    os.close(writes)
    with open(reads, "rb") as file:
        told = file.read()
    os.waitpid(child, 0)
    return pickle.loads(told)


class Queue:
    def __init__(self, *items: Any) -> None:
        self.items = list(items)

    def get(self, timeout: float | None = None) -> Any:
        return self.items.pop(0)

    def put(self, item: Any) -> None:
        self.items.append(item)

    def empty(self) -> bool:
        return not self.items


def told_by_batch(folder: Path, *loads: Callable[[], Any]) -> list[int]:
    """A worker loop as torch's, which makes one batch with each of `loads`; what was recorded of it."""
    from _vtune_hooks import loader_worker, recorder

    def _worker_loop(dataset_kind: Any, index_queue: Any, data_queue: Any, worker_id: int) -> None:
        for load in loads:
            index, _ = index_queue.get()
            data_queue.put((index, load()))

    recorder.here = recorder.Process(str(folder), silent=False)
    module = types.ModuleType("worker")
    module._worker_loop = _worker_loop  # type: ignore[attr-defined]
    loader_worker.placed(module)
    module._worker_loop(0, Queue(*((n, [n]) for n in range(len(loads)))), Queue(), 3)
    text = (folder / f"steps-{os.getpid()}.bin").read_bytes()
    return [struct.unpack_from("<I", text, at + 44)[0] for at in range(16, len(text), SIZE)]


def files_of(folder: Path, load: Callable[[], Any]) -> int | None:
    """Made as a worker's second batch, after one that is not looked at."""

    def work() -> int | None:
        told = told_by_batch(folder, lambda: None, load)
        return told[1] - 1 if told[1] else None

    found: int | None = in_a_child(work)
    return found


def nothing() -> None:
    pass


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for n in range(5):
        (tmp_path / f"{n}.raw").write_bytes(gzip.compress(b"data"))
    return tmp_path


def test_a_workers_second_batch_tells_its_files_and_no_other_does(data: Path) -> None:
    def three() -> None:
        open(data / "0.raw").close()
        pathlib.Path(data / "1.raw").read_bytes()
        with gzip.open(data / "2.raw"):
            pass

    assert in_a_child(lambda: told_by_batch(data, three, three, three, three)) == [0, 4, 0, 0]
    assert files_of(data, nothing) == 0


def test_every_way_of_opening_counts_once(data: Path) -> None:
    def missing() -> None:
        with pytest.raises(FileNotFoundError):
            (data / "nothing.raw").read_bytes()

    def of_descriptor() -> None:
        os.fdopen(os.open(data / "0.raw", os.O_RDONLY)).close()

    def with_opener() -> None:
        open(data / "0.raw", opener=os.open).close()
        open(data / "1.raw", opener=lambda path, flags: os.open(path, flags)).close()
        os.close(os.open(data / "2.raw", os.O_RDONLY))

    def of_a_directory() -> None:
        os.close(os.open(data / "2.raw", os.O_RDONLY))

    counted = [files_of(data, load) for load in (missing, of_descriptor, with_opener, of_a_directory)]
    assert counted == [1, 1, 3, 1]


def test_an_open_of_the_trainings_own_is_looked_through(data: Path) -> None:
    def with_its_own() -> None:
        real = io.open
        builtins.open = lambda path: real(path)  # type: ignore[assignment]
        open(data / "0.raw").close()

    assert files_of(data, with_its_own) == 1


def test_a_batch_of_more_calls_than_a_look_may_cost_is_not_counted(data: Path) -> None:
    def many() -> None:
        open(data / "0.raw").close()
        for _ in range(40_000):
            len("a")
        assert sys.getprofile() is None

    assert files_of(data, many) is None


def test_a_slow_batch_that_hardly_calls_is_left_where_a_look_slows_it(data: Path) -> None:
    from _vtune_hooks.opened_files import Look

    def slow() -> tuple[Any, Any]:
        found = []
        for most in (0.001, None):
            look = Look(most_slowed_s=most)
            open(data / "0.raw").close()
            for _ in range(200):
                total = 0
                for n in range(1000):
                    total += n
                len("a")
            found.append(look.files())
        return found[0], found[1]

    assert in_a_child(slow) == (None, 1)


@pytest.mark.parametrize("how", ["started", "before", "forked"])
def test_files_that_others_open_for_the_batch_leave_it_uncounted(data: Path, how: str) -> None:
    def opens() -> None:
        open(data / "0.raw").close()

    def with_a_thread() -> None:
        thread = threading.Thread(target=opens)
        thread.start()
        thread.join()

    def with_a_process() -> None:
        child = os.fork()
        if child == 0:
            os._exit(sys.getprofile() is not None)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    def work() -> int:
        if how == "before":
            pool = concurrent.futures.ThreadPoolExecutor(1)
            return told_by_batch(data, lambda: pool.submit(opens).result(), lambda: pool.submit(opens).result())[1]
        return told_by_batch(data, nothing, with_a_thread if how == "started" else with_a_process)[1]

    assert in_a_child(work) == 0


def test_the_queues_own_thread_is_none_of_the_data_sets(data: Path) -> None:
    def with_a_queue() -> int:
        queue: Any = multiprocessing.get_context("fork").Queue()
        told = told_by_batch(data, lambda: queue.put(1), nothing)
        queue.get()
        return told[1]

    assert in_a_child(with_a_queue) == 1


def test_a_training_that_profiles_finds_what_it_would_without_us(data: Path) -> None:
    def its_own() -> None:
        open(data / "0.raw").close()
        before = sys.getprofile()
        assert before is None
        seen: list[str] = []
        sys.setprofile(lambda frame, event, arg: seen.append(event))
        nothing()
        sys.setprofile(before)
        assert "call" in seen and "return" in seen

    def with_cprofile() -> None:
        profile = cProfile.Profile()
        profile.enable()
        open(data / "0.raw").close()
        profile.disable()
        assert sys.getprofile() is None or sys.version_info >= (3, 12)

    def it_stays() -> None:
        sys.setprofile(watching)

    def watching(frame: Any, event: str, arg: Any) -> None:
        pass

    def work() -> object:
        told = told_by_batch(data / "own", nothing, it_stays, nothing)
        return told, sys.getprofile() is watching

    assert files_of(data, its_own) is None
    assert sys.version_info >= (3, 12) or files_of(data, with_cprofile) is None
    (data / "own").mkdir()
    assert in_a_child(work) == ([0, 0, 0], True)


def test_a_look_ends_with_its_batch_however_that_ends(data: Path) -> None:
    def leaves() -> None:
        raise SystemExit(3)

    def work() -> object:
        with pytest.raises(SystemExit):
            told_by_batch(data, nothing, leaves)
        return sys.getprofile()

    assert in_a_child(work) is None


def test_where_nobody_may_profile_nothing_is_counted(data: Path) -> None:
    def forbidding(event: str, arguments: Any) -> None:
        if event == "sys.setprofile":
            raise RuntimeError("not here")

    def work() -> list[int]:
        sys.addaudithook(forbidding)
        return told_by_batch(data, nothing, lambda: open(data / "0.raw").close())

    assert in_a_child(work) == [0, 0]


def test_workers_of_a_later_pass_are_not_looked_at(data: Path) -> None:
    from _vtune_hooks import passes

    class Loader:
        num_workers = 1

    class Iterator:
        pass

    def work() -> list[list[int]]:
        loader = Loader()
        passes.remember(loader, passes.LoaderSeen("key", None, None))
        found = []
        for number in range(2):
            passes.begin(Iterator(), loader)
            (data / str(number)).mkdir()
            found.append(told_by_batch(data / str(number), nothing, nothing))
        return found

    assert in_a_child(work) == [[0, 1], [0, 0]]


def test_outside_loader_workers_nobody_profiles_and_open_is_itself() -> None:
    from _vtune_hooks import opened_files

    assert opened_files.Look and sys.getprofile() is None
    assert open is io.open and inspect.isbuiltin(open)
