"""Whole volumes that the training never sees, segmented and compared with their labels."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor

from vtune.pipelines.unet3d.data.records import Record
from vtune.pipelines.unet3d.data.volumes import IGNORE, SURFACE, DataError
from vtune.pipelines.unet3d.inference import THRESHOLD, Segment, probability_slabs
from vtune.pipelines.unet3d.metrics import Comparison
from vtune.pipelines.unet3d.model import UNet3D
from vtune.pipelines.unet3d.ranks import FailedElsewhere, Ranks
from vtune.pipelines.unet3d.segmenter import segmenter
from vtune.pipelines.unet3d.settings import Settings

Scores: TypeAlias = dict[str, float]


class Stopped(Exception):
    """Asked to end in the midst of it."""


class Validation(NamedTuple):
    means: Scores
    records: dict[str, Scores]  # by name, in the order of the records


def validate(
    model: UNet3D, records: list[Record], *, settings: Settings, ranks: Ranks, is_stopped: Callable[[], bool]
) -> Validation | None:
    """The same figures whatever the number of ranks, which take the records in turns; None if stopped."""
    segment = segmenter(
        model,
        intensity_range=settings.data.intensity_range,
        precision=settings.training.precision,
        device=ranks.device,
    )

    def interruptible(windows: npt.NDArray[Any]) -> Tensor:
        if is_stopped():
            raise Stopped
        return segment(windows)

    def share() -> dict[int, Scores | None] | None:
        try:
            own = range(ranks.rank, len(records), ranks.count)
            return {number: score(records[number], interruptible, settings) for number in own}
        except Stopped:
            return None

    shares = ranks.gather(ranks.agree(share))
    found: dict[int, Scores | None] = {}
    for scores in shares:
        if scores is None:
            return None
        found |= scores
    # In the order of the records: a sum of floats depends on it.
    by_name = {records[number].name: scores for number, scores in sorted(found.items()) if scores is not None}
    if not by_name:
        if not ranks.is_first:
            raise FailedElsewhere
        raise DataError(f"{', '.join(record.name for record in records)}: no voxel of the records that judge is known")
    names = next(iter(by_name.values()))
    means = {name: sum(scores[name] for scores in by_name.values()) / len(by_name) for name in names}
    return Validation(means, by_name)


def score(record: Record, segment: Segment, settings: Settings) -> Scores | None:
    """None where nobody knows any voxel. Of the volume only the planes between reading and judging are held: it may be
    larger than memory."""
    volume = record.open()
    comparison = Comparison(tolerance_voxels=settings.validation.surface_tolerance)
    waiting = np.empty((0, *volume.size[1:]), np.uint8)

    def read(first: int, stop: int) -> npt.NDArray[Any]:
        nonlocal waiting
        block = volume.read((first, 0, 0), (stop - first, *volume.size[1:]))
        waiting = np.concatenate([waiting, block.label])
        return block.image

    slabs = probability_slabs(
        read,
        volume.size,
        segment,
        window=settings.data.patch_size,
        overlap=settings.validation.overlap,
        batch_size=settings.validation.batch_size,
    )
    is_known = False
    for _, slab in slabs:
        label, waiting = waiting[: len(slab)], waiting[len(slab) :]
        known = label != IGNORE
        is_known |= bool(known.any())
        comparison.add(slab >= THRESHOLD, label == SURFACE, known)
    return comparison.scores() if is_known else None
