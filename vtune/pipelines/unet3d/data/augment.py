"""Random changes of a patch: one resampling for all that moves voxels, then intensities, then flips."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from vtune.pipelines.unet3d.data.volumes import Triple
from vtune.pipelines.unet3d.settings import AugmentationSettings

GAMMA_RANGE = (0.7, 1.5)
BRIGHTNESS = 0.1  # of the 8-bit range, as are the next two
CONTRAST = 0.2
NOISE_DEVIATION = 0.05
BLUR_SIGMA_RANGE = (0.4, 1.0)  # voxels; surfaces are two to three voxels thick
BLUR_RADIUS = 2


class Sample(NamedTuple):
    """Both of shape (depth, height, width): the image in [0, 1] before and of unit variance after augmentation."""

    image: Tensor
    label: Tensor


def augment(region: Sample, patch_size: Triple, settings: AugmentationSettings, rng: np.random.Generator) -> Sample:
    """A patch of `patch_size` from the middle of a region that is larger by the read margin."""
    if rng.random() < settings.spatial_probability:
        image, label = _resample(region, patch_size, settings, rng)
    else:
        image, label = _crop(region, patch_size)
    image = _change_intensity(image, settings.intensity_probability, rng)
    flipped = [axis for axis in range(3) if rng.random() < settings.flip_probability]
    image = (image - image.mean()) / (image.std() + 1e-6)
    return Sample(image.flip(flipped), label.flip(flipped))


def _crop(region: Sample, patch_size: Triple) -> Sample:
    middle = tuple(
        slice((have - want) // 2, (have - want) // 2 + want)
        for have, want in zip(region.image.shape, patch_size, strict=True)
    )
    return Sample(region.image[middle], region.label[middle])


def _resample(region: Sample, patch_size: Triple, settings: AugmentationSettings, rng: np.random.Generator) -> Sample:
    """Rotation, scaling and elastic deformation in one interpolation: each further one would cost as much again and
    blur the thin surfaces once more."""
    matrix = _rotation(settings.rotation_degrees, rng) / rng.uniform(*settings.scale_range)
    # Where each voxel of the patch comes from, in voxels from the region's centre.
    offsets = [torch.arange(edge, dtype=torch.float32) - (edge - 1) / 2 for edge in patch_size]
    offsets = [offset.reshape([-1 if i == axis else 1 for i in range(3)]) for axis, offset in enumerate(offsets)]
    bends = _elastic(patch_size, settings, rng)
    places = torch.empty((*patch_size, 3))
    for axis, edge in enumerate(region.image.shape):
        place = sum((float(matrix[axis, i]) * offset for i, offset in enumerate(offsets)), start=bends[axis])
        # grid_sample counts from -1 to 1 and names the axes x, y, z.
        places[..., 2 - axis] = place * (2 / (edge - 1))
    both = torch.stack([region.image, region.label.float()])
    # The rotated corners that lie outside of the region show its mirror image: sheets go on, label and image agree.
    moved = functional.grid_sample(both[None], places[None], padding_mode="reflection", align_corners=True)[0]
    return Sample(moved[0], (moved[1] >= 0.5).to(torch.uint8))


def _rotation(limit_degrees: float, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    matrix = np.eye(3)
    for axis, angle in enumerate(np.radians(rng.uniform(-limit_degrees, limit_degrees, size=3))):
        turn = np.eye(3)
        a, b = [i for i in range(3) if i != axis]
        turn[a, a] = turn[b, b] = math.cos(angle)
        turn[a, b], turn[b, a] = -math.sin(angle), math.sin(angle)
        matrix = matrix @ turn
    return matrix


def _elastic(patch_size: Triple, settings: AugmentationSettings, rng: np.random.Generator) -> Tensor:
    """Displacements in voxels, (3, *patch_size): drawn on a coarse grid, since smooth ones have no detail to draw."""
    coarse = [max(2, round(edge / settings.elastic_spacing) + 1) for edge in patch_size]
    drawn = rng.uniform(-settings.elastic_voxels, settings.elastic_voxels, size=(1, 3, *coarse)).astype(np.float32)
    fine: Tensor = functional.interpolate(torch.from_numpy(drawn), patch_size, mode="trilinear", align_corners=True)
    return fine[0]


def _change_intensity(image: Tensor, probability: float, rng: np.random.Generator) -> Tensor:
    if rng.random() < probability:
        image = image.clamp(0, 1) ** rng.uniform(*GAMMA_RANGE)
    if rng.random() < probability:
        image = image * (1 + rng.uniform(-CONTRAST, CONTRAST)) + rng.uniform(-BRIGHTNESS, BRIGHTNESS)
    if rng.random() < probability:
        image = _blur(image, rng.uniform(*BLUR_SIGMA_RANGE))
    if rng.random() < probability:
        noise = torch.from_numpy(rng.standard_normal(tuple(image.shape), dtype=np.float32))
        image = image + noise * rng.uniform(0, NOISE_DEVIATION)
    return image


def _blur(image: Tensor, sigma: float) -> Tensor:
    taps = torch.exp(-0.5 * (torch.arange(-BLUR_RADIUS, BLUR_RADIUS + 1) / sigma) ** 2)
    taps /= taps.sum()
    blurred = image[None, None]
    for axis in range(3):
        shape = [-1 if i == axis else 1 for i in range(3)]
        pad = [BLUR_RADIUS if i == axis else 0 for i in (2, 2, 1, 1, 0, 0)]
        blurred = functional.conv3d(functional.pad(blurred, pad, mode="replicate"), taps.reshape(1, 1, *shape))
    return blurred[0, 0]
