"""Volumes written as TIFF, plane by plane: one file, or a folder of slices."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from vtune.pipelines.unet3d.data.optional import require
from vtune.pipelines.unet3d.data.volumes import PutSlab, Triple, Voxels
from vtune.pipelines.unet3d.data.writing import written

# Of all that TIFF knows, what every reader of gray volumes can read.
COMPRESSION = "zlib"


@contextlib.contextmanager
def tiff_written(path: Path, size: Triple, dtype: np.dtype[Any], *, compress: bool) -> Iterator[PutSlab]:
    tifffile = require("tifffile", f"writing {path}")
    with written(path) as partial:
        write = _packed_into if compress else _raw_into
        with write(tifffile, partial, size, dtype) as put:
            yield put


@contextlib.contextmanager
def _raw_into(tifffile: Any, partial: Path, size: Triple, dtype: np.dtype[Any]) -> Iterator[PutSlab]:
    """One run of bytes. Written to and not mapped: a full disk is an error then, and not a signal that kills."""
    options = {"photometric": "minisblack", "metadata": {"axes": "ZYX"}}
    start, _ = tifffile.imwrite(partial, shape=size, dtype=dtype, returnoffset=True, **options)
    plane_bytes = size[1] * size[2] * dtype.itemsize
    with partial.open("r+b") as file:

        def put(z: int, slab: Voxels) -> None:
            file.seek(start + z * plane_bytes)
            file.write(np.ascontiguousarray(slab, dtype).data)

        yield put


@contextlib.contextmanager
def _packed_into(tifffile: Any, partial: Path, size: Triple, dtype: np.dtype[Any]) -> Iterator[PutSlab]:
    # Offsets of 32 bits end at 4 GB, and nobody knows beforehand how well it packs.
    big = size[0] * size[1] * size[2] * dtype.itemsize > 2**31
    with tifffile.TiffWriter(partial, bigtiff=big) as writer:
        planes = 0

        def put(z: int, slab: Voxels) -> None:
            nonlocal planes
            if z != planes:
                raise ValueError(f"compressed pages are written in their order: expected z {planes}, got {z}")
            for plane in slab:
                writer.write(
                    np.ascontiguousarray(plane, dtype), photometric="minisblack", compression=COMPRESSION, metadata=None
                )
            planes += len(slab)

        yield put


@contextlib.contextmanager
def tiff_stack_written(path: Path, size: Triple, dtype: np.dtype[Any], *, compress: bool) -> Iterator[PutSlab]:
    tifffile = require("tifffile", f"writing {path}")
    digits = len(str(size[0] - 1))
    with written(path) as partial:
        partial.mkdir()

        def put(z: int, slab: Voxels) -> None:
            for number, plane in enumerate(slab, start=z):
                tifffile.imwrite(
                    partial / f"{number:0{digits}d}.tif",
                    np.ascontiguousarray(plane, dtype),
                    photometric="minisblack",
                    compression=COMPRESSION if compress else None,
                    metadata=None,
                )

        yield put
