"""Synthetic CT volumes of rolled papyrus: computed where they are read, stored nowhere.

Every voxel is a pure function of (seed, record, coordinates): any number of processes may read any part of any
volume in any order and get the same bytes. Like a compressed volume, a virtual one is only read in whole chunks, so
a patch costs every chunk that it touches; one chunk as large as the volume is a TIFF that is decompressed whole.
"""

import itertools
import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from vtune.pipelines.unet3d.data.volumes import Block, Bytes3D, Floats, Triple, check_box, triple
from vtune.pipelines.unet3d.settings import Faces, Layers

Hashes: TypeAlias = npt.NDArray[np.uint32]

# Spacing of two windings and thickness of a sheet in voxels, about those of a scroll scanned at 8 µm.
PITCH_RANGE = (14.0, 24.0)
THICKNESS_RANGE = (5.0, 8.0)
# The label is a face of a sheet, this many voxels to either side: thin, but not lost when it is resampled.
SURFACE_HALF_WIDTH = 1.2
# Sheets are crushed: waves of half a winding over some three windings still keep neighbours apart.
WAVE_SPACING = 56
WAVE_SHARE_OF_PITCH = 0.5
# Holes in the sheet: where a smooth field in [-1, 1] exceeds this, about a tenth of the papyrus.
GAP_SPACING = 28
GAP_THRESHOLD = 0.38
# Intensities of 8 bit: air between the sheets, papyrus with its fibres (longer along z) and speckles, scanner noise.
AIR, PAPYRUS = 50.0, 150.0
FIBRE_SPACING, FIBRE_CONTRAST = (14, 3, 3), 28.0
# The inner layer's strips run around the roll, and are of a coarser pith: darker by so much.
CROSSED_SPACING, CROSSED_DARKER = (3, 14, 14), 40.0
SPECKLE_SPACING, SPECKLE_CONTRAST = (5, 5, 5), 18.0
NOISE_DEVIATION = 16.0

# Voxels computed at once: a few temporary arrays of so many stay in the cache, and a worker small.
SLAB_VOXELS = 2**17

# Domains of the hash: one field's values say nothing about another's.
WAVE, GAP, FIBRE, SPECKLE, NOISE, CROSSED = range(1, 7)


def scroll_name(record: int) -> str:
    """As wide for every record: names in the order of the alphabet are in the order of the records."""
    return f"scroll_{record:05d}"


class VirtualScroll:
    """One record: a cube cut from a scroll, whose axis may run through it or beside it.

    It keeps the chunks that the last box touched, as an open file does: a neighbouring box needs some of them again.
    """

    def __init__(
        self,
        *,
        seed: int,
        record: int,
        size: Triple,
        chunk: Triple,
        faces: Faces = "outer",
        layers: Layers = "alike",
    ) -> None:
        self.name = scroll_name(record)
        self.size = size
        self._chunk = chunk
        self._faces = faces
        self._layers = layers
        rng = np.random.default_rng([seed, record])
        self._pitch = rng.uniform(*PITCH_RANGE)
        self._thickness = rng.uniform(*THICKNESS_RANGE)
        _, height, width = size
        # Half a volume outside of it at most: near the axis sheets are coiled, far from it they are almost flat.
        self._axis_y = rng.uniform(-0.5 * height, 1.5 * height)
        self._axis_x = rng.uniform(-0.5 * width, 1.5 * width)
        self._slant_y, self._slant_x = rng.uniform(-0.2, 0.2, size=2)
        self._hash_seed = int(rng.integers(2**32))
        self._chunks: dict[Triple, Block] = {}

    def read(self, corner: Triple, size: Triple) -> Block:
        """The box of `size` voxels at `corner`, which has to lie within the volume."""
        check_box(corner, size, self.size)
        block = Block(np.empty(size, np.uint8), np.empty(size, np.uint8))
        touched = (
            range(start // edge, (start + length - 1) // edge + 1)
            for start, length, edge in zip(corner, size, self._chunk, strict=True)
        )
        kept: dict[Triple, Block] = {}
        for index in itertools.product(*touched):
            origin = triple(i * edge for i, edge in zip(index, self._chunk, strict=True))
            chunk = kept[origin] = self._read_chunk(origin)
            target, source = [], []
            for start, length, first, edge in zip(corner, size, origin, self._chunk, strict=True):
                low, high = max(start, first), min(start + length, first + edge)
                target.append(slice(low - start, high - start))
                source.append(slice(low - first, high - first))
            block.image[tuple(target)] = chunk.image[tuple(source)]
            block.label[tuple(target)] = chunk.label[tuple(source)]
        self._chunks = kept
        return block

    def chunk_label(self, voxel: Triple) -> tuple[Triple, Bytes3D]:
        """The labels of the chunk that holds a voxel, as far as they are within the volume, and the chunk's corner."""
        origin = triple(place // edge * edge for place, edge in zip(voxel, self._chunk, strict=True))
        inside = tuple(slice(limit - start) for start, limit in zip(origin, self.size, strict=True))
        return origin, self._read_chunk(origin).label[inside]

    def _read_chunk(self, origin: Triple) -> Block:
        if origin not in self._chunks:
            depth, height, width = self._chunk
            chunk = Block(np.empty(self._chunk, np.uint8), np.empty(self._chunk, np.uint8))
            slab = max(1, SLAB_VOXELS // (height * width))
            for start in range(0, depth, slab):
                planes = slice(start, min(start + slab, depth))
                place = (origin[0] + start, origin[1], origin[2])
                chunk.image[planes], chunk.label[planes] = self._compute(place, (planes.stop - start, height, width))
            self._chunks[origin] = chunk
        return self._chunks[origin]

    def _compute(self, origin: Triple, size: Triple) -> Block:
        z, y, x = (
            np.arange(start, start + length, dtype=np.float32) for start, length in zip(origin, size, strict=True)
        )
        # An Archimedean spiral around a slanted axis: the winding number grows by one with every pitch outwards
        # and with every turn, and there is papyrus where it is a whole number.
        dy = (y[None, :, None] - np.float32(self._axis_y)) - np.float32(self._slant_y) * z[:, None, None]
        dx = (x[None, None, :] - np.float32(self._axis_x)) - np.float32(self._slant_x) * z[:, None, None]
        wave = self._smooth_field(WAVE, origin, size, (WAVE_SPACING,) * 3)
        winding = np.sqrt(dy * dy + dx * dx)
        winding += wave * np.float32(WAVE_SHARE_OF_PITCH * self._pitch)
        winding *= np.float32(1 / self._pitch)
        winding -= np.arctan2(dy, dx) * np.float32(0.5 / math.pi)
        outwards = (winding - np.rint(winding)) * np.float32(self._pitch)

        # 1 in whole papyrus, falling to 0 at a hole's rim, over some voxels.
        whole = GAP_THRESHOLD - self._smooth_field(GAP, origin, size, (GAP_SPACING,) * 3)
        whole = np.clip(whole * np.float32(GAP_SPACING / 3), 0, 1)
        half = np.float32(self._thickness / 2)
        sheet = np.clip(half + np.float32(0.5) - np.abs(outwards), 0, 1) * whole
        from_middle = outwards if self._faces == "outer" else np.abs(outwards)
        label = (np.abs(from_middle - half) <= SURFACE_HALF_WIDTH) & (whole >= 0.5)

        papyrus = self._smooth_field(FIBRE, origin, size, FIBRE_SPACING) * np.float32(FIBRE_CONTRAST)
        if self._layers == "crossed":
            crossed = self._smooth_field(CROSSED, origin, size, CROSSED_SPACING) * np.float32(FIBRE_CONTRAST)
            crossed -= np.float32(CROSSED_DARKER)
            np.copyto(papyrus, crossed, where=outwards < 0)
        papyrus += self._smooth_field(SPECKLE, origin, size, SPECKLE_SPACING) * np.float32(SPECKLE_CONTRAST)
        papyrus += np.float32(PAPYRUS - AIR)
        image = papyrus * sheet
        image += self._white_noise(origin, size)
        image += np.float32(AIR)
        return Block(np.clip(image, 0, 255).astype(np.uint8), label.astype(np.uint8))

    def _smooth_field(self, domain: int, origin: Triple, size: Triple, spacing: Triple) -> Floats:
        """Values in [-1, 1] on a coarse lattice, interpolated in between."""
        axes, places = [], []
        for start, length, step in zip(origin, size, spacing, strict=True):
            position = np.arange(start, start + length, dtype=np.float32) / np.float32(step)
            cell = np.floor(position)
            axes.append(np.arange(int(cell[0]), int(cell[-1]) + 2))
            share = position - cell
            places.append(((cell - cell[0]).astype(np.intp), share * share * (3 - 2 * share)))
        hashes = _hash_grid(self._hash_seed + domain, axes)
        field: Floats = hashes.astype(np.float32) * np.float32(2 / 2**32) - np.float32(1)
        # Axis by axis, the last one on the whole box; by slices rather than by a matrix product, since BLAS would
        # start threads in every loader worker.
        for axis, (cell_index, share) in enumerate(places):
            low = np.take(field, cell_index, axis=axis)
            field = np.take(field, cell_index + 1, axis=axis)
            field -= low
            field *= share.reshape([-1 if i == axis else 1 for i in range(3)])
            field += low
        return field

    def _white_noise(self, origin: Triple, size: Triple) -> Floats:
        axes = [np.arange(start, start + length) for start, length in zip(origin, size, strict=True)]
        hashes = _hash_grid(self._hash_seed + NOISE, axes)
        # The four bytes of one hash added up are nearly normal, at a fraction of Box-Muller's price.
        noise: Floats = hashes.view(np.uint8).reshape(*size, 4).sum(axis=-1, dtype=np.uint16).astype(np.float32)
        mean, deviation = 4 * 127.5, math.sqrt(4 * (256**2 - 1) / 12)
        noise -= np.float32(mean)
        noise *= np.float32(NOISE_DEVIATION / deviation)
        return noise


def _hash_grid(seed: int, axes: list[npt.NDArray[np.int64]]) -> Hashes:
    """A 32-bit hash for every point of a grid, mixed axis by axis, so that only the last mixing is of full size."""
    primes = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)  # xxHash's
    state: Hashes = np.array([seed & 0xFFFFFFFF], dtype=np.uint32)
    for axis, prime in zip(axes, primes, strict=True):
        state = state[..., None] + axis.astype(np.uint32) * np.uint32(prime)
        _scramble(state)
    grid: Hashes = state[0]
    return grid


def _scramble(state: Hashes) -> None:
    """The finalizer of MurmurHash3, in place."""
    state ^= state >> np.uint32(16)
    state *= np.uint32(0x85EBCA6B)
    state ^= state >> np.uint32(13)
    state *= np.uint32(0xC2B2AE35)
    state ^= state >> np.uint32(16)
