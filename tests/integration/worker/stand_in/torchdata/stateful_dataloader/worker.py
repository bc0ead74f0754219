"""Tasks are (number, (index, snapshot)), results (number, (batch, worker, state)); a resume is acknowledged."""

import queue

from torch.utils.data import _DatasetKind
from torch.utils.data._utils.worker import _ResumeIteration


def _worker_loop(
    dataset_kind,
    dataset,
    index_queue,
    data_queue,
    done_event,
    auto_collation,
    collate_fn,
    drop_last,
    base_seed,
    init_fn,
    worker_id,
    num_workers,
    persistent_workers,
    shared_seed,
    worker_state,
):
    fetcher = _DatasetKind.create_fetcher(dataset_kind, dataset, auto_collation, collate_fn, drop_last)
    while True:
        try:
            task = index_queue.get(timeout=5)
        except queue.Empty:
            continue
        if task is None:
            break
        if isinstance(task, _ResumeIteration):
            data_queue.put((task, {"state": worker_id}))
            continue
        number, (index, snapshot) = task
        data_queue.put((number, (fetcher.fetch(index), worker_id, {} if snapshot else None)))
    if done_event.is_set():
        data_queue.cancel_join_thread()
        data_queue.close()
