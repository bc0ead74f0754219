"""Rotation, scaling and elastic deformation in one interpolation: each further one would cost as much again and blur
the thin surfaces once more."""

import math
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from vtune.pipelines.unet3d.data.volumes import IGNORE, SURFACE, Bytes3D, Floats, Triple
from vtune.pipelines.unet3d.settings import AugmentationSettings

Lattice: TypeAlias = npt.NDArray[np.float64]
Indices: TypeAlias = npt.NDArray[np.intp]

# Voxels computed at once: their dozen of temporary arrays stay in a core's cache, and calls into NumPy stay rare.
SLAB_VOXELS = 2**15


def source_lattice(
    region_size: Triple, patch_size: Triple, settings: AugmentationSettings, rng: np.random.Generator
) -> Lattice:
    """Where in the region some voxels of the patch come from, (3, *coarse grid), the patch's corners among them.

    In between it is linear: exactly so for rotation and scaling, and a smooth deformation has no detail to draw.
    """
    matrix = _rotation(settings.rotation_degrees, rng) / rng.uniform(*settings.scale_range)
    nodes = [max(2, round(edge / settings.elastic_spacing) + 1) for edge in patch_size]
    bends = rng.uniform(-settings.elastic_voxels, settings.elastic_voxels, size=(3, *nodes))
    # From the patch's middle, which lies on the region's.
    reach = [(edge - 1) / 2 for edge in patch_size]
    offsets = np.meshgrid(*(np.linspace(-r, r, n) for r, n in zip(reach, nodes, strict=True)), indexing="ij")
    lattice: Lattice = bends
    for axis, edge in enumerate(region_size):
        lattice[axis] += (edge - 1) / 2 + sum(matrix[axis, i] * offset for i, offset in enumerate(offsets))
    return lattice


def resample(image: Floats, label: Bytes3D, lattice: Lattice, patch_size: Triple) -> tuple[Floats, Bytes3D]:
    """Trilinear. A voxel is surface where at least half of what is known around its place is, and ignored where the
    nearest voxel is.

    The corners of a turned patch that lie outside of the region show its mirror image: sheets go on, label and image
    agree.
    """
    region_size = image.shape
    intensities = np.ascontiguousarray(image).reshape(-1)
    surface = np.equal(label, SURFACE).astype(np.float32).reshape(-1)
    ignored = np.equal(label, IGNORE).reshape(-1)
    has_ignored = bool(ignored.any())
    if has_ignored:
        # One half weighs for neither side, or the rim of what is ignored would all become background.
        surface[ignored] = 0.5
    # What is linear in between is nowhere farther out than at the lattice's own points.
    beyond = [axis.min() < 0 or axis.max() > edge - 1 for axis, edge in zip(lattice, region_size, strict=True)]
    far_y, far_z = region_size[2], region_size[1] * region_size[2]

    moved_image, moved_label = np.empty(patch_size, np.float32), np.empty(patch_size, np.uint8)
    for slab, places in _slabs(lattice, patch_size):
        cells, shares = [], []
        for place, edge, mirrored in zip(places, region_size, beyond, strict=True):
            cell, share = _cell(_mirror(place, edge) if mirrored else place, edge)
            cells.append(cell)
            shares.append(share)
        corner = (cells[0] * far_z + cells[1] * far_y) + cells[2]
        moved_image[slab] = _interpolate(intensities, corner, shares, far_y, far_z)
        moved_label[slab] = _interpolate(surface, corner, shares, far_y, far_z) >= 0.5
        if has_ignored:
            upper_z, upper_y, upper_x = (share >= 0.5 for share in shares)
            nearest = corner + upper_z * far_z + upper_y * far_y + upper_x
            moved_label[slab][ignored[nearest]] = IGNORE
    return moved_image, moved_label


def _rotation(limit_degrees: float, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    matrix = np.eye(3)
    for axis, angle in enumerate(np.radians(rng.uniform(-limit_degrees, limit_degrees, size=3))):
        turn = np.eye(3)
        a, b = [i for i in range(3) if i != axis]
        turn[a, a] = turn[b, b] = math.cos(angle)
        turn[a, b], turn[b, a] = -math.sin(angle), math.sin(angle)
        matrix = matrix @ turn
    return matrix


def _slabs(lattice: Lattice, patch_size: Triple) -> Iterator[tuple[slice, Floats]]:
    """Some planes of the patch at a time, and where their voxels come from: (3, planes, height, width)."""
    depth, height, width = patch_size
    # Along y and x for the lattice's few planes only; between two of those a plane is one multiplication away.
    sparse = _stretch(_stretch(lattice, 2, height), 3, width)
    planes, steps = sparse.astype(np.float32), np.diff(sparse, axis=1).astype(np.float32)
    position = np.linspace(0, lattice.shape[1] - 1, depth)
    below = np.minimum(position.astype(int), lattice.shape[1] - 2)
    share = (position - below).astype(np.float32)
    count = max(1, SLAB_VOXELS // (height * width))
    for start in range(0, depth, count):
        slab = slice(start, min(start + count, depth))
        places = np.empty((3, slab.stop - start, height, width), np.float32)
        for i, z in enumerate(range(start, slab.stop)):
            np.multiply(steps[:, below[z]], share[z], out=places[:, i])
            places[:, i] += planes[:, below[z]]
        yield slab, places


def _stretch(lattice: Lattice, axis: int, length: int) -> Lattice:
    position = np.linspace(0, lattice.shape[axis] - 1, length)
    below = np.minimum(position.astype(int), lattice.shape[axis] - 2)
    share = (position - below).reshape([-1 if i == axis else 1 for i in range(4)])
    low, high = lattice.take(below, axis), lattice.take(below + 1, axis)
    wide: Lattice = low + (high - low) * share
    return wide


def _mirror(place: Floats, edge: int) -> Floats:
    """Folded back at the middles of the first and the last voxel, as often as it takes. In place."""
    last = np.float32(edge - 1)
    turns = place * np.float32(0.5 / last)
    np.floor(turns, out=turns)
    turns *= 2 * last
    place -= turns
    place -= last
    np.abs(place, out=place)
    return np.subtract(last, place, out=place)


def _cell(place: Floats, edge: int) -> tuple[Indices, Floats]:
    """The voxel below and the share of the one above; on the last voxel, all of the one above. In place."""
    np.maximum(place, 0, out=place)
    cell = np.floor(place)
    np.minimum(cell, edge - 2, out=cell)
    place -= cell
    return cell.astype(np.intp), place


def _interpolate(values: Floats, corner: Indices, shares: list[Floats], far_y: int, far_z: int) -> Floats:
    lines = []
    for far in (0, far_y, far_z, far_z + far_y):
        low, high = values[far:].take(corner), values[far + 1 :].take(corner)
        lines.append(_towards(low, high, shares[2]))
    return _towards(_towards(lines[0], lines[1], shares[1]), _towards(lines[2], lines[3], shares[1]), shares[0])


def _towards(low: Floats, high: Floats, share: Floats) -> Floats:
    """In place of both."""
    high -= low
    high *= share
    low += high
    return low
