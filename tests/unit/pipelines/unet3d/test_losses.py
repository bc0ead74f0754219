from __future__ import annotations

import math
import threading

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from vtune.pipelines.unet3d.losses.overlap import soft_dice, weighted_bce
from vtune.pipelines.unet3d.losses.surface import DISTANCE_CAP, distance_to, surface_distance
from vtune.pipelines.unet3d.losses.total import level_shares, segmentation_loss, shrink
from vtune.pipelines.unet3d.settings import LossSettings


def logits_of(*probabilities: float) -> torch.Tensor:
    return torch.tensor(probabilities, dtype=torch.float64).logit().reshape(1, 1, 1, 1, -1)


def labels(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64).reshape(1, 1, 1, 1, -1)


def random_case(shape: tuple[int, ...] = (2, 1, 8, 9, 10)) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(shape, generator=generator, dtype=torch.float64)
    label = (torch.rand(shape, generator=generator) < 0.1).double()
    return logits, label


def test_bce_counts_a_surface_voxel_as_often_as_its_weight() -> None:
    by_hand = (3 * -math.log(0.8) - math.log(1 - 0.3)) / 2
    assert weighted_bce(logits_of(0.8, 0.3), labels(1, 0), 3.0).item() == pytest.approx(by_hand)


def test_dice_by_hand() -> None:
    by_hand = 1 - (2 * (0.8 + 0.1) + 1) / ((0.8 + 0.1 + 0.4) + 2 + 1)
    assert soft_dice(logits_of(0.8, 0.1, 0.4), labels(1, 1, 0)).item() == pytest.approx(by_hand)


def test_dice_is_averaged_over_patches_and_not_over_their_union() -> None:
    logits, label = random_case()
    single = [soft_dice(logits[i : i + 1], label[i : i + 1]).item() for i in range(2)]
    assert soft_dice(logits, label).item() == pytest.approx(sum(single) / 2)


def test_dice_of_an_empty_patch_found_empty_is_perfect() -> None:
    assert soft_dice(torch.full((1, 1, 2, 2, 2), -40.0), torch.zeros(1, 1, 2, 2, 2)).item() == pytest.approx(0)


def test_the_distance_is_the_one_to_the_nearest_voxel_of_the_mask() -> None:
    mask = np.random.default_rng(0).random((6, 7, 8)) < 0.02
    everywhere = np.argwhere(np.ones_like(mask))
    by_hand = cdist(everywhere, np.argwhere(mask)).min(axis=1).reshape(mask.shape)
    assert np.allclose(distance_to(mask), np.minimum(by_hand, DISTANCE_CAP), atol=1e-6)


def test_far_is_capped_and_nothing_is_as_far_as_can_be() -> None:
    mask = np.zeros((1, 1, 40), dtype=bool)
    assert (distance_to(mask) == DISTANCE_CAP).all()
    mask[..., 0] = True
    assert distance_to(mask)[0, 0, 5] == 5
    assert distance_to(mask)[0, 0, 30] == DISTANCE_CAP


def test_surface_distance_by_hand() -> None:
    # True surface at 0, predicted one at 2: distances to them 0 1 2 3 and 2 1 0 1.
    probabilities = np.array([0.1, 0.2, 0.9, 0.3])
    far = np.array([0 + 2, 1 + 1, 2 + 0, 3 + 1]) / DISTANCE_CAP
    by_hand = ((probabilities - np.array([1, 0, 0, 0])) ** 2 * far).mean()
    value = surface_distance(logits_of(*probabilities), labels(1, 0, 0, 0))
    assert value.item() == pytest.approx(by_hand, rel=1e-6)


def test_surface_distance_of_the_truth_is_nothing() -> None:
    _, label = random_case()
    assert surface_distance((label - 0.5) * 100, label).item() == pytest.approx(0, abs=1e-12)


def test_a_surface_further_off_costs_more() -> None:
    label = torch.zeros(1, 1, 1, 1, 12)
    label[..., 1] = 1
    costs = []
    for place in (1, 2, 4, 8):
        predicted = torch.full_like(label, -20.0)
        predicted[..., place] = 20.0
        costs.append(surface_distance(predicted, label).item())
    assert costs == sorted(costs)
    assert costs[0] < costs[1]


def test_surface_distances_of_several_threads_wait_for_each_other_and_agree() -> None:
    logits, label = random_case()
    expected = surface_distance(logits, label).item()
    found: list[float] = []
    threads = [threading.Thread(target=lambda: found.append(surface_distance(logits, label).item())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert found == [expected] * 4


@pytest.mark.parametrize("term", [lambda a, b: weighted_bce(a, b, 2.0), soft_dice, surface_distance])
def test_a_step_along_the_gradient_makes_each_term_smaller(term) -> None:
    logits, label = random_case()
    logits.requires_grad_()
    before = term(logits, label)
    before.backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert term(logits.detach() - 0.1 * logits.grad / logits.grad.norm(), label).item() < before.item()


def test_the_total_is_the_weighted_sum_and_surface_counts_only_when_asked_for() -> None:
    logits, label = random_case()
    weights = LossSettings(bce_weight=0.5, dice_weight=2.0, surface_weight=3.0, positive_weight=4.0)
    without = segmentation_loss([logits], label, weights, with_surface=False)
    assert set(without) == {"total", "bce", "dice"}
    assert without["total"].item() == pytest.approx(0.5 * without["bce"].item() + 2 * without["dice"].item())
    terms = segmentation_loss([logits], label, weights, with_surface=True)
    assert terms["total"].item() == pytest.approx(without["total"].item() + 3 * terms["surface"].item())


def test_coarser_outputs_count_half_each_and_all_together_one() -> None:
    assert level_shares(1) == [1]
    assert level_shares(3) == pytest.approx([4 / 7, 2 / 7, 1 / 7])


def test_all_levels_reach_the_total() -> None:
    _, label = random_case((1, 1, 8, 8, 8))
    outputs = [torch.zeros(1, 1, edge, edge, edge, dtype=torch.float64, requires_grad=True) for edge in (8, 4, 2)]
    segmentation_loss(outputs, label, LossSettings(), with_surface=True)["total"].backward()
    assert all(output.grad is not None and output.grad.any() for output in outputs)


def test_a_shrunk_label_keeps_a_sheet_whole() -> None:
    label = torch.zeros(1, 1, 8, 8, 8)
    label[:, :, :, 3] = 1  # one voxel thick, on a plane that every second-voxel sampling would miss
    small = shrink(label, torch.empty(1, 1, 4, 4, 4))
    assert small[0, 0, :, 1].all()
    assert small.sum() == 16
