from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import ndimage
from torch.nn import functional

from vtune.pipelines.unet3d.data.augment import Sample, _blur, augment
from vtune.pipelines.unet3d.data.resample import resample, source_lattice
from vtune.pipelines.unet3d.data.volumes import IGNORE
from vtune.pipelines.unet3d.settings import AugmentationSettings

NOTHING = AugmentationSettings(
    flip_probability=0.0,
    spatial_probability=0.0,
    rotation_degrees=0.0,
    scale_range=(1.0, 1.0),
    elastic_voxels=0.0,
    intensity_probability=0.0,
)


MOVING = replace(
    NOTHING,
    spatial_probability=1.0,
    rotation_degrees=40.0,
    scale_range=(0.8, 1.3),
    elastic_voxels=2.0,
    elastic_spacing=8,
)


def region(edge: int = 24) -> Sample:
    """A smooth image with the label where it is bright, so that their agreement can be checked after any change."""
    z, y, x = torch.meshgrid(*[torch.linspace(-1, 1, edge)] * 3, indexing="ij")
    image = torch.exp(-((z - 0.1) ** 2 + (y + 0.2) ** 2 + 2 * (x - 0.15) ** 2) * 4)
    return Sample(image, (image > 0.5).to(torch.uint8))


def run(settings: AugmentationSettings, *, seed: int = 0, size: tuple[int, int, int] = (16, 16, 16)) -> Sample:
    return augment(region(), size, settings, np.random.default_rng(seed))


def standardized(image: torch.Tensor) -> torch.Tensor:
    return (image - image.mean()) / image.std(correction=0)


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


def ball(edge: int = 24) -> Sample:
    """With a shell around the surface of which nobody knows what it is."""
    image, label = region(edge)
    label = label.clone()
    label[(image > 0.05) & (image <= 0.5)] = IGNORE
    return Sample(image, label)


@pytest.mark.parametrize("seed", range(5))
def test_ignored_voxels_stay_ignored_and_never_become_surface(seed: int) -> None:
    # Not so wildly that the shell gets thinner than a voxel's reach.
    moving = replace(MOVING, flip_probability=0.5, rotation_degrees=180.0, scale_range=(1.0, 1.3), elastic_voxels=0.5)
    with_shell = augment(ball(), (16, 16, 16), moving, np.random.default_rng(seed)).label
    without = augment(region(), (16, 16, 16), moving, np.random.default_rng(seed)).label
    assert set(with_shell.unique().tolist()) <= {0, 1, IGNORE}
    assert (with_shell == IGNORE).any()
    known = with_shell != IGNORE
    assert (with_shell[known] == without[known]).float().mean() > 0.97
    # Its rim is not taken for one or the other, and what lies within is no wider than it was.
    wide = functional.max_pool3d((without == 1).float()[None, None], 3, 1, 1)[0, 0] > 0
    assert not ((with_shell == 1) & ~wide).any()
    touching = functional.max_pool3d((with_shell == 1).float()[None, None], 3, 1, 1)[0, 0] > 0
    assert not (touching & (with_shell == 0)).any(), "all around the surface is the shell"


@pytest.mark.parametrize("region_size", [(24, 26, 30), (16, 16, 16), (17, 40, 20)])
@pytest.mark.parametrize("seed", range(4))
def test_the_resampling_is_that_of_grid_sample(seed: int, region_size: tuple[int, int, int]) -> None:
    """Independently: PyTorch's interpolation of places that its own interpolation spread."""
    rng = np.random.default_rng(seed)
    image = rng.random(region_size, dtype=np.float32)
    label = (rng.random(region_size) < 0.4).astype(np.uint8)
    size = (12, 16, 9)
    wild = replace(MOVING, rotation_degrees=180.0, scale_range=(0.3, 2.0), elastic_voxels=6.0)
    lattice = source_lattice(region_size, size, wild, rng)
    moved_image, moved_label = resample(image, label, lattice, size)

    places = functional.interpolate(torch.from_numpy(lattice)[None], size, mode="trilinear", align_corners=True)[0]
    edges = torch.tensor(region_size, dtype=torch.float64).reshape(3, 1, 1, 1)
    places = (places * 2 / (edges - 1) - 1).flip(0).permute(1, 2, 3, 0)[None]
    both = torch.from_numpy(np.stack([image, label]).astype(np.float64))[None]
    expected = functional.grid_sample(both, places, padding_mode="reflection", align_corners=True)[0]
    assert np.abs(moved_image - expected[0].numpy()).max() < 1e-4
    # Where it is a matter of the last digit it may be either.
    clear = (expected[1] - 0.5).abs() > 1e-4
    assert torch.equal(torch.from_numpy(moved_label)[clear], (expected[1] >= 0.5).to(torch.uint8)[clear])


@pytest.mark.parametrize("shape", [(9, 12, 20), (3, 8, 5)])
def test_the_blur_is_a_gaussian_with_repeated_edges(shape: tuple[int, int, int]) -> None:
    image = np.random.default_rng(0).random(shape, dtype=np.float32)
    expected = ndimage.gaussian_filter(image.astype(np.float64), 0.8, mode="nearest", radius=2)
    assert np.abs(_blur(image, 0.8) - expected).max() < 1e-6


@pytest.mark.parametrize("seed", range(6))
def test_the_number_of_threads_changes_no_bit(seed: int) -> None:
    """A loader's worker has one, the training's process as many as it likes: both have to make the same sample."""
    everything = replace(MOVING, flip_probability=0.5, intensity_probability=0.7)
    large = Sample(*(part.repeat(2, 2, 2) for part in ball(31)))
    found = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found.append(augment(large, (48, 50, 52), everything, np.random.default_rng(seed)))
    torch.set_num_threads(1)
    for other in found[1:]:
        assert torch.equal(other.image, found[0].image)
        assert torch.equal(other.label, found[0].label)


def test_the_region_is_left_as_it_was() -> None:
    """It may be a volume's own memory."""
    everything = replace(MOVING, intensity_probability=1.0)
    for settings in (everything, replace(everything, spatial_probability=0.0)):
        given, kept = ball(), ball()
        augment(given, (24, 24, 24), settings, np.random.default_rng(0))
        assert torch.equal(given.image, kept.image)
        assert torch.equal(given.label, kept.label)


def test_a_patch_of_one_intensity_becomes_zero_and_no_nan() -> None:
    flat = Sample(torch.full((20, 20, 20), 0.3), torch.zeros(20, 20, 20, dtype=torch.uint8))
    assert augment(flat, (16, 16, 16), MOVING, np.random.default_rng(0)).image.abs().max() < 0.1
