"""Volumes in zarr arrays (formats 2 and 3), or the finest level of a multiscale group such as OME-Zarr's."""

import contextlib
import math
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from vtune.pipelines.unet3d.data.optional import require
from vtune.pipelines.unet3d.data.volumes import (
    DataError,
    PutSlab,
    Triple,
    Voxels,
    box_slices,
    check_box,
    checked_size,
    checked_type,
    triple,
    words,
)
from vtune.pipelines.unet3d.data.writing import written

# By convention the name of the full resolution in a multiscale group.
FINEST_LEVEL = "0"
# A patch touches some dozens of chunks of this edge, and of each little that it does not need. At most: in equal parts,
# since a chunk at a volume's end is stored whole.
CHUNK_EDGE = 64
# Opened arrays that a process keeps, some ten kilobytes each: opening one takes longer than reading a small chunk.
KEPT_OPEN = 256
# Of formats 3 and 2, of an array and of a group.
METADATA = ("zarr.json", ".zarray", ".zgroup")


class ZarrArray:
    def __init__(self, path: str) -> None:
        self.path = path
        # By process, for what one has opened belongs to an event loop that its forks do not have.
        self._array = _opened(path, os.getpid(), _written(path))
        self.size = checked_size(path, self._array.shape)
        self.dtype = checked_type(path, self._array.dtype)

    def read(self, corner: Triple, size: Triple) -> Voxels:
        check_box(corner, size, self.size)
        try:
            box = self._array[box_slices(corner, size)]
        except Exception as error:  # of the store, of a codec, of the metadata: each has its own
            raise DataError(f"{self.path}: cannot be read at {list(corner)}: {words(error)}") from error
        return np.ascontiguousarray(box, self.dtype)

    def verify(self) -> None:
        """A chunk that is absent is empty by the format's rules; one that is damaged shows when it is decoded."""


@contextlib.contextmanager
def zarr_written(path: Path, size: Triple, dtype: np.dtype[Any], *, compress: bool) -> Iterator[PutSlab]:
    zarr = _package(f"writing {path}")
    with written(path) as partial:
        array = zarr.create_array(
            store=str(partial),
            shape=size,
            chunks=_chunks(size),
            dtype=dtype,
            compressors="auto" if compress else None,
            fill_value=0,
        )

        def put(z: int, slab: Voxels) -> None:
            array[z : z + len(slab)] = slab

        yield put


def _chunks(size: Triple) -> Triple:
    return triple(math.ceil(edge / math.ceil(edge / CHUNK_EDGE)) for edge in size)


def stored_voxels(size: Triple) -> int:
    """With what sticks out of the volume."""
    return math.prod(math.ceil(edge / chunk) * chunk for edge, chunk in zip(size, _chunks(size), strict=True))


def _written(path: str) -> tuple[int, ...]:
    """Another store in the same place is another array."""
    there = (os.path.join(path, name) for name in METADATA)
    return tuple(os.stat(name).st_mtime_ns for name in there if os.path.exists(name))


@lru_cache(maxsize=KEPT_OPEN)
def _opened(path: str, process: int, written: tuple[int, ...]) -> Any:
    zarr = _package(f"reading {path}")
    if not written:
        raise DataError(f"{path}: is no readable zarr array: it has none of {', '.join(METADATA)}")
    try:
        found = zarr.open(path, mode="r")
        if isinstance(found, zarr.Group) and FINEST_LEVEL in found:
            found = found[FINEST_LEVEL]
    except Exception as error:  # as above
        raise DataError(f"{path}: is no readable zarr array: {words(error)}") from error
    if isinstance(found, zarr.Group):
        raise DataError(f'{path}: is a zarr group without an array "{FINEST_LEVEL}"')
    return found


def _package(doing: str) -> Any:
    zarr = require("zarr", doing)
    # Loader workers are the parallelism; each with a pool of threads of its own would only take turns. And a pool
    # whose threads stayed behind in the process that forked would never answer.
    zarr.config.set({"threading.max_workers": 1})
    return zarr
