"""The stream of training patches: one endless numbered sequence, of which an epoch is a window.

Sample n is the same whatever the batch size, the number of loader workers or who asks for it: record, place and
augmentation are drawn from (seed, n) alone. The epoch travels in n and not in the data set, because persistent
workers keep the copy of the data set that they were started with.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, Sampler

from vtune.pipelines.unet3d.data.augment import Sample, augment
from vtune.pipelines.unet3d.data.volumes import Triple, VirtualScroll
from vtune.pipelines.unet3d.settings import AugmentationSettings, DataSettings

# Apart from each other and from the volumes' own draws, whose key is (seed, record).
ORDER_STREAM, SAMPLE_STREAM = 1, 2


class Patch(NamedTuple):
    """A sample, or after collation a batch of them."""

    image: Tensor  # (1, depth, height, width), zero mean and unit variance
    label: Tensor  # as image, 0 or 1, one byte each: a quarter of the traffic between worker and device
    origin: Tensor  # sample number, record, and the z, y, x of the region it was cut from: names a bad batch


class ScrollPatches(Dataset[Patch]):
    """`len` is one pass over the data: every record gives `patches_per_record` patches, in a new order each pass."""

    def __init__(self, data: DataSettings, augmentation: AugmentationSettings) -> None:
        self._data = data
        self._augmentation = augmentation

    def __len__(self) -> int:
        return self._data.records * self._data.patches_per_record

    def __getitem__(self, number: int) -> Patch:
        data = self._data
        rng = np.random.default_rng([data.seed, SAMPLE_STREAM, number])
        record = self._record_of(number)
        volume = VirtualScroll(seed=data.seed, record=record, size=data.volume_size, chunk=data.chunk_size)
        corner = self._choose_corner(volume, rng)
        block = volume.read(corner, data.region_size)
        region = Sample(torch.from_numpy(block.image).float() / 255, torch.from_numpy(block.label))
        image, label = augment(region, data.patch_size, self._augmentation, rng)
        return Patch(image[None], label[None], torch.tensor([number, record, *corner]))

    def _record_of(self, number: int) -> int:
        turn, place = divmod(number, len(self))
        order = np.random.default_rng([self._data.seed, ORDER_STREAM, turn]).permutation(len(self))
        return int(order[place]) // self._data.patches_per_record

    def _choose_corner(self, volume: VirtualScroll, rng: np.random.Generator) -> Triple:
        """Where to read: anywhere, or around a voxel of a surface."""
        data = self._data
        free = [limit - edge for limit, edge in zip(volume.size, data.region_size, strict=True)]
        z, y, x = (int(rng.integers(room + 1)) for room in free)
        if rng.random() >= data.foreground_probability:
            return z, y, x
        # Nearby surfaces are looked for in the one chunk that holds the middle of that place: it is read anyway.
        depth, height, width = data.region_size
        chunk_corner, label = volume.chunk_label((z + depth // 2, y + height // 2, x + width // 2))
        surface = np.flatnonzero(label)
        if surface.size == 0:
            return z, y, x
        centre = np.unravel_index(int(rng.choice(surface)), label.shape)
        z, y, x = (
            min(max(start + int(inside) - edge // 2, 0), room)
            for start, inside, edge, room in zip(chunk_corner, centre, data.region_size, free, strict=True)
        )
        return z, y, x


class EpochWindow(Sampler[int]):
    """The numbers of one epoch's samples. They are in order: the mixing is in the data set's order of records."""

    def __init__(self, samples_per_epoch: int) -> None:
        self._samples = samples_per_epoch
        self.epoch = 0

    def __len__(self) -> int:
        return self._samples

    def __iter__(self) -> Iterator[int]:
        first = self.epoch * self._samples
        return iter(range(first, first + self._samples))
