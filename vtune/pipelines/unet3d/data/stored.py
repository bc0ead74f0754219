"""Volumes on disk, told apart by the ends of their names, and a record's two of them as one volume."""

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from vtune.pipelines.unet3d.data.npy import NpyArray, npy_written
from vtune.pipelines.unet3d.data.tiff import SUFFIXES as TIFF
from vtune.pipelines.unet3d.data.tiff import TiffArray, TiffStack, is_slice
from vtune.pipelines.unet3d.data.tiff_writing import tiff_stack_written, tiff_written
from vtune.pipelines.unet3d.data.volumes import (
    IGNORE,
    SURFACE,
    Block,
    Bytes3D,
    DataError,
    PutSlab,
    Triple,
    VoxelArray,
    Voxels,
    triple,
    words,
)
from vtune.pipelines.unet3d.data.zarr_store import ZarrArray, zarr_written

NPY, ZARR = ".npy", ".zarr"
KNOWN = f"{NPY}, {', '.join(TIFF)}, {ZARR} or a folder of TIFF slices"
# Before a suffix, and no part of the name.
OME = ".ome"


def open_image(path: str | Path) -> VoxelArray:
    """An image or labels. DataError if it is no volume that can be read."""
    name, ending = os.fspath(path), ending_of(path)
    if not os.path.exists(name):
        raise DataError(f"{name}: no such file or folder")
    if not os.path.isdir(name) and not os.path.isfile(name):
        raise DataError(f"{name}: is no regular file")
    if ending == NPY:
        return NpyArray(name)
    if ending == ZARR:
        return ZarrArray(name)
    if os.path.isdir(name):
        return TiffStack(name)
    if ending in TIFF:
        return TiffArray(name)
    raise DataError(f"{name}: expected {KNOWN}")


def write_image(
    path: Path, size: Triple, dtype: np.dtype[Any], *, compress: bool = False
) -> AbstractContextManager[PutSlab]:
    """The file or folder is whole when the `with` block ends well, and absent otherwise. Without a suffix: slices."""
    ending = ending_of(path)
    if ending == NPY:
        return npy_written(path, size, dtype)
    if ending == ZARR:
        return zarr_written(path, size, dtype, compress=compress)
    if ending in TIFF:
        return tiff_written(path, size, dtype, compress=compress)
    if ending == "":
        return tiff_stack_written(path, size, dtype, compress=compress)
    raise DataError(f"{path}: expected {KNOWN}")


def ending_of(path: str | Path) -> str:
    return os.path.splitext(os.fspath(path))[1].lower()


def list_volumes(folder: str) -> dict[str, list[str]]:
    """Paths of what looks like a volume, by the name that pairs an image with its labels."""
    found: dict[str, list[str]] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(".") or not _looks_like_a_volume(entry):
                    continue
                if not entry.name.isprintable():
                    raise DataError(f"{folder}: holds a name with control characters, {entry.name!r}")
                found.setdefault(_stem(entry), []).append(os.path.join(folder, entry.name))
    except OSError as error:
        raise DataError(f"{folder}: cannot be read: {words(error)}") from error
    return {stem: sorted(found[stem]) for stem in sorted(found)}


def _looks_like_a_volume(entry: os.DirEntry[str]) -> bool:
    ending = ending_of(entry.name)
    if not entry.is_dir():
        return ending == NPY or ending in TIFF
    # The first name that is a slice's is enough: a folder may hold thousands.
    return ending == ZARR or any(is_slice(name) for name in os.listdir(entry.path))


def _stem(entry: os.DirEntry[str]) -> str:
    if entry.is_dir() and ending_of(entry.name) != ZARR:
        return entry.name
    return os.path.splitext(entry.name)[0].removesuffix(OME)


class StoredVolume:
    """An image and its labels. Surfaces are looked for in chunks of the given size, whatever the format's own are: the
    same volumes in another format give the same samples."""

    def __init__(self, *, name: str, image: str, label: str, chunk: Triple, ignore_label: int | None) -> None:
        self.name = name
        self._image, self._label = open_image(image), open_image(label)
        self._chunk = chunk
        self._ignore_label = ignore_label
        self.size = self._image.size
        if self._label.size != self.size:
            sizes = [" × ".join(map(str, array.size)) for array in (self._label, self._image)]
            raise DataError(f"{label}: has {sizes[0]} voxels, its image {image} has {sizes[1]}")
        if self._label.dtype.kind == "f":
            raise DataError(f"{label}: expected integers as labels, it holds {self._label.dtype}")
        if self._image.dtype.kind == "b":
            raise DataError(f"{image}: expected integers or floats as intensities, it holds bool")

    @property
    def image_type(self) -> np.dtype[Any]:
        return self._image.dtype

    def read(self, corner: Triple, size: Triple) -> Block:
        image = self._image.read(corner, size)
        if image.dtype.kind == "f" and not np.isfinite(image).all():
            place = _place(~np.isfinite(image), corner)
            raise DataError(f"{self._image.path}: holds an intensity that is no number{place}")
        return Block(image, self._read_label(corner, size))

    def chunk_label(self, voxel: Triple) -> tuple[Triple, Bytes3D]:
        origin = triple(place // edge * edge for place, edge in zip(voxel, self._chunk, strict=True))
        size = triple(
            min(edge, limit - start) for start, edge, limit in zip(origin, self._chunk, self.size, strict=True)
        )
        return origin, self._read_label(origin, size)

    def verify(self) -> None:
        self._image.verify()
        self._label.verify()
        if isinstance(self._image, TiffStack) and isinstance(self._label, TiffStack):
            image, label = self._image.ends(), self._label.ends()
            if image.numbers and label.numbers and image.numbers != label.numbers:
                raise DataError(
                    f"{self._label.path}: its slices are {label.first} to {label.last}, "
                    f"its image's are {image.first} to {image.last}"
                )

    def _read_label(self, corner: Triple, size: Triple) -> Bytes3D:
        stored = self._label.read(corner, size)
        if stored.dtype == bool:
            # A byte of a file may be any number that is not 0.
            is_surface: Voxels = stored.view(np.uint8) != 0
            return is_surface.astype(np.uint8)
        # One pass and no temporary array, for what almost every box is: no other than the two classes.
        if stored.dtype == np.uint8 and int(stored.max()) <= SURFACE:
            return stored
        surface, ignored = stored == SURFACE, np.zeros_like(stored, dtype=bool)
        if self._ignore_label is not None:
            ignored = stored == self._ignore_label
        foreign = ~(surface | ignored | (stored == 0))
        if foreign.any():
            found = int(stored[foreign][0])
            expected = "0, 1"
            if self._ignore_label is not None:
                expected += f" and {self._ignore_label} to ignore (data.ignore_label)"
            elif 1 < found < 256:
                expected += f": set data.ignore_label: {found} if nobody knows what such voxels are"
            raise DataError(f"{self._label.path}: holds label {found}{_place(foreign, corner)}, expected {expected}")
        label: Bytes3D = surface.view(np.uint8)
        label[ignored] = IGNORE
        return label


def _place(where: Voxels, corner: Triple) -> str:
    z, y, x = (int(axis[0]) + start for axis, start in zip(where.nonzero(), corner, strict=True))
    return f" at z {z}, y {y}, x {x}"
