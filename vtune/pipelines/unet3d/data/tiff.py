"""Volumes in TIFF: one file of many pages, or a folder of slices.

Of each page that a box touches only the rows, or the compressed strips or tiles, that it needs are read. tifffile
parses and decodes; the reading is ours, because opening a slice takes ten times as long as getting its rows.
"""

import contextlib
import itertools
import logging
import math
import os
import re
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vtune.pipelines.unet3d.data.optional import require
from vtune.pipelines.unet3d.data.volumes import (
    DataError,
    Triple,
    Voxels,
    check_box,
    checked_size,
    checked_type,
    words,
)

SUFFIXES = (".tif", ".tiff")

# Parsing a header takes about as long as reading a patch, and is not done for each patch anew. Those of a thousand
# volumes are some ten megabytes, unless each row is a strip of its own.
KEPT_HEADER_BYTES = 32 * 2**20
# Folders whose lists of names a process keeps.
KEPT_STACKS = 64
# A slice's bytes that are not pixels are compared with the first slice's, if they are so few.
COMPARED_BYTES = 2**16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pages:
    """How the pixels of a file's pages, all alike, lie in it."""

    path: str
    size: Triple
    stored_type: np.dtype[Any]
    file_bytes: int
    # (pages, segments): one run of bytes a page if raw, else a strip or tile each.
    offsets: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    segment: tuple[int, int]
    decode: Callable[..., Any] | None
    decode_options: dict[str, Any]

    @property
    def raw(self) -> bool:
        return self.decode is None

    @property
    def places_bytes(self) -> int:
        return self.offsets.nbytes + self.counts.nbytes

    def read(self, out: Voxels, file: int, page: int, top: int, left: int) -> None:
        """Fills `out` with the rows and columns of a page that begin at `top` and `left`."""
        if self.decode is None:
            rows, columns = out.shape
            row_bytes = self.size[2] * self.stored_type.itemsize
            run = self._bytes(file, int(self.offsets[page, 0]) + top * row_bytes, rows * row_bytes)
            out[:] = np.frombuffer(run, self.stored_type).reshape(rows, -1)[:, left : left + columns]
            return
        for segment, first_row, first_column in self._touched(out.shape, top, left):
            count = int(self.counts[page, segment])
            packed = self._bytes(file, int(self.offsets[page, segment]), count) if count else None
            try:
                pixels, _, _ = self.decode(packed, segment, **self.decode_options)
            except Exception as error:  # of whichever codec
                raise DataError(f"{self.path}: page {page} cannot be decoded: {words(error)}") from error
            self._paste(out, pixels, first_row - top, first_column - left)

    def _touched(self, shape: tuple[int, ...], top: int, left: int) -> Iterator[tuple[int, int, int]]:
        """Number, first row and first column of each strip or tile."""
        length, width = self.segment
        across = math.ceil(self.size[2] / width)
        for down in range(top // length, (top + shape[0] - 1) // length + 1):
            for along in range(left // width, (left + shape[1] - 1) // width + 1):
                yield down * across + along, down * length, along * width

    def _paste(self, out: Voxels, pixels: Voxels | None, row: int, column: int) -> None:
        """One strip or tile, whose first pixel belongs at (row, column) of `out`: before it, if negative."""
        rows = slice(max(row, 0), row + self.segment[0])
        columns = slice(max(column, 0), column + self.segment[1])
        target = out[rows, columns]
        if pixels is None:
            # Sparse files leave out what is empty.
            target[:] = 0
            return
        first_row, first_column = max(-row, 0), max(-column, 0)
        target[:] = pixels[0, first_row : first_row + target.shape[0], first_column : first_column + target.shape[1], 0]

    def _bytes(self, file: int, offset: int, count: int) -> bytes:
        run = os.pread(file, count, offset)
        if len(run) < count:
            raise DataError(f"{self.path}: is truncated: {self.file_bytes} bytes were there when it was opened")
        return run


class TiffArray:
    """One file, a page for each plane."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._pages = _headers.of(path)
        self.size = self._pages.size
        self.dtype = checked_type(path, self._pages.stored_type)

    def read(self, corner: Triple, size: Triple) -> Voxels:
        check_box(corner, size, self.size)
        box = np.empty(size, self.dtype)
        with _open(self.path) as file:
            for z, plane in enumerate(box):
                self._pages.read(plane, file, corner[0] + z, corner[1], corner[2])
        return box

    def verify(self) -> None:
        """The header, which has the places of all pixels, and the file's size have told everything."""


class Ends(NamedTuple):
    first: str
    last: str
    numbers: tuple[int, ...]  # of both, where their names have any


class TiffStack:
    """A folder of slices, a file for each plane, in the order of the numbers in their names."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._slices = _slices(path, _stamp(path))
        _, length, width = self._slices.first.size
        self.size = (len(self._slices.names), length, width)
        self.dtype = checked_type(path, self._slices.first.stored_type)

    def read(self, corner: Triple, size: Triple) -> Voxels:
        check_box(corner, size, self.size)
        box = np.empty(size, self.dtype)
        for z, plane in enumerate(box):
            name = os.path.join(self.path, self._slices.names[corner[0] + z])
            with _open(name) as file:
                self._slices.pages(name, file).read(plane, file, 0, corner[1], corner[2])
        return box

    def ends(self) -> Ends:
        first, last = self._slices.names[0], self._slices.names[-1]
        numbers = [_numbers(name) for name in (first, last)]
        return Ends(first, last, tuple(found[-1] for found in numbers) if all(numbers) else ())

    def verify(self) -> None:
        numbers = [_numbers(name) for name in self._slices.names]
        if all(numbers):
            steps = [after[-1] - before[-1] for before, after in itertools.pairwise(numbers)]
            for step, name in zip(steps, self._slices.names[1:], strict=True):
                if step != min(steps):
                    raise DataError(f"{self.path}: a slice is missing before {name}")
        first = self._slices.first
        needed = int(first.offsets[0, 0] + first.counts[0, 0]) if first.raw else 1
        for name in self._slices.names:
            path = os.path.join(self.path, name)
            if os.stat(path).st_size < needed:
                raise DataError(f"{path}: is truncated: {os.stat(path).st_size} of at least {needed} bytes are there")


class Slices(NamedTuple):
    names: tuple[str, ...]
    first: Pages
    # Everything in the first file but its pixels, if they are raw: a file of the same size that has the same has its
    # pixels in the same place. What is compressed differs in size, and is parsed.
    frame: bytes | None

    def pages(self, path: str, file: int) -> Pages:
        if self.frame is not None and _frame(self.first, file) == self.frame:
            return self.first
        found = _parse(path)
        if (found.size, found.stored_type) != (self.first.size, self.first.stored_type):
            shown = [f"{page.size[1]} × {page.size[2]} pixels of {page.stored_type}" for page in (found, self.first)]
            raise DataError(f"{path}: has {shown[0]}, the first slice {shown[1]}")
        return found


@contextlib.contextmanager
def _open(path: str) -> Iterator[int]:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {words(error)}") from error
    try:
        yield file
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {words(error)}") from error
    finally:
        os.close(file)


def _stamp(path: str) -> tuple[int, int]:
    """Changes when the file, or the folder's list of files, does."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {words(error)}") from error
    return found.st_mtime_ns, found.st_size


class Headers:
    """Parsed ones, as many as fit; the oldest are let go first, for patches come from all volumes alike."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self._pages: dict[tuple[str, tuple[int, int]], Pages] = {}
        # Headers are checked in threads.
        self._lock = threading.Lock()

    def of(self, path: str) -> Pages:
        key = path, _stamp(path)
        found = self._pages.get(key)
        if found is None:
            found = _parse(path)
            with self._lock:
                if key not in self._pages:
                    self._pages[key] = found
                    self._bytes += found.places_bytes
                while self._bytes > self._limit_bytes:
                    self._bytes -= self._pages.pop(next(iter(self._pages))).places_bytes
        return found


_headers = Headers(KEPT_HEADER_BYTES)


@lru_cache(maxsize=KEPT_STACKS)
def _slices(path: str, stamp: tuple[int, int]) -> Slices:
    found = (name for name in os.listdir(path) if is_slice(name))
    names = tuple(sorted(found, key=lambda name: (_numbers(name), name)))
    if not names:
        raise DataError(f"{path}: has no TIFF slices")
    first = _parse(os.path.join(path, names[0]))
    if first.size[0] != 1:
        raise DataError(f"{first.path}: expected one slice, it has {first.size[0]} pages")
    with _open(first.path) as file:
        return Slices(names, first, _frame(first, file))


def is_slice(name: str) -> bool:
    return name.lower().endswith(SUFFIXES) and not name.startswith(".")


def _numbers(name: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", os.path.splitext(name)[0])]


def _frame(pages: Pages, file: int) -> bytes | None:
    start, end = int(pages.offsets[0, 0]), int(pages.offsets[0, 0] + pages.counts[0, 0])
    if not pages.raw or os.fstat(file).st_size != pages.file_bytes:
        return None
    if pages.file_bytes - (end - start) > COMPARED_BYTES:
        return None
    return os.pread(file, start, 0) + os.pread(file, pages.file_bytes - end, end)


def _parse(path: str) -> Pages:
    tifffile = _package(f"reading {path}")
    try:
        with tifffile.TiffFile(path) as tiff:
            return _pages(path, tiff)
    except DataError:
        raise
    except Exception as error:  # on a damaged file the parser raises whatever it stumbles upon
        raise DataError(f"{path}: is no readable TIFF: {words(error)}") from error


def _pages(path: str, tiff: Any) -> Pages:
    _check_list_of_pages(path, tiff)
    if len(tiff.series) != 1:
        raise DataError(f"{path}: expected pages of one size, it has {len(tiff.series)} kinds")
    series = tiff.series[0]
    shape = series.shape if len(series.shape) != 2 else (1, *series.shape)
    size = checked_size(path, shape)
    checked_type(path, series.dtype)
    stored_type = np.dtype(series.dtype).newbyteorder(tiff.byteorder)
    page = series.keyframe
    if page.samplesperpixel != 1:
        raise DataError(f"{path}: expected gray pages, these have {page.samplesperpixel} channels")

    plane_bytes = size[1] * size[2] * stored_type.itemsize
    if series.dataoffset is not None:
        # All planes in one run of bytes, of which large ImageJ files and tifffile's own list the first only.
        offsets = (series.dataoffset + np.arange(size[0], dtype=np.int64) * plane_bytes)[:, None]
        counts = np.full_like(offsets, plane_bytes)
        raw = True
    else:
        pages = list(series)
        if len(pages) != size[0] or page.shape != size[1:]:
            raise DataError(f"{path}: expected a gray page for each z, it has {len(pages)} of shape {list(page.shape)}")
        raw = bool(page.is_final)
        offsets = np.array([found.dataoffsets[:1] if raw else found.dataoffsets for found in pages], np.int64)
        counts = np.array([[plane_bytes] if raw else found.databytecounts for found in pages], np.int64)

    file_bytes = tiff.filehandle.size
    needed = int((offsets + counts).max())
    if file_bytes < needed:
        raise DataError(f"{path}: is truncated: {file_bytes} of {needed} bytes are there")
    segment = (page.tilelength, page.tilewidth) if page.is_tiled else (min(page.rowsperstrip, size[1]), size[2])
    decode_options = {"jpegtables": page.jpegtables, "jpegheader": page.jpegheader}
    if not raw:
        # Of nothing: raises now if there is no codec for it.
        page.decode(None, 0, **decode_options)
    return Pages(
        path=path,
        size=size,
        stored_type=stored_type,
        file_bytes=file_bytes,
        offsets=offsets,
        counts=counts,
        segment=segment,
        decode=None if raw else page.decode,
        decode_options=decode_options,
    )


def _check_list_of_pages(path: str, tiff: Any) -> None:
    """tifffile takes a list that breaks off for its end, and the volume for one of fewer planes."""
    last = len(tiff.pages) - 1
    layout, file = tiff.tiff, tiff.filehandle
    file.seek(tiff.pages[last].offset)
    tags = struct.unpack(layout.tagnoformat, file.read(layout.tagnosize))[0]
    file.seek(tags * layout.tagsize, os.SEEK_CUR)
    next_page = file.read(layout.offsetsize)
    if len(next_page) < layout.offsetsize or struct.unpack(layout.offsetformat, next_page)[0] != 0:
        raise DataError(f"{path}: is truncated: the list of its pages breaks off after {last + 1}")


def _package(doing: str) -> Any:
    tifffile = require("tifffile", doing)
    # It also logs what it raises; without a handler those lines would stand beside our one.
    logger = logging.getLogger("tifffile")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return tifffile
