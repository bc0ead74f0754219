import torch.multiprocessing
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler
from torch.utils.data._utils.worker import _ResumeIteration
from torch.utils.data.dataloader import _BaseDataLoaderIter, _DatasetKind, default_collate

from torchdata.stateful_dataloader.worker import _worker_loop


class StatefulDataLoader(DataLoader):
    def __init__(self, dataset, batch_size=1, num_workers=0, *, prefetch_factor=None, persistent_workers=False):
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory = False
        self.pin_memory_device = ""
        self.timeout = 0
        self.worker_init_fn = None
        self.multiprocessing_context = None
        self.in_order = True
        self._dataset_kind = _DatasetKind.Map
        self.batch_size = batch_size
        self.drop_last = False
        self.sampler = SequentialSampler(dataset)
        self.batch_sampler = BatchSampler(self.sampler, batch_size, False)
        self.generator = None
        self.collate_fn = default_collate
        self.persistent_workers = persistent_workers
        self._DataLoader__initialized = True
        self._IterableDataset_len_called = None
        self._iterator = None

    def _get_iterator(self):
        if self.num_workers == 0:
            return _StatefulSingleProcessDataLoaderIter(self)
        return _StatefulMultiProcessingDataLoaderIter(self)


class _StatefulBaseDataLoaderIter(_BaseDataLoaderIter):
    def _next_index(self):
        return super()._next_index()

    def __next__(self):
        return super().__next__()


class _StatefulSingleProcessDataLoaderIter(_StatefulBaseDataLoaderIter):
    def __init__(self, loader):
        super().__init__(loader)
        self._fetcher = _DatasetKind.create_fetcher(0, self._dataset, True, self._collate_fn, False)

    def _next_data(self):
        return self._fetcher.fetch(self._next_index())


class _StatefulMultiProcessingDataLoaderIter(_StatefulBaseDataLoaderIter):
    def __init__(self, loader):
        super().__init__(loader)
        self._prefetch = loader.prefetch_factor * loader.num_workers
        self._results = torch.multiprocessing.Queue()
        self._done = torch.multiprocessing.Event()
        self._index_queues = [torch.multiprocessing.Queue() for _ in range(loader.num_workers)]
        self._workers = []
        for worker, tasks in enumerate(self._index_queues):
            arguments = (0, self._dataset, tasks, self._results, self._done, True, self._collate_fn, False, 0, None)
            arguments += (worker, loader.num_workers, True, None, None)
            self._workers.append(torch.multiprocessing.Process(target=_worker_loop, args=arguments, daemon=True))
            self._workers[-1].start()
        self._reset(loader, first_iter=True)

    def _reset(self, loader, first_iter=False, prime_prefetch=True):
        super()._reset(loader, first_iter)
        self._send_idx = self._rcvd_idx = 0
        self._arrived = {}
        if not first_iter:
            for tasks in self._index_queues:
                tasks.put(_ResumeIteration(None))
            for _ in self._index_queues:
                assert isinstance(self._results.get()[0], _ResumeIteration)
        for _ in range(self._prefetch):
            self._try_put_index()

    def _try_put_index(self):
        try:
            index = self._next_index()
        except StopIteration:
            return
        self._index_queues[self._send_idx % self._num_workers].put((self._send_idx, (index, True)))
        self._send_idx += 1

    def _next_data(self):
        if self._rcvd_idx == self._send_idx:
            raise StopIteration
        while self._rcvd_idx not in self._arrived:
            number, (batch, _, _) = self._results.get()
            self._arrived[number] = batch
        self._rcvd_idx += 1
        self._try_put_index()
        return self._arrived.pop(self._rcvd_idx - 1)

    def __del__(self):
        self._done.set()
        for tasks, worker in zip(self._index_queues, self._workers, strict=True):
            tasks.put(None)
            worker.join(5)
