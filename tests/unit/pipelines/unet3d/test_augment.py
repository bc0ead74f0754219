from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import ndimage
from torch.nn import functional

from vtune.pipelines.unet3d.data.augment import NOISE_DEVIATION, Sample, _blur, augment
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
    z, y, x = np.meshgrid(*[np.linspace(-1, 1, edge, dtype=np.float32)] * 3, indexing="ij")
    image = np.exp(-((z - 0.1) ** 2 + (y + 0.2) ** 2 + 2 * (x - 0.15) ** 2) * 4)
    return Sample(image, (image > 0.5).astype(np.uint8))


def run(settings: AugmentationSettings, *, seed: int = 0, size: tuple[int, int, int] = (16, 16, 16)) -> Sample:
    return augment(region(), size, settings, np.random.default_rng(seed))


def standardized(image: np.ndarray) -> np.ndarray:
    return (image - image.mean()) / image.std()


def test_without_any_change_it_is_the_middle_of_the_region() -> None:
    sample = run(NOTHING)
    assert np.array_equal(sample.label, region().label[4:20, 4:20, 4:20])
    assert np.allclose(sample.image, standardized(region().image[4:20, 4:20, 4:20]), atol=1e-5)


def test_a_resampling_by_nothing_changes_nothing() -> None:
    sample = run(replace(NOTHING, spatial_probability=1.0))
    assert np.array_equal(sample.label, run(NOTHING).label)
    assert np.allclose(sample.image, run(NOTHING).image, atol=1e-4)


def test_a_scale_of_two_shows_half_of_each_edge() -> None:
    sample = run(replace(NOTHING, spatial_probability=1.0, scale_range=(2.0, 2.0)))
    assert sample.label.mean() > 2 * run(NOTHING).label.mean()


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
    assert not np.array_equal(sample.label, run(NOTHING).label)
    # The label was where the image is bright; so it is again, but for the interpolated rim.
    bright, dark = sample.image[sample.label == 1], sample.image[sample.label == 0]
    threshold = (np.quantile(bright, 0.05) + np.quantile(dark, 0.95)) / 2
    assert ((sample.image > threshold) == (sample.label == 1)).mean() > 0.95


def test_patches_that_are_no_cubes_keep_their_axes() -> None:
    spatial = replace(NOTHING, spatial_probability=1.0)
    sample = run(spatial, size=(8, 12, 20))
    assert sample.image.shape == (8, 12, 20)
    assert np.allclose(sample.image, standardized(region().image[8:16, 6:18, 2:22]), atol=1e-4)


def test_intensity_changes_leave_the_label_alone() -> None:
    sample = run(replace(NOTHING, intensity_probability=1.0))
    assert np.array_equal(sample.label, run(NOTHING).label)
    assert not np.allclose(sample.image, run(NOTHING).image, atol=1e-2)
    assert np.isfinite(sample.image).all()


class Only(np.random.Generator):
    """Of all that may happen to a patch, one thing does: asked in their order, the number `which`."""

    def __init__(self, which: int) -> None:
        super().__init__(np.random.PCG64(1))
        self.left = which
        self.drawn: list[float] = []

    def random(self, *given, **more):
        if given or more:
            return super().random(*given, **more)
        self.left -= 1
        return 0.0 if self.left == 0 else 1.0

    def uniform(self, *given, **more):
        self.drawn.append(super().uniform(*given, **more))
        return self.drawn[-1]


GAMMA, DRIFT, BLUR, NOISE = 2, 3, 4, 5


def changed(image: np.ndarray, which: int) -> tuple[np.ndarray, list[float]]:
    """By that one change, as its network sees it; and the numbers that were drawn for it."""
    rng = Only(which)
    settings = replace(NOTHING, intensity_probability=0.5)
    label = np.zeros(image.shape, np.uint8)
    return augment(Sample(image, label), image.shape, settings, rng).image, rng.drawn


def middle() -> np.ndarray:
    return region().image[4:20, 4:20, 4:20]


def test_gamma_is_a_power_of_the_intensity() -> None:
    found, (gamma,) = changed(middle(), GAMMA)
    assert np.allclose(found, standardized(middle() ** gamma), atol=1e-4)
    assert abs(found - standardized(middle())).max() > 0.05


def test_brightness_drifts_across_the_patch_where_a_constant_would_be_taken_out_again() -> None:
    """What was black becomes a plane, inclined along every axis."""
    found, _ = changed(np.zeros((12, 14, 16), np.float32), DRIFT)
    assert found.std() == pytest.approx(1, abs=1e-3)
    for axis in range(3):
        steps = np.diff(found, axis=axis)
        assert abs(steps.mean()) > 1e-3
        assert abs(steps - steps.mean()).max() < 1e-4


def test_contrast_drifts_as_well() -> None:
    """Beside each black voxel is a gray one; how far they are apart depends on the place."""
    image = np.zeros((12, 14, 16), np.float32)
    image[..., ::2] = 0.5
    found, _ = changed(image, DRIFT)
    apart = found[..., ::2] - found[..., 1::2]
    assert apart.min() > 0
    assert apart.max() / apart.min() > 1.1


def test_blur_is_a_gaussian_of_the_drawn_width() -> None:
    found, (sigma,) = changed(middle(), BLUR)
    expected = ndimage.gaussian_filter(middle().astype(np.float64), sigma, mode="nearest", radius=2)
    assert np.allclose(found, standardized(expected), atol=1e-4)


def test_noise_is_of_the_drawn_deviation_and_of_no_voxels_neighbour() -> None:
    image = np.zeros((24, 24, 24), np.float32)
    image[12:] = 1
    found, (deviation,) = changed(image, NOISE)
    assert 0 < deviation <= NOISE_DEVIATION
    halves = found[:12], found[12:]
    step = halves[1].mean() - halves[0].mean()
    for half in halves:
        assert half.std() / step == pytest.approx(deviation, rel=0.05)
        apart = (half - half.mean()) / half.std()
        for axis in range(3):
            ahead, behind = np.moveaxis(apart, axis, 0)[1:], np.moveaxis(apart, axis, 0)[:-1]
            assert abs((ahead * behind).mean()) < 0.05


def test_the_same_random_state_gives_the_same_patch() -> None:
    everything = AugmentationSettings(intensity_probability=1.0, spatial_probability=1.0, elastic_spacing=8)
    assert np.array_equal(run(everything, seed=7).image, run(everything, seed=7).image)
    assert not np.array_equal(run(everything, seed=7).image, run(everything, seed=8).image)


def ball(edge: int = 24) -> Sample:
    """With a shell around the surface of which nobody knows what it is."""
    image, label = region(edge)
    label = label.copy()
    label[(image > 0.05) & (image <= 0.5)] = IGNORE
    return Sample(image, label)


@pytest.mark.parametrize("seed", range(5))
def test_ignored_voxels_stay_ignored_and_never_become_surface(seed: int) -> None:
    # Not so wildly that the shell gets thinner than a voxel's reach.
    moving = replace(MOVING, flip_probability=0.5, rotation_degrees=180.0, scale_range=(1.0, 1.3), elastic_voxels=0.5)
    with_shell = augment(ball(), (16, 16, 16), moving, np.random.default_rng(seed)).label
    without = augment(region(), (16, 16, 16), moving, np.random.default_rng(seed)).label
    assert set(np.unique(with_shell)) <= {0, 1, IGNORE}
    assert (with_shell == IGNORE).any()
    known = with_shell != IGNORE
    assert (with_shell[known] == without[known]).mean() > 0.97
    # Its rim is not taken for one or the other, and what lies within is no wider than it was.
    wide = ndimage.binary_dilation(without == 1, np.ones((3, 3, 3)))
    assert not ((with_shell == 1) & ~wide).any()
    touching = ndimage.binary_dilation(with_shell == 1, np.ones((3, 3, 3)))
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
    large = Sample(*(np.tile(part, (2, 2, 2)) for part in ball(31)))
    found = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found.append(augment(large, (48, 50, 52), everything, np.random.default_rng(seed)))
    torch.set_num_threads(1)
    for other in found[1:]:
        assert np.array_equal(other.image, found[0].image)
        assert np.array_equal(other.label, found[0].label)


def test_the_region_is_left_as_it_was() -> None:
    """It may be a volume's own memory."""
    everything = replace(MOVING, intensity_probability=1.0)
    for settings in (everything, replace(everything, spatial_probability=0.0)):
        given, kept = ball(), ball()
        augment(given, (24, 24, 24), settings, np.random.default_rng(0))
        assert np.array_equal(given.image, kept.image)
        assert np.array_equal(given.label, kept.label)


def test_a_patch_of_one_intensity_becomes_zero_and_no_nan() -> None:
    flat = Sample(np.full((20, 20, 20), 0.3, np.float32), np.zeros((20, 20, 20), np.uint8))
    assert abs(augment(flat, (16, 16, 16), MOVING, np.random.default_rng(0)).image).max() < 0.1
