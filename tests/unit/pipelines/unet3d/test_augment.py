from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from vtune.pipelines.unet3d.data.augment import Sample, augment
from vtune.pipelines.unet3d.settings import AugmentationSettings

NOTHING = AugmentationSettings(
    flip_probability=0.0,
    spatial_probability=0.0,
    rotation_degrees=0.0,
    scale_range=(1.0, 1.0),
    elastic_voxels=0.0,
    intensity_probability=0.0,
)


def region(edge: int = 24) -> Sample:
    """A smooth image with the label where it is bright, so that their agreement can be checked after any change."""
    z, y, x = torch.meshgrid(*[torch.linspace(-1, 1, edge)] * 3, indexing="ij")
    image = torch.exp(-((z - 0.1) ** 2 + (y + 0.2) ** 2 + 2 * (x - 0.15) ** 2) * 4)
    return Sample(image, (image > 0.5).to(torch.uint8))


def run(settings: AugmentationSettings, *, seed: int = 0, size: tuple[int, int, int] = (16, 16, 16)) -> Sample:
    return augment(region(), size, settings, np.random.default_rng(seed))


def standardized(image: torch.Tensor) -> torch.Tensor:
    return (image - image.mean()) / (image.std() + 1e-6)


def test_without_any_change_it_is_the_middle_of_the_region() -> None:
    sample = run(NOTHING)
    assert torch.equal(sample.label, region().label[4:20, 4:20, 4:20])
    assert torch.allclose(sample.image, standardized(region().image[4:20, 4:20, 4:20]), atol=1e-5)


def test_a_resampling_by_nothing_changes_nothing() -> None:
    sample = run(replace(NOTHING, spatial_probability=1.0))
    assert torch.equal(sample.label, run(NOTHING).label)
    assert torch.allclose(sample.image, run(NOTHING).image, atol=1e-4)


def test_a_scale_of_two_shows_half_of_each_edge() -> None:
    sample = run(replace(NOTHING, spatial_probability=1.0, scale_range=(2.0, 2.0)))
    assert sample.label.float().mean() > 2 * run(NOTHING).label.float().mean()


@pytest.mark.parametrize("seed", range(5))
def test_label_and_image_move_together(seed: int) -> None:
    moving = replace(
        NOTHING,
        flip_probability=0.5,
        spatial_probability=1.0,
        rotation_degrees=40.0,
        scale_range=(0.8, 1.3),
        elastic_voxels=2.0,
        elastic_spacing=8,
    )
    sample = run(moving, seed=seed)
    assert not torch.equal(sample.label, run(NOTHING).label)
    # The label was where the image is bright; so it is again, but for the interpolated rim.
    bright, dark = sample.image[sample.label == 1], sample.image[sample.label == 0]
    threshold = (bright.quantile(0.05) + dark.quantile(0.95)) / 2
    assert ((sample.image > threshold) == (sample.label == 1)).float().mean() > 0.95


def test_patches_that_are_no_cubes_keep_their_axes() -> None:
    spatial = replace(NOTHING, spatial_probability=1.0)
    sample = run(spatial, size=(8, 12, 20))
    assert sample.image.shape == (8, 12, 20)
    assert torch.allclose(sample.image, standardized(region().image[8:16, 6:18, 2:22]), atol=1e-4)


def test_intensity_changes_leave_the_label_alone() -> None:
    sample = run(replace(NOTHING, intensity_probability=1.0))
    assert torch.equal(sample.label, run(NOTHING).label)
    assert not torch.allclose(sample.image, run(NOTHING).image, atol=1e-2)
    assert sample.image.isfinite().all()


def test_the_same_random_state_gives_the_same_patch() -> None:
    everything = AugmentationSettings(intensity_probability=1.0, spatial_probability=1.0, elastic_spacing=8)
    assert torch.equal(run(everything, seed=7).image, run(everything, seed=7).image)
    assert not torch.equal(run(everything, seed=7).image, run(everything, seed=8).image)
