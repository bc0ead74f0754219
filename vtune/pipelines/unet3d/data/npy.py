"""Volumes in NumPy's .npy, mapped: a worker holds no more of a volume than it asked for."""

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from vtune.pipelines.unet3d.data.volumes import (
    DataError,
    PutSlab,
    Triple,
    Voxels,
    box_slices,
    check_box,
    checked_size,
    checked_type,
    words,
)
from vtune.pipelines.unet3d.data.writing import written


class NpyArray:
    def __init__(self, path: str) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                shape, fortran_order, stored_type = _header(file)
                offset = file.tell()
                file_bytes = os.fstat(file.fileno()).st_size
        except Exception as error:  # the header is a text in Python: numpy's reader of it raises all that Python's does
            raise DataError(f"{path}: is no readable .npy file: {words(error)}") from error
        self.size = checked_size(path, shape)
        self.dtype = checked_type(path, stored_type)
        needed = offset + math.prod(shape) * stored_type.itemsize
        if file_bytes < needed:
            raise DataError(f"{path}: is truncated: {file_bytes} of {needed} bytes are there")
        # Pages of the file and not of this process: they count for no worker, and the kernel may drop them.
        self._map: Voxels = np.memmap(
            path, stored_type, mode="r", offset=offset, shape=self.size, order="F" if fortran_order else "C"
        )

    def read(self, corner: Triple, size: Triple) -> Voxels:
        check_box(corner, size, self.size)
        return np.array(self._map[box_slices(corner, size)], dtype=self.dtype, order="C", copy=True, subok=False)

    def verify(self) -> None:
        """The header and the file's size have told everything."""


@contextlib.contextmanager
def npy_written(path: Path, size: Triple, dtype: np.dtype[Any]) -> Iterator[PutSlab]:
    with written(path) as partial, partial.open("wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": size}
        np.lib.format.write_array_header_1_0(file, header)
        start, plane_bytes = file.tell(), size[1] * size[2] * dtype.itemsize

        def put(z: int, slab: Voxels) -> None:
            file.seek(start + z * plane_bytes)
            file.write(np.ascontiguousarray(slab, dtype).data)

        yield put


def _header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(file)
    # Version 3 differs in the names of a record's fields only, and a voxel has no fields.
    raise ValueError(f"format {version[0]}.{version[1]} is not known")
