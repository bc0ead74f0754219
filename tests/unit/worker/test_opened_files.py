"""How a loader worker counts the files that it opens; each in a child of its own, where `open` may stay replaced."""

from __future__ import annotations

import gzip
import inspect
import io
import os
import pathlib
import pickle
import struct
import threading
import types
from collections.abc import Callable
from pathlib import Path
from traceback import format_exc
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


def files_by_batch(folder: Path, *loads: Callable[[], Any]) -> list[int]:
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


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for n in range(5):
        (tmp_path / f"{n}.raw").write_bytes(gzip.compress(b"data"))
    return tmp_path


def test_each_batch_tells_the_files_that_were_opened_for_it(data: Path) -> None:
    def three() -> None:
        open(data / "0.raw").close()
        pathlib.Path(data / "1.raw").read_bytes()
        with gzip.open(data / "2.raw"):
            pass

    def missing() -> None:
        with pytest.raises(FileNotFoundError):
            (data / "nothing.raw").read_bytes()

    assert in_a_child(lambda: files_by_batch(data, three, lambda: None, missing, three)) == [3, 0, 1, 3]


def test_threads_of_the_worker_count_too(data: Path) -> None:
    def in_threads() -> None:
        threads = [
            threading.Thread(target=lambda: [open(data / "0.raw").close() for _ in range(200)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert in_a_child(lambda: files_by_batch(data, in_threads)) == [800]


def test_files_opened_between_two_batches_belong_to_none(data: Path) -> None:
    from _vtune_hooks import loader_worker, opened_files

    class Late(Queue):
        def get(self, timeout: float | None = None) -> Any:
            open(data / "0.raw").close()
            return super().get()

    def work() -> list[int]:
        loading = loader_worker.Loading(0, Late((0, [0]), (1, [1])), Queue())
        opened_files.listen()
        counted = []
        for _ in range(2):
            loader_worker.IndexQueue(loading).get()
            open(data / "1.raw").close()
            counted.append(opened_files.opened_since(loading.opened))
        return counted

    assert in_a_child(work) == [1, 1]


def test_a_descriptor_that_is_open_already_is_not_opened_again(data: Path) -> None:
    def wrapped() -> None:
        os.fdopen(os.open(data / "0.raw", os.O_RDONLY)).close()

    assert in_a_child(lambda: files_by_batch(data, wrapped)) == [0]


def test_what_stands_for_open_is_taken_for_it(data: Path) -> None:
    def seen() -> tuple[object, ...]:
        class Store:
            opener = open

        traceback = ""
        try:
            open(data / "missing.raw")  # noqa: SIM115
        except FileNotFoundError:
            traceback = format_exc()
        Store().opener(data / "0.raw").close()
        by_name = pickle.loads(pickle.dumps(open)) is open
        said = repr(open), open.__name__, open.__doc__, open.__module__, str(inspect.signature(open)), callable(open)
        return open is io.open, by_name, traceback, *said

    def both() -> tuple[object, object]:
        from _vtune_hooks import opened_files

        before = seen()
        opened_files.listen()
        return before, seen()

    before, after = in_a_child(both)
    assert after == before


def test_an_open_of_the_trainings_own_is_counted_once_and_kept(data: Path) -> None:
    def work() -> list[int]:
        import builtins

        real = io.open

        def from_anywhere(path: Any) -> Any:
            return real(path)

        builtins.open = from_anywhere  # type: ignore[assignment]
        return files_by_batch(data, lambda: open(data / "0.raw").close())

    assert in_a_child(work) == [1]


def test_a_worker_forked_from_a_worker_counts_once(data: Path) -> None:
    def inner() -> list[int]:
        folder = data / "inner"
        folder.mkdir()
        return files_by_batch(folder, lambda: open(data / "0.raw").close())

    def outer() -> Any:
        found: list[Any] = []
        files_by_batch(data, lambda: found.append(in_a_child(inner)))
        return found

    assert in_a_child(outer) == [[1]]


def test_outside_loader_workers_open_stays_itself() -> None:
    from _vtune_hooks import opened_files

    assert not isinstance(open, opened_files.Open)
