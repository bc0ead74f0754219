"""A network trained on patches, applied to a whole volume: overlapping windows, each weighted towards its middle.

The volume goes by along z. Of the image and of the sums only one window's depth is held, whatever the volume's, and
every plane is read once.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor

from vtune.pipelines.unet3d.data.volumes import Triple

Floats: TypeAlias = npt.NDArray[np.float32]

# A voxel is a surface where the network says so with at least this probability.
THRESHOLD = 0.5

# Standard deviation of the weights, of the window's edge. A window sees nothing beyond its own border, so that what it
# says there counts little: 0.03 % of its middle.
DEVIATION = 1 / 8

# The planes from `first` to `stop`, whole, in the volume's own type.
ReadPlanes: TypeAlias = Callable[[int, int], npt.NDArray[Any]]
# Windows (batch, z, y, x) in the volume's own type → probabilities (batch, z, y, x), float32.
Segment: TypeAlias = Callable[[npt.NDArray[Any]], Tensor]


class WindowError(Exception):
    """A window does not fit into the volume; one sentence."""


def probability_slabs(
    read: ReadPlanes, size: Triple, segment: Segment, *, window: Triple, overlap: float, batch_size: int
) -> Iterator[tuple[int, Floats]]:
    """The first plane's z and the planes that are finished, from the top to the bottom. A slab is the caller's."""
    for axis, have, need in zip("zyx", size, window, strict=True):
        if have < need:
            raise WindowError(f"{have} voxels along {axis}, a patch has {need}")
    starts = [window_starts(have, need, overlap) for have, need in zip(size, window, strict=True)]
    weights = [window_weights(have, need, at) for have, need, at in zip(size, window, starts, strict=True)]
    columns = [
        (y, x, weight_y[:, None] * weight_x)
        for y, weight_y in zip(starts[1], weights[1], strict=True)
        for x, weight_x in zip(starts[2], weights[2], strict=True)
    ]
    depth, height, width = window
    # Both begin at the plane `top`.
    sums = np.zeros((depth, *size[1:]), np.float32)
    image = read(0, depth)
    for top, below, weight_z in zip(starts[0], [*starts[0][1:], size[0]], weights[0], strict=True):
        for begin in range(0, len(columns), batch_size):
            chosen = columns[begin : begin + batch_size]
            windows = np.stack([image[:, y : y + height, x : x + width] for y, x, _ in chosen])
            for (y, x, weight), probability in zip(chosen, segment(windows), strict=True):
                weighted = probability.cpu().numpy() * weight_z[:, None, None]
                weighted *= weight
                sums[:, y : y + height, x : x + width] += weighted

        # No later window reaches the planes above the next one's top.
        done = below - top
        yield top, sums[:done].copy()
        if below == size[0]:
            return
        sums[: depth - done] = sums[done:]
        sums[depth - done :] = 0
        image = np.concatenate([image[done:], read(top + depth, below + depth)])


def window_starts(edge: int, window: int, overlap: float) -> list[int]:
    """The fewest that overlap as much as asked, evenly spread, the last one flush with the edge."""
    stride = max(1.0, window * (1 - overlap))
    count = math.ceil((edge - window) / stride) + 1
    return [round(number * (edge - window) / max(1, count - 1)) for number in range(count)]


def window_weights(edge: int, window: int, starts: list[int]) -> list[Floats]:
    """Of each window along one axis, its share: at every place those of all windows together are 1.

    The windows are a grid and the bell is a product, hence so is the sum of all weights: three short arrays do what
    is usually a second volume of sums and a division.
    """
    place = np.arange(window) - (window - 1) / 2
    bell = np.exp(-0.5 * (place / (DEVIATION * window)) ** 2)
    total = np.zeros(edge)
    for start in starts:
        total[start : start + window] += bell
    return [(bell / total[start : start + window]).astype(np.float32) for start in starts]
