"""What a volume is to the training, wherever it is stored: an image, its labels, and boxes cut from both.

A voxel is named by z, y, x, in this order everywhere. Opening what is on disk is in data/stored.py.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Triple: TypeAlias = tuple[int, int, int]
Bytes3D: TypeAlias = npt.NDArray[np.uint8]
Floats: TypeAlias = npt.NDArray[np.float32]
# Of whatever type it is stored as.
Voxels: TypeAlias = npt.NDArray[Any]

# Labels as everything after the reading knows them, beside 0, which is neither. IGNORE: nobody knows, and no loss or
# metric looks there.
SURFACE, IGNORE = 1, 255


class DataError(Exception):
    """What is wrong with the data: `file: reason`, one line for each problem.

    It is made of one string, so that it comes out of a loader's worker as what it is: PyTorch raises the type anew,
    with the worker's whole traceback for a message.
    """

    @property
    def reason(self) -> str:
        """Its own words, without a worker's traceback around them."""
        text, kind = str(self), type(self)
        if not text.startswith("Caught "):
            return text
        return text.rpartition(f"\n{kind.__module__}.{kind.__qualname__}: ")[2].strip()


class MissingPackage(DataError):
    """What can only be read or written with a package that is not installed."""


class Block(NamedTuple):
    """A box of a volume."""

    image: Voxels  # as it is stored: data/intensity.py scales it
    label: Bytes3D  # 0, SURFACE or IGNORE


class Volume(Protocol):
    """One record, opened: make one, take what is needed, let it go."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> Triple: ...

    def read(self, corner: Triple, size: Triple) -> Block:
        """The box of `size` voxels at `corner`, which has to lie within the volume."""

    def chunk_label(self, voxel: Triple) -> tuple[Triple, Bytes3D]:
        """The labels of the chunk that holds a voxel, as far as they are within the volume, and the chunk's corner."""


class VoxelArray(Protocol):
    """An image or labels on disk, opened: its header is known to be right, its voxels are not yet read."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> Triple: ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of what `read` gives: in this machine's order of bytes."""

    def read(self, corner: Triple, size: Triple) -> Voxels:
        """A copy of a box, and of what is stored little more than that box."""

    def verify(self) -> None:
        """Raises DataError for what sizes of files can tell and opening was too hasty to ask."""


# Takes the slab of whole planes that begins at a z.
PutSlab: TypeAlias = Callable[[int, Voxels], None]


def check_box(corner: Triple, size: Triple, limits: Triple) -> None:
    for start, length, limit in zip(corner, size, limits, strict=True):
        if start < 0 or start + length > limit:
            raise ValueError(f"box of {size} at {corner} is not within a volume of {limits}")


def box_slices(corner: Triple, size: Triple) -> tuple[slice, slice, slice]:
    z, y, x = (slice(start, start + length) for start, length in zip(corner, size, strict=True))
    return z, y, x


def triple(values: Iterable[int]) -> Triple:
    z, y, x = values
    return z, y, x


def checked_size(path: str, shape: tuple[int, ...]) -> Triple:
    if len(shape) != 3 or min(shape) < 1:
        raise DataError(f"{path}: expected a volume with axes z, y, x, it is of shape {list(shape)}")
    return triple(int(edge) for edge in shape)


def checked_type(path: str, dtype: np.dtype[Any] | None) -> np.dtype[Any]:
    """In this machine's order of bytes, if it is a number for each voxel."""
    if dtype is None or dtype.kind not in "buif":
        raise DataError(f"{path}: expected integers or floats, it holds {dtype or 'an unknown type'}")
    return dtype.newbyteorder("=")


def words(error: BaseException) -> str:
    """An error of someone else's on one line, short."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    line = " ".join(text.split()) or type(error).__name__
    return line if len(line) <= 200 else line[:197] + "..."
