from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from vtune.pipelines.unet3d.data.volumes import IGNORE
from vtune.pipelines.unet3d.distance import DISTANCE_CAP, distance_to
from vtune.pipelines.unet3d.losses.overlap import soft_dice, weighted_bce
from vtune.pipelines.unet3d.losses.skeleton import cldice, skeleton_recall
from vtune.pipelines.unet3d.losses.surface import surface_error
from vtune.pipelines.unet3d.losses.topology import euler_difference
from vtune.pipelines.unet3d.losses.total import level_shares, segmentation_loss, shrink
from vtune.pipelines.unet3d.settings import LossSettings

ALL = LossSettings(
    bce_weight=0.5, dice_weight=2.0, cldice_weight=1.5, skeleton_weight=0.7, surface_weight=3.0, topology_weight=0.3,
    positive_weight=4.0,
)  # fmt: skip

TERMS = {
    "bce": lambda logits, label, valid=None: weighted_bce(logits, label, valid, positive_weight=2.0),
    "dice": soft_dice,
    "cldice": lambda logits, label, valid=None: cldice(logits, label, valid, iterations=2),
    "skeleton": lambda logits, label, valid=None: skeleton_recall(logits, label, valid, iterations=2),
    "surface": surface_error,
    "topology": euler_difference,
}
EVERY_TERM = pytest.mark.parametrize("term", TERMS.values(), ids=TERMS.keys())


def logits_of(*probabilities: float) -> Tensor:
    return torch.tensor(probabilities, dtype=torch.float64).logit().reshape(1, 1, 1, 1, -1)


def labels(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64).reshape(1, 1, 1, 1, -1)


def random_case(shape: tuple[int, ...] = (2, 1, 8, 9, 10), share: float = 0.1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(shape, generator=generator, dtype=torch.float64)
    label = (torch.rand(shape, generator=generator) < share).double()
    return logits, label


def random_mask(label: Tensor) -> Tensor:
    return (torch.rand(label.shape, generator=torch.Generator().manual_seed(4)) < 0.7).double()


def as_bytes(label: Tensor, valid: Tensor | None = None) -> Tensor:
    found = label.to(torch.uint8)
    return found if valid is None else found.masked_fill(valid == 0, IGNORE)


def test_bce_counts_a_surface_voxel_as_often_as_its_weight() -> None:
    by_hand = (3 * -math.log(0.8) - math.log(1 - 0.3)) / 2
    assert weighted_bce(logits_of(0.8, 0.3), labels(1, 0), positive_weight=3.0).item() == pytest.approx(by_hand)


def test_bce_is_the_mean_over_the_voxels_that_are_known() -> None:
    masked = weighted_bce(logits_of(0.8, 0.3, 0.9), labels(1, 0, 0), labels(1, 1, 0), positive_weight=3.0)
    assert masked.item() == pytest.approx(
        weighted_bce(logits_of(0.8, 0.3), labels(1, 0), positive_weight=3.0).item()
    )  # fmt: skip


def test_dice_by_hand() -> None:
    by_hand = 1 - (2 * (0.8 + 0.1) + 1) / ((0.8 + 0.1 + 0.4) + 2 + 1)
    assert soft_dice(logits_of(0.8, 0.1, 0.4), labels(1, 1, 0)).item() == pytest.approx(by_hand)


def test_dice_with_a_mask_by_hand() -> None:
    by_hand = 1 - (2 * 0.8 + 1) / ((0.8 + 0.4) + 1 + 1)
    masked = soft_dice(logits_of(0.8, 0.1, 0.4), labels(1, 1, 0), labels(1, 0, 1))
    assert masked.item() == pytest.approx(by_hand)


def test_dice_is_averaged_over_patches_and_not_over_their_union() -> None:
    logits, label = random_case()
    single = [soft_dice(logits[i : i + 1], label[i : i + 1]).item() for i in range(2)]
    assert soft_dice(logits, label).item() == pytest.approx(sum(single) / 2)


def test_dice_of_an_empty_patch_found_empty_is_perfect() -> None:
    assert soft_dice(torch.full((1, 1, 2, 2, 2), -40.0), torch.zeros(1, 1, 2, 2, 2)).item() == pytest.approx(0)


@pytest.mark.slow
def test_dice_and_cross_entropy_are_those_of_monai() -> None:
    from monai.losses import DiceCELoss, DiceLoss

    logits, label = random_case()
    dice = DiceLoss(sigmoid=True, smooth_nr=1, smooth_dr=1)(logits, label)
    assert soft_dice(logits, label).item() == pytest.approx(dice.item(), rel=1e-12)
    both = DiceCELoss(sigmoid=True, smooth_nr=1, smooth_dr=1, weight=torch.tensor([3.0]))(logits, label)
    ours = soft_dice(logits, label) + weighted_bce(logits, label, positive_weight=3.0)
    assert ours.item() == pytest.approx(both.item(), rel=1e-12)


@pytest.mark.parametrize("masked", [False, True], ids=["all known", "masked"])
@EVERY_TERM
def test_each_terms_gradient_is_the_slope_that_differences_find(term, masked: bool) -> None:
    logits, label = random_case((2, 1, 4, 3, 5), share=0.4)
    valid = random_mask(label) if masked else None
    assert torch.autograd.gradcheck(lambda x: term(x, label, valid), logits.requires_grad_())


@EVERY_TERM
def test_a_step_along_the_gradient_makes_each_term_smaller(term) -> None:
    logits, label = random_case()
    logits.requires_grad_()
    before = term(logits, label)
    before.backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert term(logits.detach() - 0.1 * logits.grad / logits.grad.norm(), label).item() < before.item()


@EVERY_TERM
def test_nothing_that_is_predicted_or_labelled_where_nobody_knows_matters(term) -> None:
    logits, label = random_case()
    valid = random_mask(label)
    unknown = valid == 0
    logits.requires_grad_()
    value = term(logits, label, valid)
    value.backward()
    assert logits.grad is not None
    assert logits.grad[unknown].count_nonzero() == 0
    assert logits.grad.count_nonzero() > 0
    other = torch.where(unknown, -3 * logits.detach() + 1, logits.detach())
    assert term(other, torch.where(unknown, 1 - label, label), valid).item() == pytest.approx(value.item(), rel=1e-12)


@EVERY_TERM
def test_a_mask_of_ones_changes_nothing(term) -> None:
    logits, label = random_case()
    assert term(logits, label, torch.ones_like(label)).item() == pytest.approx(term(logits, label).item(), rel=1e-12)


@EVERY_TERM
def test_a_patch_of_which_nothing_is_known_costs_nothing(term) -> None:
    logits, label = random_case()
    logits.requires_grad_()
    value = term(logits, label, torch.zeros_like(label))
    value.backward()
    assert value.item() == 0
    assert logits.grad is not None
    assert logits.grad.count_nonzero() == 0


@EVERY_TERM
def test_saturated_predictions_have_finite_terms_and_gradients(term) -> None:
    _, label = random_case()
    label = label.float()
    for wrong in (1, -1):
        logits = (wrong * (label - 0.5) * 400).requires_grad_()
        value = term(logits, label)
        value.backward()
        assert value.isfinite()
        assert logits.grad is not None
        assert logits.grad.isfinite().all()


@EVERY_TERM
def test_the_truth_costs_next_to_nothing(term) -> None:
    _, label = random_case()
    assert term((label - 0.5) * 100, label).item() == pytest.approx(0, abs=1e-9)


def test_the_total_is_the_weighted_sum_and_surface_counts_only_when_asked_for() -> None:
    logits, label = random_case()
    weights = LossSettings(bce_weight=0.5, dice_weight=2.0, surface_weight=3.0, positive_weight=4.0)
    without = segmentation_loss([logits], as_bytes(label), weights, with_surface=False)
    assert set(without) == {"total", "bce", "dice"}
    assert without["total"].item() == pytest.approx(0.5 * without["bce"].item() + 2 * without["dice"].item())
    terms = segmentation_loss([logits], as_bytes(label), weights, with_surface=True)
    assert terms["total"].item() == pytest.approx(without["total"].item() + 3 * terms["surface"].item())


@pytest.mark.parametrize("masked", [False, True], ids=["all known", "masked"])
def test_every_term_is_the_one_of_its_name_at_full_resolution(masked: bool) -> None:
    logits, label = random_case()
    valid = random_mask(label) if masked else None
    terms = segmentation_loss([logits], as_bytes(label, valid), ALL, with_surface=True)
    expected = {
        "bce": weighted_bce(logits, label, valid, positive_weight=4.0),
        "dice": soft_dice(logits, label, valid),
        "cldice": cldice(logits, label, valid, iterations=3),
        "skeleton": skeleton_recall(logits, label, valid, iterations=3),
        "surface": surface_error(logits, label, valid),
        "topology": euler_difference(logits, label, valid),
    }
    assert list(terms) == ["total", *expected]
    assert {name: terms[name].item() for name in expected} == pytest.approx(
        {name: value.item() for name, value in expected.items()}, rel=1e-12
    )
    weights = (0.5, 2.0, 1.5, 0.7, 3.0, 0.3)
    whole = sum(weight * value.item() for weight, value in zip(weights, expected.values(), strict=True))
    assert terms["total"].item() == pytest.approx(whole)


def test_a_term_without_weight_is_not_computed() -> None:
    logits, label = random_case()
    nothing = dict.fromkeys(
        [f"{name}_weight" for name in ("bce", "dice", "cldice", "skeleton", "surface", "topology")], 0.0
    )
    for name in TERMS:
        only = LossSettings(**nothing | {f"{name}_weight": 1.0})
        assert list(segmentation_loss([logits], as_bytes(label), only, with_surface=True)) == ["total", name]


def test_a_step_without_any_term_has_a_gradient_of_zero_for_every_output() -> None:
    _, label = random_case((1, 1, 8, 8, 8))
    outputs = [torch.randn(1, 1, edge, edge, edge, requires_grad=True) for edge in (8, 4, 2)]
    settings = LossSettings(bce_weight=0, dice_weight=0, surface_weight=1)
    total = segmentation_loss(outputs, as_bytes(label), settings, with_surface=False)["total"]
    total.backward()
    assert total.item() == 0
    assert all(output.grad is not None and not output.grad.any() for output in outputs)


def test_the_distance_from_a_worker_gives_the_same_loss_to_the_bit() -> None:
    logits, label = random_case()
    valid = random_mask(label)
    byte_label = as_bytes(label, valid)
    far = torch.stack([torch.from_numpy(distance_to((patch == 1).numpy())) for patch in byte_label])
    assert far.shape == label.shape
    assert far.max() <= DISTANCE_CAP
    here, there = (
        segmentation_loss([logits], byte_label, LossSettings(), with_surface=True, label_distance=distance)
        for distance in (None, far)
    )
    assert here["surface"].item() == there["surface"].item() > 0


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16], ids=str)
def test_losses_of_half_precision_outputs_are_computed_in_float32(half: torch.dtype) -> None:
    # More voxels than float16 can count.
    _, label = random_case((1, 1, 48, 48, 48))
    outputs = [torch.randn(1, 1, edge, edge, edge).to(half).requires_grad_() for edge in (48, 24)]
    terms = segmentation_loss(outputs, as_bytes(label), ALL, with_surface=True)
    assert all(value.dtype == torch.float32 and value.isfinite() for value in terms.values())
    expected = segmentation_loss([output.float() for output in outputs], as_bytes(label), ALL, with_surface=True)
    assert terms["total"].item() == expected["total"].item()
    terms["total"].backward()
    assert all(output.grad is not None and output.grad.dtype == half for output in outputs)


def test_coarser_outputs_count_half_each_and_all_together_one() -> None:
    assert level_shares(1) == [1]
    assert level_shares(3) == pytest.approx([4 / 7, 2 / 7, 1 / 7])


def test_all_levels_reach_the_total() -> None:
    _, label = random_case((1, 1, 8, 8, 8))
    outputs = [torch.zeros(1, 1, edge, edge, edge, dtype=torch.float64, requires_grad=True) for edge in (8, 4, 2)]
    segmentation_loss(outputs, as_bytes(label), LossSettings(), with_surface=True)["total"].backward()
    assert all(output.grad is not None and output.grad.any() for output in outputs)


def test_a_shrunk_label_keeps_a_sheet_whole() -> None:
    label = torch.zeros(1, 1, 8, 8, 8, dtype=torch.bool)
    label[:, :, :, 3] = True  # one voxel thick, on a plane that every second-voxel sampling would miss
    small, _ = shrink(label, None)
    assert small.shape == (1, 1, 4, 4, 4)
    assert small[0, 0, :, 1].all()
    assert small.sum() == 16


@pytest.mark.parametrize("shape", [(8, 8, 8), (7, 9, 5), (1, 2, 3)])
def test_shrinking_is_pooling_of_pairs_in_which_a_last_odd_voxel_stays_alone(shape: tuple[int, ...]) -> None:
    _, label = random_case((2, 1, *shape))
    small, _ = shrink(label.bool(), None)
    assert torch.equal(small.double(), functional.max_pool3d(label, 2, ceil_mode=True))


def test_a_coarse_voxel_is_surface_if_any_is_and_unknown_if_it_might_be() -> None:
    ignore = IGNORE
    fine = torch.tensor([[0, 0], [1, ignore], [0, ignore], [ignore, ignore], [1, 0]], dtype=torch.uint8)
    fine = fine.reshape(1, 1, 1, 1, 10)
    small, valid = shrink(fine == 1, fine != ignore)
    assert valid is not None
    assert small.flatten().tolist() == [False, True, False, False, True]
    assert valid.flatten().tolist() == [True, True, False, False, True]


def test_what_nobody_knows_matters_at_no_level() -> None:
    _, label = random_case((1, 1, 8, 8, 8))
    byte_label = as_bytes(label)
    byte_label[..., 4:] = IGNORE
    outputs = [torch.randn(1, 1, edge, edge, edge, requires_grad=True) for edge in (8, 4, 2)]
    segmentation_loss(outputs, byte_label, ALL, with_surface=True)["total"].backward()
    for output in outputs:
        assert output.grad is not None
        half = output.shape[-1] // 2
        assert output.grad[..., :half].any()
        assert not output.grad[..., half:].any()
