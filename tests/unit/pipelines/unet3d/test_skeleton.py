from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import ndimage
from torch import Tensor
from torch.nn import functional

from vtune.pipelines.unet3d.losses.skeleton import cldice, skeleton_recall, soft_skeleton
from vtune.pipelines.unet3d.morphology import (
    dilate,
    dilate_by_cross,
    erode,
    morphological_skeleton,
    through_dilation,
    through_erosion,
)

SHAPES = pytest.mark.parametrize("shape", [(2, 1, 7, 8, 9), (1, 1, 1, 5, 6), (1, 1, 2, 2, 1), (1, 1, 1, 1, 1)])
CROSS = ndimage.generate_binary_structure(3, 1)


def noise(shape: tuple[int, ...], *, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def blobs(shape: tuple[int, int, int] = (20, 22, 24), *, seed: int = 0, sigma: float = 2.0) -> np.ndarray:
    smooth = ndimage.gaussian_filter(np.random.default_rng(seed).standard_normal(shape), sigma)
    return np.asarray(smooth > 0)


def sheet(thickness: int) -> Tensor:
    found = torch.zeros(1, 1, 9, 9, 9)
    found[..., 3 : 3 + thickness] = 1
    return found


def pooled_erosion(x: Tensor) -> Tensor:
    windows = [(3, 1, 1), (1, 3, 1), (1, 1, 3)]
    pooled = [-functional.max_pool3d(-x, w, 1, [edge // 2 for edge in w]) for w in windows]
    return torch.stack(pooled).amin(dim=0)


def pooled_skeleton(x: Tensor, iterations: int) -> Tensor:
    """As in the paper's algorithm 1, by pooling and autograd."""
    skeleton = functional.relu(x - functional.max_pool3d(pooled_erosion(x), 3, 1, 1))
    for _ in range(iterations):
        x = pooled_erosion(x)
        ridge = functional.relu(x - functional.max_pool3d(pooled_erosion(x), 3, 1, 1))
        skeleton = skeleton + functional.relu(ridge - skeleton * ridge)
    return skeleton


@SHAPES
def test_erosion_and_dilation_are_pooling_to_the_bit(shape: tuple[int, ...]) -> None:
    x = noise(shape)
    assert torch.equal(erode(x), pooled_erosion(x))
    assert torch.equal(dilate(x), functional.max_pool3d(x, 3, 1, 1))
    assert torch.equal(dilate_by_cross(x), -pooled_erosion(-x))


@SHAPES
def test_gradients_of_erosion_and_dilation_are_those_of_pooling(shape: tuple[int, ...]) -> None:
    x = noise(shape, dtype=torch.float64).requires_grad_()
    gradient = noise(shape, seed=1, dtype=torch.float64)
    for pooled, through in ((pooled_erosion(x), through_erosion),
                            (functional.max_pool3d(x, 3, 1, 1), through_dilation)):  # fmt: skip
        (expected,) = torch.autograd.grad(pooled, x, gradient)
        assert torch.allclose(through(x.detach(), gradient), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("through", [through_erosion, through_dilation])
def test_among_equals_a_gradient_goes_to_one_and_none_of_it_is_lost(through) -> None:
    x = (noise((1, 1, 6, 7, 8)) < 0.5).double()
    gradient = noise(x.shape, seed=1, dtype=torch.float64)
    assert through(x, gradient).sum().item() == pytest.approx(gradient.sum().item())


@SHAPES
@pytest.mark.parametrize("iterations", [1, 3])
def test_the_soft_skeleton_and_its_gradient_are_those_of_pooling_and_autograd(
    shape: tuple[int, ...], iterations: int
) -> None:
    x = noise(shape, dtype=torch.float64).requires_grad_()
    ours, theirs = soft_skeleton(x, iterations), pooled_skeleton(x, iterations)
    assert torch.allclose(ours, theirs, rtol=0, atol=1e-12)
    gradient = noise(shape, seed=1, dtype=torch.float64)
    (expected,) = torch.autograd.grad(theirs, x, gradient)
    (found,) = torch.autograd.grad(ours, x, gradient)
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)


def test_the_soft_skeletons_gradient_is_the_slope_that_differences_find() -> None:
    x = noise((1, 1, 4, 3, 5), dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda image: soft_skeleton(image, 2), x)


def test_the_soft_skeleton_of_bytes_is_that_of_the_same_numbers() -> None:
    mask = torch.from_numpy(blobs())[None, None]
    ours = soft_skeleton(mask.to(torch.uint8), 3)
    assert ours.dtype == torch.uint8
    assert torch.equal(ours.double(), pooled_skeleton(mask.double(), 3))


def test_the_soft_skeleton_of_a_sheet_is_its_middle() -> None:
    skeleton = soft_skeleton(sheet(3), 3)
    assert skeleton[..., 4].all()
    assert skeleton.sum() == skeleton[..., 4].sum()


@pytest.mark.slow
def test_cldice_is_that_of_monai_with_its_gradient() -> None:
    from monai.losses import SoftclDiceLoss

    # Monai adds a little to the harmonic mean's denominator; with less of it the two are one.
    theirs = SoftclDiceLoss(iter_=3, smooth=1e-15, sigmoid=True)
    logits = (6 * noise((2, 1, 9, 10, 11), dtype=torch.float64) - 3).requires_grad_()
    label = (noise(logits.shape, seed=1) < 0.3).double()
    expected, found = theirs(logits, label), cldice(logits, label, iterations=3)
    assert found.item() == pytest.approx(expected.item(), rel=1e-9)
    (expected_slope,) = torch.autograd.grad(expected, logits)
    (slope,) = torch.autograd.grad(found, logits)
    assert torch.allclose(slope, expected_slope, rtol=1e-7, atol=1e-12)


def test_cldice_does_not_care_how_thick_a_sheet_is_but_that_it_is_there() -> None:
    def loss(predicted: Tensor, label: Tensor) -> float:
        return cldice((predicted - 0.5) * 40, label, iterations=3).item()

    torn = sheet(3)
    torn[..., 3:5, :, :] = 0
    assert loss(sheet(3), sheet(3)) == pytest.approx(0, abs=1e-6)
    # The middle of three voxels lies in five, and that of five in three.
    assert loss(sheet(5).roll(-1, dims=-1), sheet(3)) == pytest.approx(0, abs=1e-6)
    assert loss(torn, sheet(3)) > 0.1


def test_cldice_keeps_two_arrays_an_iteration_for_the_way_back() -> None:
    iterations = 4
    logits = noise((1, 1, 24, 24, 24)).requires_grad_()
    label = (noise(logits.shape, seed=1) < 0.3).float()
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = cldice(logits, label, iterations=iterations)
    # Besides: the probabilities, the label and its skeleton, and what sums keep.
    assert sum(kept.values()) / (4 * logits.numel()) < 2 * (iterations + 1) + 5
    loss.backward()


@pytest.mark.parametrize("iterations", [1, 3, 30])
def test_the_morphological_skeleton_is_that_of_scipys_erosions_and_openings(iterations: int) -> None:
    mask = blobs()
    skeleton, left = np.zeros_like(mask), mask
    for _ in range(iterations):
        # Beyond the edge there is nothing: nothing that erodes, and nothing that dilates.
        eroded = ndimage.binary_erosion(left, CROSS, border_value=1)
        skeleton |= left & ~ndimage.binary_dilation(eroded, CROSS)
        left = eroded
    found = morphological_skeleton(torch.from_numpy(mask), iterations).numpy()
    assert found.dtype == np.bool_
    assert np.array_equal(found, skeleton | left)


@pytest.mark.parametrize("iterations", [2, 30])
def test_a_volume_can_be_had_back_from_the_skeletons_of_its_levels(iterations: int) -> None:
    mask = left = torch.from_numpy(blobs())
    skeleton = morphological_skeleton(mask, iterations)
    rebuilt = torch.zeros_like(mask)
    for level in range(iterations + 1):
        ball = (skeleton & left).to(torch.uint8)
        for _ in range(level):
            ball = dilate_by_cross(ball)
        rebuilt |= ball.bool()
        left = erode(left.to(torch.uint8)).bool()
    assert torch.equal(rebuilt, mask)


def test_the_morphological_skeleton_of_a_sheet_that_leaves_the_volume_is_its_middle() -> None:
    skeleton = morphological_skeleton(sheet(3) > 0, 5)
    assert skeleton[..., 4].all()
    assert skeleton.sum() == 81


def test_skeleton_recall_by_hand() -> None:
    label = sheet(3)
    logits = torch.full_like(label, -40.0)
    logits[..., 4] = torch.tensor(0.75).logit()
    # Of the sheet only its middle counts, of which three quarters are found; one voxel of smoothing.
    assert skeleton_recall(logits, label, iterations=5).item() == pytest.approx(1 - (0.75 * 81 + 1) / 82)


def test_skeleton_recall_asks_for_nothing_outside_of_the_skeleton() -> None:
    logits = noise((1, 1, 9, 9, 9)).requires_grad_()
    skeleton_recall(logits, sheet(3), iterations=5).backward()
    assert logits.grad is not None
    assert torch.equal(logits.grad < 0, morphological_skeleton(sheet(3) > 0, 5))
    assert torch.equal(logits.grad != 0, logits.grad < 0)
