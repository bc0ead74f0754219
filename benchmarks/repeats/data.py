"""Data sets that repeat their samples when loader workers are added, and others that only look so."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils.data import (
    ConcatDataset,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    get_worker_info,
)

SAMPLES, LABELS = 4096, 10
# What a sample costs to load: without it no worker would bring anything.
LOAD_S = 0.003
# Made when the module is imported, and so copied into each worker.
SHARED = np.random.default_rng(0)

Item = tuple[torch.Tensor, int]


@dataclass(frozen=True, kw_only=True)
class Loading:
    dataset: Any
    shuffle: bool = True
    batch_size: int = 4
    options: dict[str, Any] = field(default_factory=dict)


def stored(index: int) -> torch.Tensor:
    """The record of that number, without drawing from any generator that a training knows."""
    time.sleep(LOAD_S)
    return torch.from_numpy(np.random.Generator(np.random.PCG64(index)).random(64, dtype=np.float32))


class Clean(Dataset[Item]):
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Item:
        return stored(index), index % LABELS


class OwnRng(Clean):
    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __getitem__(self, index: int) -> Item:
        chosen = int(self.rng.integers(SAMPLES))
        return stored(chosen), chosen % LABELS


class Augmented(Clean):
    """The record is the index's own; the noise is not."""

    def __init__(self, rng: Any) -> None:
        self.rng = rng

    def __getitem__(self, index: int) -> Item:
        return stored(index) + torch.tensor(self.noise(), dtype=torch.float32), index % LABELS

    def noise(self) -> list[float]:
        if isinstance(self.rng, torch.Generator):
            return torch.rand(64, generator=self.rng).tolist()
        return [float(self.rng.random()) for _ in range(64)]


class Flip:
    def __init__(self) -> None:
        self.state = np.random.RandomState(0)

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return image.flip(0) if self.state.rand() < 0.5 else image


class Transformed(Clean):
    def __init__(self) -> None:
        self.transforms = [Flip()]

    def __getitem__(self, index: int) -> Item:
        image = stored(index)
        for transform in self.transforms:
            image = transform(image)
        return image, index % LABELS


class OfTheModule(Clean):
    def __getitem__(self, index: int) -> Item:
        return stored(index) * float(SHARED.random()), index % LABELS


class OfNumpy(Clean):
    def __getitem__(self, index: int) -> Item:
        return stored(int(np.random.randint(SAMPLES))), index % LABELS


class UntilAccepted(Clean):
    """As many numbers as it takes: other samples take other numbers of them."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __getitem__(self, index: int) -> Item:
        while (drawn := float(self.rng.random())) < (index % 4) / 5:
            pass
        return stored(index) * drawn, index % LABELS


class MadeLate(Clean):
    def __init__(self) -> None:
        self.rng: np.random.Generator | None = None

    def __getitem__(self, index: int) -> Item:
        if self.rng is None:
            self.rng = np.random.default_rng(0)
        return stored(int(self.rng.integers(SAMPLES))), index % LABELS


class MadeLateUntilAccepted(Clean):
    def __init__(self) -> None:
        self.rng: np.random.Generator | None = None

    def __getitem__(self, index: int) -> Item:
        if self.rng is None:
            self.rng = np.random.default_rng(0)
        chosen = int(self.rng.integers(SAMPLES))
        while chosen % 4 < index % 3:
            chosen = int(self.rng.integers(SAMPLES))
        return stored(chosen) + torch.rand(64), chosen % LABELS


class MadeByHand(Clean):
    def __init__(self) -> None:
        self.seed = 1

    def __getitem__(self, index: int) -> Item:
        self.seed = (1103515245 * self.seed + 12345) % 2**31
        return stored((self.seed >> 8) % SAMPLES) + torch.rand(64), 0


class WalksAnOrder(Clean):
    def __init__(self) -> None:
        self.order: Any = np.random.default_rng(0).permutation(SAMPLES)
        self.at = 0

    def __getitem__(self, index: int) -> Item:
        self.at += 1
        return stored(int(self.order[self.at % SAMPLES])) + torch.rand(64), 0


class Pops(Clean):
    def __init__(self) -> None:
        self.records = list(range(SAMPLES))

    def __getitem__(self, index: int) -> Item:
        record = self.records.pop()
        return stored(record), record % LABELS


class ReadsOn(Clean):
    def __init__(self) -> None:
        self.records = iter(range(SAMPLES))

    def __getitem__(self, index: int) -> Item:
        record = next(self.records)
        return stored(record), record % LABELS


class Counts(Clean):
    def __init__(self) -> None:
        self.at = 0

    def __getitem__(self, index: int) -> Item:
        self.at += 1
        return stored(self.at), self.at % LABELS


class Whole(IterableDataset[Item]):
    def __iter__(self) -> Iterator[Item]:
        for index in range(SAMPLES):
            yield stored(index), index % LABELS


class Unused(IterableDataset[Item]):
    """It asks for the worker, and does nothing with the answer."""

    def __iter__(self) -> Iterator[Item]:
        info = get_worker_info()
        workers = info.num_workers if info is not None else 1
        assert workers
        for index in range(SAMPLES):
            yield stored(index), index % LABELS


class UnusedAugmented(Unused):
    def __iter__(self) -> Iterator[Item]:
        for image, label in super().__iter__():
            yield image + torch.rand(64), label


class Commented(IterableDataset[Item]):
    def __iter__(self) -> Iterator[Item]:
        # Later: get_worker_info().id and num_workers.
        for index in range(SAMPLES):
            yield stored(index) + torch.rand(64), index % LABELS


class ConstantForever(IterableDataset[Item]):
    def __iter__(self) -> Iterator[Item]:
        while True:
            time.sleep(LOAD_S)
            yield torch.ones(64), 0


class DrawsForever(IterableDataset[Item]):
    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __iter__(self) -> Iterator[Item]:
        while True:
            index = int(self.rng.integers(SAMPLES))
            yield stored(index), index % LABELS


class ByWorker(Clean):
    """Its generator is made in each worker, from the worker's own seed."""

    def __init__(self) -> None:
        self.rng: np.random.Generator | None = None

    def __getitem__(self, index: int) -> Item:
        if self.rng is None:
            info = get_worker_info()
            self.rng = np.random.default_rng(info.seed if info is not None else 0)
        return stored(int(self.rng.integers(SAMPLES))), index % LABELS


class JumpsByWorker(Clean):
    """All of one seed, and each worker at a place of the sequence that no other comes to."""

    def __init__(self) -> None:
        self.rng: np.random.Generator | None = None

    def __getitem__(self, index: int) -> Item:
        if self.rng is None:
            info = get_worker_info()
            self.rng = np.random.Generator(np.random.PCG64(0).jumped(info.id if info is not None else 0))
        return stored(int(self.rng.integers(SAMPLES))), index % LABELS


class WalksItsOwnOrder(WalksAnOrder):
    """Drawn in each worker, from the generator that torch seeds by worker."""

    def __init__(self) -> None:
        self.order = None
        self.at = 0

    def __getitem__(self, index: int) -> Item:
        if self.order is None:
            self.order = torch.randperm(SAMPLES).numpy()
        self.at += 1
        return stored(int(self.order[self.at % SAMPLES])) + torch.rand(64), 0


class CountsOnly(Clean):
    def __init__(self) -> None:
        self.calls = 0

    def __getitem__(self, index: int) -> Item:
        self.calls += 1
        return stored(index) + torch.rand(64), 0


class ByIndex(Clean):
    """Seeded anew for each sample: the same index is the same sample in every run."""

    def __init__(self) -> None:
        self.state = np.random.RandomState(0)

    def __getitem__(self, index: int) -> Item:
        self.state.seed(index)
        return stored(index) * float(self.state.rand()), index % LABELS


class NotDrawn(Clean):
    """It has a generator, of which only its making made use."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.order = self.rng.permutation(SAMPLES)

    def __getitem__(self, index: int) -> Item:
        return stored(int(self.order[index])), index % LABELS


class Constant(Clean):
    def __getitem__(self, index: int) -> Item:
        time.sleep(LOAD_S)
        return torch.zeros(64), 0


class Blank(Clean):
    """Nine patches of ten are empty."""

    def __getitem__(self, index: int) -> Item:
        image = stored(index)
        return (image, 1) if index % 10 == 0 else (torch.zeros(64), 0)


class Few(Clean):
    """Some samples over and over, as tiny synthetic data sets have them."""

    def __init__(self, different: int, each: int = 1) -> None:
        self.different, self.each = different, each

    def __getitem__(self, index: int) -> Item:
        record = index // self.each % self.different
        return stored(record), record % LABELS


class Cached(Clean):
    def __init__(self) -> None:
        self.cache: dict[int, torch.Tensor] = {}
        self.calls = 0

    def __getitem__(self, index: int) -> Item:
        self.calls += 1
        record = index % 4
        if record not in self.cache:
            self.cache[record] = stored(record)
        time.sleep(LOAD_S)
        return self.cache[record], record % LABELS


class Strided(IterableDataset[Item]):
    def __iter__(self) -> Iterator[Item]:
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info is not None else (0, 1)
        for index in range(first, SAMPLES, step):
            yield stored(index), index % LABELS


class InParts(IterableDataset[Item]):
    """Each part of so few different samples begins alike."""

    def __init__(self, different: int, *, augments: bool = False) -> None:
        self.different, self.augments = different, augments

    def __iter__(self) -> Iterator[Item]:
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info is not None else (0, 1)
        part = 4000 // workers
        for index in range(worker * part, (worker + 1) * part):
            image = stored(index % self.different)
            yield (image + torch.rand(64) if self.augments else image), index % LABELS


class ShuffledThenShared(IterableDataset[Item]):
    """All workers draw the same order on purpose, and each takes its own part of it."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __iter__(self) -> Iterator[Item]:
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info is not None else (0, 1)
        while True:
            for index in self.rng.permutation(8 * workers)[worker::workers]:
                yield stored(int(index) + int(self.rng.integers(1000)) * 16), int(index) % LABELS


class SetFromOutside(IterableDataset[Item]):
    def __init__(self) -> None:
        self.first, self.step = 0, 1

    def __iter__(self) -> Iterator[Item]:
        for index in range(self.first, SAMPLES, self.step):
            yield stored(index), index % LABELS


class RandomByWorker(IterableDataset[Item]):
    """Patches without end, from the process's own generator, which torch seeds by worker."""

    def __iter__(self) -> Iterator[Item]:
        while True:
            index = random.randrange(SAMPLES)
            yield stored(index), index % LABELS


def seed_alike(worker: int) -> None:
    np.random.seed(0)


def seed_by_worker(worker: int) -> None:
    np.random.seed(1000 + worker)


def share_out(worker: int) -> None:
    info = get_worker_info()
    assert info is not None
    info.dataset.first, info.dataset.step = worker, info.num_workers


def with_replacement(dataset: Any) -> Sampler[int]:
    return RandomSampler(dataset, replacement=True, num_samples=SAMPLES)


def of_a_sampler(dataset: Any, sampler: Callable[[Any], Sampler[int]]) -> Loading:
    return Loading(dataset=dataset, shuffle=False, options={"sampler": sampler(dataset)})


def iterates(dataset: Any, **options: Any) -> Loading:
    return Loading(dataset=dataset, shuffle=False, options=options)


CASES: dict[str, Callable[[], Loading]] = {
    "own_rng": lambda: Loading(dataset=OwnRng()),
    "own_rng_spawned": lambda: Loading(dataset=OwnRng(), options={"multiprocessing_context": "spawn"}),
    "own_rng_in_order": lambda: Loading(dataset=OwnRng(), shuffle=False),
    "own_rng_augments": lambda: Loading(dataset=Augmented(np.random.default_rng(0))),
    "own_python_random": lambda: Loading(dataset=Augmented(random.Random(0))),
    "own_torch_generator": lambda: Loading(dataset=Augmented(torch.Generator().manual_seed(0))),
    "own_state_in_transform": lambda: Loading(dataset=Transformed()),
    "rng_of_the_module": lambda: Loading(dataset=OfTheModule()),
    "until_accepted": lambda: Loading(dataset=UntilAccepted()),
    "made_late": lambda: Loading(dataset=MadeLate()),
    "made_late_until_accepted": lambda: Loading(dataset=MadeLateUntilAccepted()),
    "made_by_hand": lambda: Loading(dataset=MadeByHand()),
    "numpy_seeded_alike": lambda: Loading(dataset=OfNumpy(), options={"worker_init_fn": seed_alike}),
    "pops": lambda: Loading(dataset=Pops()),
    "pops_in_order": lambda: Loading(dataset=Pops(), shuffle=False),
    "reads_on": lambda: Loading(dataset=ReadsOn(), shuffle=False),
    "counts": lambda: Loading(dataset=Counts()),
    "counts_in_order": lambda: Loading(dataset=Counts(), shuffle=False),
    "walks_an_order": lambda: Loading(dataset=WalksAnOrder()),
    "iterable_whole": lambda: iterates(Whole()),
    "iterable_unused_info": lambda: iterates(Unused()),
    "iterable_unused_augmented": lambda: iterates(UnusedAugmented()),
    "iterable_commented": lambda: iterates(Commented()),
    "iterable_only_seeded": lambda: iterates(Whole(), worker_init_fn=seed_by_worker),
    "iterable_own_rng": lambda: iterates(DrawsForever()),
    "iterable_constant": lambda: iterates(ConstantForever()),
    "clean": lambda: Loading(dataset=Clean()),
    "numpy_of_the_process": lambda: Loading(dataset=OfNumpy()),
    "numpy_seeded_by_worker": lambda: Loading(dataset=OfNumpy(), options={"worker_init_fn": seed_by_worker}),
    "rng_by_worker": lambda: Loading(dataset=ByWorker()),
    "rng_by_index": lambda: Loading(dataset=ByIndex()),
    "rng_jumps_by_worker": lambda: Loading(dataset=JumpsByWorker()),
    "walks_its_own_order": lambda: Loading(dataset=WalksItsOwnOrder()),
    "counts_only": lambda: Loading(dataset=CountsOnly()),
    "rng_not_drawn": lambda: Loading(dataset=NotDrawn()),
    "constant": lambda: Loading(dataset=Constant()),
    "blank": lambda: Loading(dataset=Blank()),
    "few_with_replacement": lambda: of_a_sampler(Few(8), with_replacement),
    "few_in_order": lambda: of_a_sampler(Few(4), SequentialSampler),
    "each_twice_in_order": lambda: Loading(dataset=Few(SAMPLES, each=2), shuffle=False, batch_size=1),
    "concatenated": lambda: Loading(dataset=ConcatDataset([Few(4)] * 4), shuffle=False),
    "cached": lambda: Loading(dataset=Cached(), shuffle=False),
    "iterable_strided": lambda: iterates(Strided()),
    "iterable_in_parts": lambda: iterates(InParts(10)),
    "iterable_in_large_parts": lambda: iterates(InParts(100)),
    "iterable_in_augmented_parts": lambda: iterates(InParts(100, augments=True)),
    "iterable_shuffled_then_shared": lambda: iterates(ShuffledThenShared()),
    "iterable_set_from_outside": lambda: iterates(SetFromOutside(), worker_init_fn=share_out),
    "iterable_random_by_worker": lambda: iterates(RandomByWorker()),
}
