"""The loop that all these trainings share: plain PyTorch, settings as flags, the rate of the whole run at the end."""

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

WIDTH = 8


class Model(torch.nn.Module):
    def __init__(self, first_step_s: float = 0.0) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(WIDTH, 1)
        self.steps_done = 0
        self.first_step_s = first_step_s

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.linear(batch[:, :WIDTH]) / 1e6


@dataclass(frozen=True)
class Task:
    """One training: its data, its step, and the settings that its author left in it."""

    make_dataset: Callable[[argparse.Namespace], Dataset]
    # (model, batch) -> loss; what the step takes on top of its gradient is in here.
    loss: Callable[[Model, torch.Tensor], torch.Tensor]
    defaults: dict[str, Any] = field(default_factory=dict)
    # Work of the main process on each batch, between the loader and the step.
    host_work: Callable[[torch.Tensor, int], torch.Tensor] | None = None
    validate: Callable[[Model, int], None] | None = None
    worker_init: Callable[[int], None] | None = None


def parse(task: Task, arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--persistent-workers", type=truth_of, default=True, metavar="true|false")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--epoch-samples", type=int, default=600)
    parser.add_argument("--first-step", type=float, default=0.0, metavar="SECONDS", help="what the first takes on top")
    parser.add_argument("--steps", type=int, help="stop after so many, in the middle of an epoch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, help="the folder of the files, for a training that reads some")
    parser.add_argument("--times", type=Path, help="write the time of each step's end there")
    parser.set_defaults(**task.defaults)
    return parser.parse_args(arguments)


def truth_of(word: str) -> bool:
    if word not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"true or false, not {word}")
    return word == "true"


def make_loader(task: Task, options: argparse.Namespace) -> DataLoader:
    dataset = task.make_dataset(options)
    workers = options.workers
    return DataLoader(
        dataset,
        batch_size=options.batch_size,
        shuffle=not isinstance(dataset, IterableDataset),
        num_workers=workers,
        prefetch_factor=options.prefetch_factor if workers else None,
        persistent_workers=bool(workers and options.persistent_workers),
        worker_init_fn=task.worker_init,
    )


def make_optimizer(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=1e-12)


def step(task: Task, model: Model, optimizer: torch.optim.Optimizer, batch: torch.Tensor) -> torch.Tensor:
    if not model.steps_done:
        # As a compiler or a search for algorithms would, once.
        time.sleep(model.first_step_s)
    loss = task.loss(model, batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    model.steps_done += 1
    return loss


def worked_on(task: Task, loader: Iterable[torch.Tensor], workers: int) -> Iterator[torch.Tensor]:
    for batch in loader:
        yield batch if task.host_work is None else task.host_work(batch, workers)


def train(task: Task) -> None:
    options = parse(task)
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    loader = make_loader(task, options)
    model = Model(options.first_step)
    optimizer = make_optimizer(model)
    ends: list[float] = []
    useful = 0
    begun = time.perf_counter()
    for _ in range(options.epochs):
        # A sample counts once an epoch: one that is read twice trains nobody twice as fast.
        seen: set[float] = set()
        for batch in worked_on(task, loader, options.workers):
            step(task, model, optimizer, batch)
            seen.update(batch[:, 0].tolist())
            ends.append(time.perf_counter())
            if len(ends) == options.steps:
                break
        useful += len(seen)
        if len(ends) == options.steps:
            break
        if task.validate:
            task.validate(model, options.batch_size)
    seconds = time.perf_counter() - begun
    if options.times:
        options.times.write_text(json.dumps([end - begun for end in ends]))
    print(json.dumps({"samples": useful, "steps": len(ends), "seconds": seconds, "samples_per_s": useful / seconds}))


def sample(index: int) -> torch.Tensor:
    return torch.full((WIDTH,), float(index))
