"""What a segmentation is worth, of boolean volumes: Dice, surface Dice and clDice.

Volumes are looked at in slabs along z, each with as much of its neighbours as its numbers depend on: the result is
that of whole volumes, which may be memory-mapped and larger than memory. Where `valid` is false nothing counts.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from vtune.pipelines.unet3d.losses.skeleton import morphological_skeleton
from vtune.pipelines.unet3d.losses.surface import distance_to

Bools: TypeAlias = npt.NDArray[np.bool_]

# A slab's voxels: what is computed of them takes some 20 MB, and Python's share of the time is none.
SLAB_VOXELS = 2**20
# A skeleton is found in what is thinner than twice this; sheets are, and the core of a thicker blob is its skeleton.
SKELETON_EROSIONS = 8


def dice(predicted: Bools, true: Bools, valid: Bools | None = None) -> float:
    """Twice the overlap, of both volumes together; 1 if both are empty."""
    overlap = total = 0
    for slab in _slabs(predicted, true, valid, halo=0):
        overlap += _count(slab.predicted & slab.true)
        total += _count(slab.predicted) + _count(slab.true)
    return 2 * overlap / total if total else 1.0


def surface_dice(predicted: Bools, true: Bools, tolerance_voxels: float, valid: Bools | None = None) -> float:
    """The share of both boundaries that lies within the tolerance of the other one (Nikolov et al. 2018); 1 if both are
    empty.

    A boundary is the voxels of a volume one of whose six neighbours is not in it, or outside of everything.
    """
    near = total = 0
    # A slab's cut looks like a boundary; one plane more, and it is too far off to count.
    for slab in _slabs(predicted, true, valid, halo=math.ceil(tolerance_voxels) + 1):
        boundaries = [_boundary(volume) for volume in (slab.predicted, slab.true)]
        for one, other in (boundaries, boundaries[::-1]):
            here = one[slab.own]
            is_near = distance_to(other, cap=tolerance_voxels + 1)[slab.own] <= tolerance_voxels
            near += _count(here & is_near)
            total += _count(here)
    return near / total if total else 1.0


def cldice(predicted: Bools, true: Bools, valid: Bools | None = None) -> float:
    """The harmonic mean of the share of the predicted skeleton within the true volume, and the other way round (Shit et
    al. 2021); 1 if both are empty.

    By morphological skeletons: those of sheets are sheets, where a thinning to curves would leave next to nothing.
    """
    hits, totals = [0, 0], [0, 0]
    for slab in _slabs(predicted, true, valid, halo=SKELETON_EROSIONS + 1):
        volumes = (slab.predicted, slab.true)
        for i, (one, other) in enumerate((volumes, volumes[::-1])):
            skeleton = morphological_skeleton(torch.from_numpy(one), SKELETON_EROSIONS).numpy()[slab.own]
            hits[i] += _count(skeleton & other[slab.own])
            totals[i] += _count(skeleton)
    if not all(totals):
        return 0.0 if any(totals) else 1.0
    precision, sensitivity = (hit / total for hit, total in zip(hits, totals, strict=True))
    return 2 * precision * sensitivity / (precision + sensitivity) if precision + sensitivity else 0.0


class _Slab(NamedTuple):
    """Own copies of some planes, without what is not valid."""

    predicted: Bools
    true: Bools
    own: slice  # the planes that are this slab's; the others are its neighbours'


def _slabs(predicted: Bools, true: Bools, valid: Bools | None, *, halo: int) -> Iterator[_Slab]:
    depth, height, width = predicted.shape
    if true.shape != predicted.shape or (valid is not None and valid.shape != predicted.shape):
        raise ValueError(f"volumes of different shapes: {predicted.shape}, {true.shape}")
    # Of large planes, at least as many as come with them from the neighbours.
    planes = max(1, 2 * halo, SLAB_VOXELS // max(1, height * width))
    for start in range(0, depth, planes):
        stop = min(start + planes, depth)
        first, last = max(0, start - halo), min(depth, stop + halo)
        volumes = [np.array(volume[first:last], dtype=np.bool_) for volume in (predicted, true)]
        if valid is not None:
            for volume in volumes:
                volume &= valid[first:last]
        yield _Slab(volumes[0], volumes[1], slice(start - first, stop - first))


def _boundary(volume: Bools) -> Bools:
    inner = np.zeros_like(volume)
    inner[1:-1, 1:-1, 1:-1] = volume[1:-1, 1:-1, 1:-1]
    for axis in range(3):
        # Each voxel's neighbours along this axis, of which those at the edge have one only and are out already.
        ahead, behind = np.moveaxis(inner, axis, 0), np.moveaxis(volume, axis, 0)
        ahead[1:-1] &= behind[:-2]
        ahead[1:-1] &= behind[2:]
    found: Bools = volume & ~inner
    return found


def _count(volume: Bools) -> int:
    return int(np.count_nonzero(volume))
