"""Whole volumes that the training never sees, segmented and compared with their labels."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor

from vtune.pipelines.unet3d.data.records import Record
from vtune.pipelines.unet3d.data.volumes import IGNORE, SURFACE, DataError
from vtune.pipelines.unet3d.inference import Segment, WindowError, probability_slabs
from vtune.pipelines.unet3d.metrics import cldice, dice, surface_dice
from vtune.pipelines.unet3d.model import UNet3D
from vtune.pipelines.unet3d.ranks import Ranks
from vtune.pipelines.unet3d.segmenter import segmenter
from vtune.pipelines.unet3d.settings import Settings

Scores: TypeAlias = dict[str, float]

# A voxel is a surface where the network says so with at least this probability.
THRESHOLD = 0.5


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

    def share() -> dict[int, Scores] | None:
        try:
            own = range(ranks.rank, len(records), ranks.count)
            return {number: score(records[number], interruptible, settings) for number in own}
        except Stopped:
            return None

    shares = ranks.gather(ranks.agree(share))
    found: dict[int, Scores] = {}
    for scores in shares:
        if scores is None:
            return None
        found |= scores
    by_name = {records[number].name: found[number] for number in sorted(found)}
    # In the order of the records: a sum of floats depends on it.
    means = {name: sum(scores[name] for scores in by_name.values()) / len(by_name) for name in found[0]}
    return Validation(means, by_name)


def score(record: Record, segment: Segment, settings: Settings) -> Scores:
    volume = record.open()
    label = np.empty(volume.size, np.uint8)
    predicted = np.empty(volume.size, np.bool_)

    def read(first: int, stop: int) -> npt.NDArray[Any]:
        block = volume.read((first, 0, 0), (stop - first, *volume.size[1:]))
        label[first:stop] = block.label
        return block.image

    slabs = probability_slabs(
        read,
        volume.size,
        segment,
        window=settings.data.patch_size,
        overlap=settings.validation.overlap,
        batch_size=settings.validation.batch_size,
    )
    try:
        for z, slab in slabs:
            predicted[z : z + len(slab)] = slab >= THRESHOLD
    except WindowError as error:
        raise DataError(f"{record.name}: cannot be validated: {error}") from error
    true, valid = label == SURFACE, label != IGNORE
    known = None if valid.all() else valid
    return {
        "dice": float(dice(predicted, true, known)),
        "surface_dice": float(surface_dice(predicted, true, settings.validation.surface_tolerance, known)),
        "cldice": float(cldice(predicted, true, known)),
    }
