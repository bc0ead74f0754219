"""From stored intensities to what the network sees: about [0, 1] first, then zero mean and unit variance."""

import numpy as np

from vtune.pipelines.unet3d.data.volumes import Floats, Voxels

# A patch of one intensity, such as the masked outside of a scan, has no deviation to divide by but that of rounding:
# it becomes zero. A tenth of a level of 16 bits is less than any scan's noise.
SMALLEST_DEVIATION = 1.5e-6


def to_unit(image: Voxels, intensity_range: tuple[float, float] | None) -> Floats:
    """The range, or without one that of the integer type, becomes [0, 1].

    What is outside of the range is as bright as its end: a grain of metal would make all else in its patch one gray,
    for `standardize` divides by the deviation.
    """
    if intensity_range is None:
        limits = np.iinfo(image.dtype)
        black, white = float(limits.min), float(limits.max)
    else:
        black, white = intensity_range
    # 16-bit integers are exact in float32; a float64 or a 32-bit image loses digits that no scanner measured, and what
    # is too large for it is beyond any range.
    with np.errstate(over="ignore"):
        unit: Floats = image.astype(np.float32)
    if black != 0:
        unit -= np.float32(black)
    unit *= np.float32(1 / (white - black))
    if intensity_range is not None:
        np.clip(unit, 0, 1, out=unit)
    return unit


def needs_range(image_type: np.dtype[np.generic]) -> bool:
    """Whether a type says nothing about its darkest and brightest: floats, and integers that are never used up."""
    return image_type.kind == "f" or image_type.itemsize > 2


def standardize(image: Floats) -> Floats:
    """Zero mean and unit variance, in place. One thread's arithmetic: the same bits in the training's process, which
    has several, as in a loader's worker."""
    image -= image.mean()
    deviation = np.sqrt(np.square(image).mean())
    image *= np.float32(1 / max(deviation, SMALLEST_DEVIATION))
    return image
