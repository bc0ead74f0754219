"""What a segmentation is worth: Dice, surface Dice and clDice, of two boolean volumes that go by along z."""

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from vtune.pipelines.unet3d.distance import distance_to
from vtune.pipelines.unet3d.morphology import morphological_skeleton

Bools: TypeAlias = npt.NDArray[np.bool_]

# A slab's voxels: what is computed of them takes some 20 MB, and Python's share of the time is none.
SLAB_VOXELS = 2**20
# A skeleton is found in what is thinner than twice this; sheets are, and the core of a thicker blob is its skeleton.
SKELETON_EROSIONS = 8


class Comparison:
    """Planes are added from the top to the bottom, as many at once as there happen to be, and counted in slabs, each
    with as much of its neighbours as its numbers depend on. So they are those of whole volumes, of which hardly more
    than one slab is held. Where `valid` is false nothing counts.

    Both volumes empty: everything is 1.
    """

    def __init__(self, *, tolerance_voxels: float) -> None:
        self._tolerance = tolerance_voxels
        # A slab's cut looks like a boundary; one plane more, and it is too far off to count.
        self._surface_halo = math.ceil(tolerance_voxels) + 1
        self._halo = max(self._surface_halo, SKELETON_EROSIONS + 1)
        self._dice = _Share()
        self._surface_dice = _Share()
        self._precision, self._sensitivity = _Share(), _Share()
        # Of both volumes, the planes that are not counted yet, and before them those that the next slab needs to see.
        self._planes: list[Bools] | None = None
        self._counted = 0

    def add(self, predicted: Bools, true: Bools, valid: Bools | None = None) -> None:
        if true.shape != predicted.shape or (valid is not None and valid.shape != predicted.shape):
            raise ValueError(f"volumes of different shapes: {predicted.shape}, {true.shape}")
        new = [volume if valid is None else volume & valid for volume in (predicted, true)]
        held = self._planes or [volume[:0] for volume in new]
        self._planes = [np.concatenate(both) for both in zip(held, new, strict=True)]
        # Of large planes, at least as many as come with them from the neighbours.
        slab = max(2 * self._halo, SLAB_VOXELS // max(1, math.prod(predicted.shape[1:])))
        while len(self._planes[0]) >= self._counted + slab + self._halo:
            self._count(slab)

    def scores(self) -> dict[str, float]:
        """Of all that was added: there is no plane behind the last."""
        if self._planes is not None:
            self._count(len(self._planes[0]) - self._counted)
        precision, sensitivity = self._precision.value(), self._sensitivity.value()
        if precision is None or sensitivity is None:
            # All of what is there is missed, if anything is.
            cldice = 1.0 if precision == sensitivity else 0.0
        else:
            both = precision + sensitivity
            cldice = 2 * precision * sensitivity / both if both else 0.0
        scores = {"dice": self._dice.value(), "surface_dice": self._surface_dice.value(), "cldice": cldice}
        return {name: 1.0 if value is None else value for name, value in scores.items()}

    def _count(self, planes: int) -> None:
        assert self._planes is not None
        begin, end = self._counted, self._counted + planes
        self._count_voxels(*(volume[begin:end] for volume in self._planes))
        self._count_boundaries(*self._around(begin, end, self._surface_halo))
        self._count_skeletons(*self._around(begin, end, SKELETON_EROSIONS + 1))
        kept = max(0, end - self._halo)
        # Copies: a view would keep all of it.
        self._planes = [volume[kept:].copy() for volume in self._planes]
        self._counted = end - kept

    def _around(self, begin: int, end: int, halo: int) -> tuple[Bools, Bools, slice]:
        """Both volumes there, and which of those planes are to be counted."""
        assert self._planes is not None
        first = max(0, begin - halo)
        predicted, true = (volume[first : end + halo] for volume in self._planes)
        return predicted, true, slice(begin - first, end - first)

    def _count_voxels(self, predicted: Bools, true: Bools) -> None:
        """Twice the overlap, of both volumes together."""
        self._dice.add(2 * _number(predicted & true), _number(predicted) + _number(true))

    def _count_boundaries(self, predicted: Bools, true: Bools, own: slice) -> None:
        """The share of both boundaries that lies within the tolerance of the other one (Nikolov et al. 2018).

        A boundary is the voxels of a volume one of whose six neighbours is not in it, or outside of everything.
        """
        boundaries = [_boundary(volume) for volume in (predicted, true)]
        for one, other in (boundaries, boundaries[::-1]):
            here = one[own]
            is_near = distance_to(other, cap=self._tolerance + 1)[own] <= self._tolerance
            self._surface_dice.add(_number(here & is_near), _number(here))

    def _count_skeletons(self, predicted: Bools, true: Bools, own: slice) -> None:
        """For clDice the share of the predicted skeleton within the true volume, and the other way round (Shit et al.
        2021), of which it is the harmonic mean.

        By morphological skeletons: those of sheets are sheets, where a thinning to curves would leave next to nothing.
        """
        for share, one, other in ((self._precision, predicted, true), (self._sensitivity, true, predicted)):
            skeleton = morphological_skeleton(torch.from_numpy(one), SKELETON_EROSIONS).numpy()[own]
            share.add(_number(skeleton & other[own]), _number(skeleton))


class _Share:
    def __init__(self) -> None:
        self._part = self._whole = 0

    def add(self, part: int, whole: int) -> None:
        self._part += part
        self._whole += whole

    def value(self) -> float | None:
        """None where there is nothing to have a share of."""
        return self._part / self._whole if self._whole else None


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


def _number(volume: Bools) -> int:
    return int(np.count_nonzero(volume))
