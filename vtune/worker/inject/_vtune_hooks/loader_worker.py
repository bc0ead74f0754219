"""Inside a loader's worker: when each batch was begun and finished, and what one of them opened."""

from __future__ import annotations

import functools
import inspect
import threading
import time
from types import ModuleType
from typing import Any

from _vtune_hooks import opened_files, passes, reads, recorder
from _vtune_hooks.frames import leave_out_of_traceback, unseen
from _vtune_hooks.kept_samples import KeptSamples

# As torch calls it in the arguments of its worker loop.
ITERABLE = 1
OF_ITS_DATA = ("dataset", "dataset_kind", "collate_fn", "init_fn")
NOT_A_BATCH = ("_IterableDatasetStopIteration", "ExceptionWrapper")

_now = time.monotonic
_cpu = time.thread_time


def placed(module: ModuleType) -> None:
    """After torch's (or torchdata's) worker module has run."""
    original = vars(module).get("_worker_loop")
    parameters = list(inspect.signature(original).parameters) if inspect.isfunction(original) else []
    if not {"index_queue", "data_queue", "worker_id"} <= set(parameters):
        recorder.problem(f"{module.__name__}._worker_loop has another form here: its workers are not watched")
        return
    # Pickle finds the loop by its name in this module, so a spawned worker starts with the wrapper, too.
    setattr(module, "_worker_loop", _looping(original, parameters))  # noqa: B010


def _looping(original: Any, parameters: list[str]) -> Any:
    index_at, data_at, id_at = (parameters.index(name) for name in ("index_queue", "data_queue", "worker_id"))
    own = {name: parameters.index(name) for name in OF_ITS_DATA if name in parameters}
    set_at = parameters.index("dataset") if "dataset" in parameters else None

    @unseen
    @functools.wraps(original)
    def _worker_loop(*args: Any, **kwargs: Any) -> Any:
        loading = None
        # In a thread, or called in some other way, it is left as it is.
        if threading.current_thread() is threading.main_thread() and len(args) > max(index_at, data_at, id_at):
            recorder.become_loader_worker()
            # In a full run that is all: what a loader of its own does in a worker is no batch of the training's.
            if not recorder.here.light:
                watched = list(args)
                loading = Loading(args[id_at], args[index_at], args[data_at])
                if set_at is not None and len(args) > set_at:
                    loading.kept = KeptSamples(args[set_at])
                watched[index_at], watched[data_at] = IndexQueue(loading), DataQueue(loading)
                if len(own) == len(OF_ITS_DATA) and len(args) > max(own.values()) and passes.times_before() < 2:
                    dataset, kind, collates, prepared_by = (args[own[name]] for name in OF_ITS_DATA)
                    loading.reads = reads.of_worker(
                        loading.worker, dataset, iterable=kind == ITERABLE, prepared_by=prepared_by
                    )
                    watched[own["collate_fn"]] = loading.reads.collating(collates)
                args = tuple(watched)
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            leave_out_of_traceback(error)
            raise
        finally:
            if loading is not None:
                loading.end_look()
            recorder.flush(wait=True)

    return _worker_loop


class Loading:
    """The batch that this worker is at."""

    def __init__(self, worker: int, index_queue: Any, data_queue: Any) -> None:
        self.worker = worker
        self.index_queue = index_queue
        self.data_queue = data_queue
        self.resume = 0
        self.index: int | None = None
        self.samples = 0
        self.started = 0.0
        self.cpu = 0.0
        self._begun = 0
        self._look: opened_files.Look | None = None
        self.reads: reads.Reads | None = None
        self.kept: KeptSamples | None = None

    def look_at_kept(self) -> None:
        try:
            name = self.kept.begin(self.samples) if self.kept is not None and not self.kept.over else None
            if name is not None:
                recorder.fact_of_worker("data_set_grows", attribute=name)
        except Exception:
            self.kept = None

    def begin_reads(self) -> None:
        """Of the first pass; a worker that is resumed goes on from where it is."""
        if self.reads is not None and not self._begun:
            self.reads.begin()
        elif self.reads is not None and self.resume:
            self.reads.ends = True

    def end_reads(self, *, made: bool) -> tuple[float, float]:
        """The time that looking took within the batch, wall and processor: it is none of the batch's."""
        if self.reads is None:
            return 0.0, 0.0
        spent = self.reads.spent_s, self.reads.spent_cpu_s
        self.reads.spent_s = self.reads.spent_cpu_s = 0.0
        if made:
            self.reads.end_batch()
        if self.reads.ends:
            self.reads = None
        return spent

    def begin_look(self) -> None:
        """In the second batch, of the loader's first pass where the workers are forked anew for each."""
        self._begun += 1
        if self._begun == 2 and not passes.times_before():
            self._look = opened_files.look()

    def end_look(self) -> int | None:
        look, self._look = self._look, None
        try:
            return None if look is None else look.files()
        except Exception:
            return None


class IndexQueue:
    """Stands before the real queue, of which everything but `get` is passed on."""

    def __init__(self, loading: Loading) -> None:
        self._loading = loading

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loading.index_queue, name)

    @unseen
    def get(self, *args: Any, **kwargs: Any) -> Any:
        loading = self._loading
        loading.end_look()
        try:
            _flush_before_waiting(loading.index_queue)
            task = loading.index_queue.get(*args, **kwargs)
        except BaseException as error:
            leave_out_of_traceback(error)
            raise
        loading.index = None
        if type(task) is tuple and len(task) == 2:
            index, asked = task
            if isinstance(index, int):
                # torchdata sends a pair: the index, and whether a snapshot is wanted.
                if type(asked) is tuple and len(asked) == 2 and type(asked[1]) is bool:
                    asked = asked[0]
                loading.index = index
                loading.samples = len(asked) if type(asked) in (list, tuple) else 0
                loading.begin_reads()
                loading.look_at_kept()
                loading.cpu = _cpu()
                loading.started = _now()
                loading.begin_look()
        elif type(task).__name__ == "_ResumeIteration":
            loading.resume += 1
        return task


class DataQueue:
    def __init__(self, loading: Loading) -> None:
        self._loading = loading

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loading.data_queue, name)

    @unseen
    def put(self, result: Any, *args: Any, **kwargs: Any) -> Any:
        loading = self._loading
        files = loading.end_look()
        finished, cpu = _now(), _cpu()
        if loading.index is not None and result[0] == loading.index:
            made = not _is_no_batch(result[1])
            looked_s, looked_cpu_s = loading.end_reads(made=made)
            if made:
                recorder.record(
                    recorder.LOADED,
                    0,
                    loading.worker,
                    loading.resume,
                    loading.index,
                    loading.started + looked_s,
                    finished,
                    cpu - loading.cpu - looked_cpu_s,
                    loading.samples,
                    0 if files is None else files + 1,
                )
            loading.index = None
        try:
            return loading.data_queue.put(result, *args, **kwargs)
        except BaseException as error:
            leave_out_of_traceback(error)
            raise


def _is_no_batch(data: Any) -> bool:
    if type(data) is tuple and len(data) == 3 and isinstance(data[1], int):
        data = data[0]  # torchdata: the batch, the worker, its state
    return type(data).__name__ in NOT_A_BATCH


def _flush_before_waiting(queue: Any) -> None:
    """The time of a write is free when there is nothing to do, and an idle worker may be ended by a signal."""
    try:
        if recorder.here.pending and queue.empty():
            recorder.flush()
    except Exception:
        pass
