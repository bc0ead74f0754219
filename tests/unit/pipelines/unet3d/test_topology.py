from __future__ import annotations

import numpy as np
import pytest
import torch
from skimage.measure import euler_number
from torch import Tensor

from vtune.pipelines.unet3d.losses.topology import WINDOW, euler_characteristic, euler_difference


def noise(shape: tuple[int, ...], *, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def chi(volume: Tensor) -> float:
    return float(euler_characteristic(volume[..., None]).item())


def sheets(*places: int, edge: int = 12) -> Tensor:
    found = torch.zeros(edge, edge, edge, dtype=torch.float64)
    for place in places:
        found[..., place] = 1
    return found


def loss(predicted: Tensor, true: Tensor) -> float:
    return euler_difference((predicted[None, None] - 0.5) * 80, true[None, None]).item()


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.7, 0.95])
@pytest.mark.parametrize("shape", [(9, 10, 11), (1, 8, 8), (1, 1, 1)])
def test_of_a_set_of_voxels_it_is_the_euler_number_of_scikit_image(shape: tuple[int, ...], share: float) -> None:
    mask = noise(shape) < share
    # With a rim, since scikit-image takes what is beyond the edge for set or not as it likes.
    assert chi(mask.double()) == euler_number(np.pad(mask.numpy(), 1), connectivity=1)
    assert chi(mask.to(torch.uint8)) == chi(mask.double())


def test_of_probabilities_it_is_the_mean_over_all_thresholds() -> None:
    steps = 8
    volume = (noise((7, 8, 9)) * (steps + 1)).floor() / steps
    at_thresholds = [
        euler_number(np.pad((volume >= step / steps).numpy(), 1), connectivity=1) for step in range(1, steps + 1)
    ]
    assert chi(volume) == pytest.approx(sum(at_thresholds) / steps)


def test_volumes_side_by_side_have_one_each() -> None:
    volumes = noise((5, 6, 7, 3))
    assert euler_characteristic(volumes).tolist() == pytest.approx([chi(volumes[..., i]) for i in range(3)])


def test_pieces_count_tunnels_are_subtracted_and_cavities_added() -> None:
    with_a_hole, bridged = sheets(3), sheets(3, 5)
    with_a_hole[5, 5, 3] = 0
    bridged[5, 5, 4] = 1
    hollow = torch.ones(5, 5, 5, dtype=torch.float64)
    hollow[2, 2, 2] = 0
    assert [chi(volume) for volume in (sheets(3), sheets(3, 5), with_a_hole, bridged, hollow)] == [1, 2, 0, 1, 2]


def test_its_gradient_is_the_slope_that_differences_find() -> None:
    assert torch.autograd.gradcheck(euler_characteristic, noise((4, 3, 5, 2)).requires_grad_())


def test_the_loss_and_its_gradient_over_several_windows_are_right() -> None:
    # Two windows along z, each padded along the other axes.
    logits = (6 * noise((1, 1, WINDOW + 2, 3, 2)) - 3).requires_grad_()
    label = (noise((1, 1, WINDOW + 2, 3, 2), seed=1) < 0.4).double()
    assert torch.autograd.gradcheck(lambda x: euler_difference(x, label), logits)

    windows = (slice(0, WINDOW), slice(WINDOW, None))
    differences = [abs(chi(logits.detach().sigmoid()[0, 0, w]) - chi(label[0, 0, w])) for w in windows]
    by_hand = sum(d / (1 + d) for d in differences) / 2
    assert euler_difference(logits, label).item() == pytest.approx(by_hand)


def test_a_hole_a_bridge_and_a_speck_cost_half_a_window_each() -> None:
    true = sheets(3, 5)
    with_a_hole, bridged, with_a_speck = true.clone(), true.clone(), true.clone()
    with_a_hole[5, 5, 3] = 0
    bridged[5, 5, 4] = 1
    with_a_speck[5, 5, 9] = 1
    assert [loss(volume, true) for volume in (true, with_a_hole, bridged, with_a_speck)] == pytest.approx(
        [0, 0.5, 0.5, 0.5]
    )


def test_noise_is_not_a_hundred_times_worse_than_a_bridge() -> None:
    noisy = (noise((12, 12, 12)) < 0.2).double()
    assert 0.9 < loss(noisy, sheets(3, 5)) < 1


def test_the_gradient_points_to_the_bridge() -> None:
    logits = ((sheets(3, 5) - 0.5) * 12)[None, None]
    logits[0, 0, 5, 5, 4] = 1
    logits.requires_grad_()
    euler_difference(logits, sheets(3, 5)[None, None]).backward()
    assert logits.grad is not None
    worst = np.unravel_index(int(logits.grad.abs().argmax()), logits.shape)
    assert worst == (0, 0, 5, 5, 4)
    assert logits.grad[worst] > 0


def test_windows_of_which_nothing_is_known_are_left_out() -> None:
    true = torch.zeros(1, 1, 2 * WINDOW, 12, 12, dtype=torch.float64)
    true[0, 0, :, :, 3] = 1
    wrong = true.clone()
    wrong[0, 0, 3, 3, 8] = 1
    valid = torch.ones_like(true)
    assert euler_difference((wrong - 0.5) * 80, true, valid).item() == pytest.approx(0.25)
    valid[:, :, WINDOW:] = 0
    assert euler_difference((wrong - 0.5) * 80, true, valid).item() == pytest.approx(0.5)


def test_it_keeps_a_few_bytes_a_voxel_for_the_way_back() -> None:
    logits = torch.randn(1, 1, 48, 48, 48, requires_grad=True)
    label = (noise((1, 1, 48, 48, 48)) < 0.1).float()
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = euler_difference(logits, label)
    assert sum(kept.values()) / logits.numel() < 6
    loss.backward()
