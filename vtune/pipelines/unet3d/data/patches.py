"""The stream of training patches: one endless numbered sequence, of which an epoch is a window.

Sample n is the same whatever the batch size, the number of loader workers or who asks for it: record, place and
augmentation are drawn from (seed, n) alone. The epoch travels in n and not in the data set, because persistent
workers keep the copy of the data set that they were started with.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset, Sampler

from vtune.pipelines.unet3d.data.augment import Sample, augment
from vtune.pipelines.unet3d.data.intensity import to_unit
from vtune.pipelines.unet3d.data.records import Record
from vtune.pipelines.unet3d.data.volumes import SURFACE, Floats, Triple, Volume, triple
from vtune.pipelines.unet3d.settings import AugmentationSettings, DataSettings

# Apart from each other and from the volumes' own draws, whose key is (seed, record).
ORDER_STREAM, SAMPLE_STREAM = 1, 2


class Patch(NamedTuple):
    """A sample, or after collation a batch of them."""

    image: Tensor  # (1, depth, height, width), zero mean and unit variance
    label: Tensor  # as image, 0, 1 or IGNORE, one byte each: a quarter of the traffic between worker and device
    origin: Tensor  # sample number, record, and the z, y, x of the region it was cut from: names a bad batch
    distance: Tensor  # as image: voxels to the label's surface; of no elements where nobody asked for it


class ScrollPatches(Dataset[Patch]):
    """`len` is one pass over the data: every record gives `patches_per_record` patches, in a new order each pass.

    `distance_to` measures the surface of the sample with a number here, in the worker, instead of in the loss, or gives
    nothing where that sample needs none. A batch should hold such samples or others, not both.
    """

    def __init__(
        self,
        records: Sequence[Record],
        data: DataSettings,
        augmentation: AugmentationSettings,
        *,
        distance_to: Callable[[int, npt.NDArray[np.bool_]], Floats | None] | None = None,
    ) -> None:
        self._records = list(records)
        self._data = data
        self._augmentation = augmentation
        self._distance_to = distance_to

    def __len__(self) -> int:
        return len(self._records) * self._data.patches_per_record

    def __getitem__(self, number: int) -> Patch:
        data = self._data
        rng = np.random.default_rng([data.seed, SAMPLE_STREAM, number])
        record = self._record_of(number)
        volume = self._records[record].open()
        # A volume may be hardly larger than a patch; then there is less margin for what is rotated in.
        region_size = triple(min(edge, limit) for edge, limit in zip(data.region_size, volume.size, strict=True))
        corner = self._choose_corner(volume, region_size, rng)
        block = volume.read(corner, region_size)
        region = Sample(to_unit(block.image, data.intensity_range), block.label)
        image, label = augment(region, data.patch_size, self._augmentation, rng)
        distance = None if self._distance_to is None else self._distance_to(number, label == SURFACE)
        return Patch(
            torch.from_numpy(image)[None],
            torch.from_numpy(label)[None],
            torch.tensor([number, record, *corner]),
            torch.empty(0) if distance is None else torch.from_numpy(distance)[None],
        )

    def _record_of(self, number: int) -> int:
        turn, place = divmod(number, len(self))
        order = np.random.default_rng([self._data.seed, ORDER_STREAM, turn]).permutation(len(self))
        return int(order[place]) // self._data.patches_per_record

    def _choose_corner(self, volume: Volume, region_size: Triple, rng: np.random.Generator) -> Triple:
        """Where to read: anywhere, or around a voxel of a surface."""
        free = triple(limit - edge for limit, edge in zip(volume.size, region_size, strict=True))
        anywhere = triple(int(rng.integers(room + 1)) for room in free)
        if rng.random() >= self._data.foreground_probability:
            return anywhere
        # Nearby surfaces are looked for in the one chunk that holds the middle of that place: of a file a small read
        # beside the patch's own, and of a virtual volume none, for the patch needs most of it as well.
        middle = triple(start + edge // 2 for start, edge in zip(anywhere, region_size, strict=True))
        chunk_corner, label = volume.chunk_label(middle)
        surface = np.flatnonzero(label == SURFACE)
        if surface.size == 0:
            return anywhere
        centre = np.unravel_index(int(rng.choice(surface)), label.shape)
        return triple(
            min(max(start + int(inside) - edge // 2, 0), room)
            for start, inside, edge, room in zip(chunk_corner, centre, region_size, free, strict=True)
        )


class EpochWindow(Sampler[int]):
    """The numbers of one epoch's samples. They are in order: the mixing is in the data set's order of records.

    Several ranks share each micro-batch: of `batch * ranks` numbers in a row this rank gets its `batch`, so that
    together they see what one process with so much larger a batch would.
    """

    def __init__(self, samples_per_epoch: int, *, batch: int, rank: int = 0, ranks: int = 1) -> None:
        if samples_per_epoch % (batch * ranks):
            raise ValueError(f"{samples_per_epoch} samples are no whole number of batches of {batch} on {ranks} ranks")
        self._samples = samples_per_epoch
        self._batch = batch
        self._rank = rank
        self._ranks = ranks
        self.epoch = 0
        # Samples of this epoch that all ranks together have had already: a resumed run goes on after them.
        self.first = 0

    def __len__(self) -> int:
        return (self._samples - self.first) // self._ranks

    def __iter__(self) -> Iterator[int]:
        together = self._batch * self._ranks
        if self.first % together:
            raise ValueError(f"{self.first} samples are no whole number of batches of {together}")
        begin = self.epoch * self._samples
        mine = range(begin + self.first + self._rank * self._batch, begin + self._samples, together)
        return itertools.chain.from_iterable(range(start, start + self._batch) for start in mine)
