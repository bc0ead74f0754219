"""Random changes of a patch: one resampling for all that moves voxels, then intensities, then flips.

NumPy and one thread throughout, so that a sample has the same bits in a loader's worker, where PyTorch has one thread,
as in the training's process, where its sums are split among several.
"""

from typing import NamedTuple

import numpy as np

from vtune.pipelines.unet3d.data.intensity import standardize
from vtune.pipelines.unet3d.data.resample import resample, source_lattice
from vtune.pipelines.unet3d.data.volumes import Bytes3D, Floats, Triple, box_slices, triple
from vtune.pipelines.unet3d.settings import AugmentationSettings

GAMMA_RANGE = (0.7, 1.5)
# Contrast and brightness drift across a patch, along each axis by up to so much to either side of its middle, as the
# hardening of the beam makes them in a scan. Constants would be taken out again by `standardize`.
CONTRAST = 0.2
BRIGHTNESS = 0.1  # of the range of intensities, as is the next one
NOISE_DEVIATION = 0.05
BLUR_SIGMA_RANGE = (0.4, 1.0)  # voxels; surfaces are two to three voxels thick
BLUR_RADIUS = 2
# Black enough, and its logarithm is a number.
DARKEST = 1e-12


class Sample(NamedTuple):
    """Both of shape (depth, height, width)."""

    image: Floats
    label: Bytes3D


def augment(region: Sample, patch_size: Triple, settings: AugmentationSettings, rng: np.random.Generator) -> Sample:
    """A patch of `patch_size`, of unit variance, from the middle of a region in [0, 1] that is larger by the read
    margin. It shares no memory with the region."""
    image, label = region
    if rng.random() < settings.spatial_probability:
        lattice = source_lattice(triple(image.shape), patch_size, settings, rng)
        image, label = resample(image, label, lattice, patch_size)
    else:
        middle = tuple((have - want) // 2 for have, want in zip(image.shape, patch_size, strict=True))
        inside = box_slices(triple(middle), patch_size)
        image, label = image[inside].copy(), label[inside]
    image = _change_intensity(image, settings.intensity_probability, rng)
    flip = tuple(slice(None, None, -1 if rng.random() < settings.flip_probability else 1) for _ in range(3))
    # PyTorch takes no array that runs backwards.
    return Sample(np.ascontiguousarray(standardize(image)[flip]), np.array(label[flip], order="C"))


def _change_intensity(image: Floats, probability: float, rng: np.random.Generator) -> Floats:
    """May work in place."""
    if rng.random() < probability:
        # By way of the logarithm: several times as fast as a power where the processor has no instruction for it.
        np.maximum(image, np.float32(DARKEST), out=image)
        np.log(image, out=image)
        image *= np.float32(rng.uniform(*GAMMA_RANGE))
        np.exp(image, out=image)
    if rng.random() < probability:
        contrast, brightness = (_ramps(image.shape, most, rng) for most in (CONTRAST, BRIGHTNESS))
        _drift(image, contrast, brightness)
    if rng.random() < probability:
        image = _blur(image, rng.uniform(*BLUR_SIGMA_RANGE))
    if rng.random() < probability:
        noise = rng.standard_normal(image.shape, dtype=np.float32)
        noise *= np.float32(rng.uniform(0, NOISE_DEVIATION))
        image += noise
    return image


def _ramps(shape: tuple[int, ...], most: float, rng: np.random.Generator) -> list[Floats]:
    """Along each axis, from some value to its opposite: their sum is a plane, 0 in the middle."""
    return [
        np.linspace(-slope, slope, edge, dtype=np.float32)
        for slope, edge in zip(rng.uniform(-most, most, size=len(shape)), shape, strict=True)
    ]


def _drift(image: Floats, contrast: list[Floats], brightness: list[Floats]) -> None:
    """In place, plane by plane, so that one plane's share of each ramp stays in the cache."""
    gain, shift = (along_y[:, None] + along_x for _, along_y, along_x in (contrast, brightness))
    gain += 1
    for plane, more_gain, more_shift in zip(image, contrast[0], brightness[0], strict=True):
        plane *= gain + more_gain
        plane += shift + more_shift


def _blur(image: Floats, sigma: float) -> Floats:
    """A Gaussian, axis by axis, plane by plane: all that one plane needs stays in the cache. Edges are repeated."""
    taps = np.exp(-0.5 * (np.arange(BLUR_RADIUS + 1) / sigma) ** 2)
    taps = (taps / (taps[0] + 2 * taps[1:].sum())).astype(np.float32)
    depth, height, width = image.shape
    blurred = np.empty_like(image)
    rows = np.empty((height + 2 * BLUR_RADIUS, width), np.float32)
    columns = np.empty((height, width + 2 * BLUR_RADIUS), np.float32)
    for z, plane in enumerate(blurred):
        near = [image[min(max(z + step, 0), depth - 1)] for step in range(-BLUR_RADIUS, BLUR_RADIUS + 1)]
        _weigh(near, taps, out=rows[BLUR_RADIUS:-BLUR_RADIUS])
        rows[:BLUR_RADIUS], rows[-BLUR_RADIUS:] = rows[BLUR_RADIUS], rows[-BLUR_RADIUS - 1]
        near = [rows[start : start + height] for start in range(2 * BLUR_RADIUS + 1)]
        _weigh(near, taps, out=columns[:, BLUR_RADIUS:-BLUR_RADIUS])
        columns[:, :BLUR_RADIUS] = columns[:, BLUR_RADIUS, None]
        columns[:, -BLUR_RADIUS:] = columns[:, -BLUR_RADIUS - 1, None]
        near = [columns[:, start : start + width] for start in range(2 * BLUR_RADIUS + 1)]
        _weigh(near, taps, out=plane)
    return blurred


def _weigh(near: list[Floats], taps: Floats, *, out: Floats) -> None:
    """The sum of neighbours, from the farthest below to the farthest above, by weights that are alike on both sides."""
    np.multiply(near[BLUR_RADIUS], taps[0], out=out)
    for step in range(1, BLUR_RADIUS + 1):
        pair = near[BLUR_RADIUS - step] + near[BLUR_RADIUS + step]
        pair *= taps[step]
        out += pair
