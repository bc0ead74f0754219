from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy import ndimage
from scipy.spatial.distance import cdist

from vtune.pipelines.unet3d.metrics import SKELETON_EROSIONS, SLAB_VOXELS, Comparison

Bools = npt.NDArray[np.bool_]
CROSS = ndimage.generate_binary_structure(3, 1)
# More voxels than a slab has, of which two and a rest are made.
LARGE = (90, 150, 160)


def compared(*volumes: Bools, tolerance: float = 1.0, planes: int = 7) -> dict[str, float]:
    """Predicted, true and perhaps valid, so many planes at a time."""
    comparison = Comparison(tolerance_voxels=tolerance)
    for start in range(0, max(len(volume) for volume in volumes), planes):
        comparison.add(*(volume[start : start + planes] for volume in volumes))
    return comparison.scores()


def dice(*volumes: Bools) -> float:
    return compared(*volumes)["dice"]


def surface_dice(predicted: Bools, true: Bools, tolerance: float) -> float:
    return compared(predicted, true, tolerance=tolerance)["surface_dice"]


def cldice(*volumes: Bools) -> float:
    return compared(*volumes)["cldice"]


def blobs(shape: tuple[int, int, int], *, seed: int = 0, above: float = 0.0, sigma: float = 2.0) -> Bools:
    smooth = ndimage.gaussian_filter(np.random.default_rng(seed).standard_normal(shape), sigma)
    return np.asarray(smooth > above * smooth.std())


def sheet(thickness: int, *, start: int = 3) -> Bools:
    found = np.zeros((10, 11, 12), dtype=bool)
    found[..., start : start + thickness] = True
    return found


def boundary(mask: Bools) -> Bools:
    return np.asarray(mask & ~ndimage.binary_erosion(mask, CROSS))


def skeleton(mask: Bools) -> Bools:
    found, left = np.zeros_like(mask), mask
    for _ in range(SKELETON_EROSIONS):
        eroded = ndimage.binary_erosion(left, CROSS, border_value=1)
        found |= left & ~ndimage.binary_dilation(eroded, CROSS)
        left = eroded
    return np.asarray(found | left)


@pytest.mark.parametrize("name", ["dice", "surface_dice", "cldice"])
def test_perfect_empty_and_missed(name: str) -> None:
    def metric(*volumes: Bools) -> float:
        return compared(*volumes)[name]

    here, nothing = sheet(2), np.zeros((10, 11, 12), dtype=bool)
    assert metric(here, here) == 1
    assert metric(nothing, nothing) == 1
    assert metric(nothing, here) == metric(here, nothing) == 0
    # All that was missed is where nobody knows.
    assert metric(nothing, here, ~here) == 1
    with pytest.raises(ValueError, match="different shapes"):
        metric(here, here[1:])


def test_dice_by_hand() -> None:
    assert dice(sheet(2), sheet(3)) == pytest.approx(2 * 2 / 5)
    valid = np.ones((10, 11, 12), dtype=bool)
    valid[..., 5] = False
    assert dice(sheet(2), sheet(3), valid) == 1


def test_surface_dice_by_hand() -> None:
    # Planes one voxel thick: all of each is boundary, and exactly three voxels apart.
    assert surface_dice(sheet(1), sheet(1, start=6), 2.9) == 0
    assert surface_dice(sheet(1), sheet(1, start=6), 3) == 1
    half = sheet(1)
    half[:5] = False
    # Of ten planes along z five are found, and at tolerance 1 the sixth is near enough.
    assert surface_dice(half, sheet(1), 1) == pytest.approx((5 + 6) / 15)


@pytest.mark.parametrize("tolerance", [0, 1, 1.5, 4])
def test_surface_dice_is_that_of_all_distances_between_boundary_voxels(tolerance: float) -> None:
    volumes = [blobs((14, 15, 16), seed=seed, sigma=1.5) for seed in (0, 1)]
    here, there = (np.argwhere(boundary(volume)) for volume in volumes)
    apart = cdist(here, there)
    near = (apart.min(axis=1) <= tolerance).sum() + (apart.min(axis=0) <= tolerance).sum()
    assert surface_dice(*volumes, tolerance) == pytest.approx(near / (len(here) + len(there)))


@pytest.mark.slow
@pytest.mark.parametrize("tolerance", [1.0, 2.0])
def test_surface_dice_is_that_of_monai(tolerance: float) -> None:
    import torch
    from monai.metrics import compute_surface_dice

    volumes = [blobs((24, 25, 26), seed=seed, above=1.0) for seed in (0, 1)]
    theirs = compute_surface_dice(
        *(torch.from_numpy(volume)[None, None] for volume in volumes), [tolerance], include_background=True
    )
    assert surface_dice(*volumes, tolerance) == pytest.approx(theirs.item(), abs=1e-6)


def test_cldice_does_not_care_how_thick_a_sheet_is_but_that_it_is_there() -> None:
    assert cldice(sheet(5, start=2), sheet(3)) == 1
    assert dice(sheet(5, start=2), sheet(3)) < 0.8
    torn = sheet(3)
    torn[4:6] = False
    assert cldice(torn, sheet(3)) < 0.95


def test_cldice_is_that_of_scipys_skeletons() -> None:
    predicted, true = blobs((30, 31, 32), seed=0), blobs((30, 31, 32), seed=1)
    precision = (skeleton(predicted) & true).sum() / skeleton(predicted).sum()
    sensitivity = (skeleton(true) & predicted).sum() / skeleton(true).sum()
    expected = 2 * precision * sensitivity / (precision + sensitivity)
    assert cldice(predicted, true) == pytest.approx(expected)


def test_a_blob_too_thick_for_its_middle_to_be_found_is_not_missed() -> None:
    thick = np.zeros((80, 40, 40), dtype=bool)
    thick[3:37, 3:37, 3:37] = True
    assert cldice(thick, thick) == 1
    assert cldice(thick, np.roll(thick, 40, axis=0)) == 0


@pytest.mark.parametrize("planes", [1, 50, 140])
def test_however_a_volume_is_cut_into_slabs_its_scores_are_the_same(planes: int) -> None:
    """Along another axis the cuts are in other places."""
    volumes = [blobs((90, 120, 140), seed=seed, above=0.5) for seed in (0, 1)]
    volumes.append(blobs((90, 120, 140), seed=2, sigma=4.0, above=-1.0))
    assert np.prod(volumes[0].shape) > SLAB_VOXELS
    turned = [np.ascontiguousarray(np.moveaxis(volume, 2, 0)) for volume in volumes]
    assert compared(*turned, planes=planes) == compared(*volumes)


@pytest.mark.slow
def test_a_volume_of_many_slabs_has_the_scores_of_a_whole_one() -> None:
    assert np.prod(LARGE) > 2 * SLAB_VOXELS
    volumes = [blobs(LARGE, seed=seed, above=0.5) for seed in (0, 1)]
    valid = blobs(LARGE, seed=2, sigma=4.0, above=-1.0)
    found = compared(*volumes, valid, tolerance=2.0, planes=11)

    p, t = (volume & valid for volume in volumes)
    assert found["dice"] == pytest.approx(2 * (p & t).sum() / (p.sum() + t.sum()))

    edges = boundary(p), boundary(t)
    far = [ndimage.distance_transform_edt(~edge) for edge in edges[::-1]]
    near = sum((edge & (away <= 2)).sum() for edge, away in zip(edges, far, strict=True))
    assert found["surface_dice"] == pytest.approx(near / (edges[0].sum() + edges[1].sum()))

    of_p, of_t = skeleton(p), skeleton(t)
    precision, sensitivity = (of_p & t).sum() / of_p.sum(), (of_t & p).sum() / of_t.sum()
    assert found["cldice"] == pytest.approx(2 * precision * sensitivity / (precision + sensitivity))
