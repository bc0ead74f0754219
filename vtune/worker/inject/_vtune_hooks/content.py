"""Checksums of one sample as a data set returns it, from a bounded part of it.

The sample is neither changed nor kept, and no random number is drawn.
"""

from __future__ import annotations

import sys
import zlib
from itertools import islice
from typing import Any

# Of one array: about as many values, in rows of at least so many.
MOST_VALUES, LEAST_OF_A_ROW = 512, 32
MOST_TEXT = 256
# A label, a class, an index; larger arrays of integers may be masks, which augmentation changes.
SMALL = 16
MOST_ARRAYS, MOST_PARTS, DEEPEST = 8, 48, 5
# Half floats and the like, which numpy does not know.
_BY_SIZE = {1: "uint8", 2: "int16"}


class Sums:
    """Of all that was found, and of the parts that augmentation leaves as they are: whole numbers and texts."""

    def __init__(self) -> None:
        self.content = 0
        self.kept = 0
        self.arrays = 0
        self.parts = 0
        self.keeps = False

    def add(self, text: bytes, *, kept: bool) -> None:
        self.content = zlib.crc32(text, self.content)
        if kept:
            self.kept = zlib.crc32(text, self.kept)
            self.keeps = True


def sums_of(sample: Any) -> tuple[int | None, int | None]:
    """None where nothing was found to sum."""
    sums = Sums()
    try:
        _walk(sample, sums, DEEPEST)
    except Exception:
        return None, None
    return (sums.content if sums.arrays or sums.keeps else None), (sums.kept if sums.keeps else None)


def _walk(part: Any, sums: Sums, depth: int) -> None:
    sums.parts += 1
    if sums.parts > MOST_PARTS or depth < 0:
        return
    kind = type(part)
    if kind is bool or kind is int:
        sums.add(repr(part).encode(), kept=True)
    elif kind is str:
        sums.add(part[:MOST_TEXT].encode("utf-8", "replace"), kept=True)
    elif kind is bytes or kind is bytearray:
        sums.arrays += 1
        sums.add(bytes(part[: 4 * MOST_VALUES]) + repr(len(part)).encode(), kept=False)
    elif kind is float:
        sums.arrays += 1
        sums.add(repr(part).encode(), kept=False)
    elif isinstance(part, dict):
        for value in islice(part.values(), MOST_PARTS):
            _walk(value, sums, depth - 1)
    elif isinstance(part, (list, tuple)):
        for value in part[:MOST_PARTS]:
            _walk(value, sums, depth - 1)
    else:
        array = _array(part)
        if array is not None:
            _add_array(array, sums, depth)
        elif hasattr(kind, "getpixel"):
            _add_image(part, sums)
        elif isinstance(getattr(part, "__dict__", None), dict) and not isinstance(part, type):
            for value in list(vars(part).values())[:MOST_PARTS]:
                _walk(value, sums, depth - 1)


def _array(part: Any) -> Any:
    """As numpy's, without a copy; None of anything else and of what lies on a device."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is None:
        return None
    if isinstance(part, numpy.ndarray):
        return part
    if isinstance(part, numpy.generic):
        return numpy.asarray(part)
    if torch is None or not isinstance(part, torch.Tensor):
        return None
    # Subclasses that carry meta data copy it at each call.
    without = getattr(torch._C, "DisableTorchFunctionSubclass", None) or torch._C.DisableTorchFunction
    with without():
        if part.device.type != "cpu":
            return None
        plain = part.detach()
        try:
            return plain.numpy()
        except TypeError:
            return plain.view(getattr(torch, _BY_SIZE[plain.element_size()])).numpy()


def _add_array(array: Any, sums: Sums, depth: int) -> None:
    sums.arrays += 1
    if sums.arrays > MOST_ARRAYS:
        return
    if array.dtype.hasobject:
        for value in array.reshape(-1)[:SMALL].tolist():
            _walk(value, sums, depth - 1)
        return
    kept = array.size <= SMALL and array.dtype.kind in "iubSU"
    sums.add(spread(array).tobytes() + repr(array.shape).encode(), kept=kept)


def _add_image(image: Any, sums: Sums) -> None:
    """Pillow's, of which an array would be a copy."""
    sums.arrays += 1
    width, height = image.size
    places = [(width * x // 16, height * y // 16) for x in range(1, 16, 2) for y in range(1, 16, 2)]
    sums.add(repr([image.getpixel(place) for place in places]).encode(), kept=False)


def spread(array: Any) -> Any:
    """A view of about MOST_VALUES values from all over it."""
    if array.size <= MOST_VALUES or not array.ndim:
        return array
    last, outer = array.shape[-1], array.shape[:-1]
    of_a_row = min(last, max(LEAST_OF_A_ROW, MOST_VALUES * last // array.size))
    rows = max(1, MOST_VALUES // of_a_row)
    cut = []
    for at, size in enumerate((*outer, last)):
        wanted = of_a_row if at == len(outer) else max(1, round(rows ** (1 / (len(outer) - at))))
        step = max(1, size // wanted)
        begin = step // 2
        cut.append(slice(begin, None, step))
        rows = max(1, rows // -(-(size - begin) // step))
    return array[tuple(cut)]
