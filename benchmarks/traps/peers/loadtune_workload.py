"""One of the trainings as loadtune wants it: a `Workload`. It builds the loader and the loop itself."""

import importlib
import json
import multiprocessing
import os
import sys

from loadtune import Workload
from torch.utils.data import Dataset, get_worker_info

TOLD = json.loads(os.environ["TRAP"])
sys.path.insert(0, TOLD["trainings"])
loop = importlib.import_module("loop")
TASK = importlib.import_module(TOLD["training"]).TASK
OPTIONS = loop.parse(TASK, TOLD["flags"])
# The trainings wait rather than compute: loadtune may have the workers that the machine declares.
os.cpu_count = lambda: TOLD["cores"]


class Opened(Dataset):
    """loadtune has no place for a worker's initialization: it comes with the worker's first sample."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.is_open = False

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> object:
        worker = get_worker_info()
        if worker and not self.is_open:
            TASK.worker_init(worker.id)
            self.is_open = True
        return self.dataset[index]


def make_dataset() -> Dataset:
    dataset = TASK.make_dataset(OPTIONS)
    return Opened(dataset) if TASK.worker_init else dataset


def train_step(model, optimizer, batch, device):
    if TASK.host_work:
        batch = TASK.host_work(batch, len(multiprocessing.active_children()))
    return loop.step(TASK, model, optimizer, batch)


def get_workload() -> Workload:
    return Workload(
        name=TOLD["training"],
        make_dataset=make_dataset,
        make_model=lambda: loop.Model(OPTIONS.first_step),
        make_optimizer=loop.make_optimizer,
        train_step=train_step,
        default_batch_size=TOLD["baseline"]["batch_size"],
    )
