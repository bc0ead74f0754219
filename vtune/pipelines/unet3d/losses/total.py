"""The weighted sum of all terms over all outputs of the network."""

import torch
from torch import Tensor

from vtune.pipelines.unet3d.data.volumes import IGNORE, SURFACE
from vtune.pipelines.unet3d.losses.overlap import soft_dice, weighted_bce
from vtune.pipelines.unet3d.losses.skeleton import cldice, skeleton_recall
from vtune.pipelines.unet3d.losses.surface import surface_error
from vtune.pipelines.unet3d.losses.topology import euler_difference
from vtune.pipelines.unet3d.settings import LossSettings


def segmentation_loss(
    logits: list[Tensor],
    label: Tensor,
    settings: LossSettings,
    *,
    with_surface: bool,
    label_distance: Tensor | None = None,
) -> dict[str, Tensor]:
    """`total` is for backward; the others are its unweighted terms, those that have a weight and are asked for.

    The label has bytes: 0, SURFACE or IGNORE. `label_distance`: see `surface_error`.
    """
    # Of half precision, a sum over a patch would be infinite.
    outputs = [output.float() if output.dtype in (torch.float16, torch.bfloat16) else output for output in logits]
    levels = _levels(outputs, label == SURFACE, _known(label))
    finest, iterations = levels[0], settings.skeleton_iterations
    weights = {
        "bce": settings.bce_weight,
        "dice": settings.dice_weight,
        "cldice": settings.cldice_weight,
        "skeleton": settings.skeleton_weight,
        "surface": settings.surface_weight if with_surface else 0.0,
        "topology": settings.topology_weight,
    }
    terms: dict[str, Tensor] = {}
    if weights["bce"] > 0:
        terms["bce"] = _over_levels([weighted_bce(*one, positive_weight=settings.positive_weight) for one in levels])
    if weights["dice"] > 0:
        terms["dice"] = _over_levels([soft_dice(*one) for one in levels])
    # At full resolution only: coarse surfaces are too thick for a skeleton, a distance or a hole to mean much.
    if weights["cldice"] > 0:
        terms["cldice"] = cldice(*finest, iterations=iterations)
    if weights["skeleton"] > 0:
        terms["skeleton"] = skeleton_recall(*finest, iterations=iterations)
    if weights["surface"] > 0:
        terms["surface"] = surface_error(*finest, label_distance)
    if weights["topology"] > 0:
        terms["topology"] = euler_difference(*finest)
    parts = [weights[name] * value for name, value in terms.items()]
    if not {"bce", "dice"} & terms.keys():
        # A gradient of 0 for each output that no term looks at: parallel ranks wait for the gradient of every weight.
        parts += [0 * output.mean() for output in outputs]
    return {"total": torch.stack(parts).sum(), **terms}


def _known(label: Tensor) -> Tensor | None:
    """1 where the label is known, or None where all is. On a device nobody asks: the host would wait for the answer
    longer than a mask of ones takes."""
    valid = label != IGNORE
    return None if label.device.type == "cpu" and bool(valid.all()) else valid


def _levels(outputs: list[Tensor], surface: Tensor, valid: Tensor | None) -> list[tuple[Tensor, Tensor, Tensor | None]]:
    """Each output with its label and mask, at its resolution and of its type."""
    levels = []
    for level, output in enumerate(outputs):
        if level > 0:
            surface, valid = shrink(surface, valid)
        mask = None if valid is None else valid.to(output.dtype)
        levels.append((output, surface.to(output.dtype), mask))
    return levels


def shrink(surface: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Label and mask at half the resolution; a last odd voxel stays alone, as in the network.

    By maximum, not by skipping, which would tear a surface three voxels thick. What has surface in it is surface and
    known to be; otherwise it is known if all of it is.
    """
    small = _any_of_pairs(surface)
    return small, None if valid is None else small | ~_any_of_pairs(~valid)


def _any_of_pairs(mask: Tensor) -> Tensor:
    for axis in (-3, -2, -1):
        along = mask.movedim(axis, 0)
        halved = along[::2].clone()
        halved[: len(along) // 2] |= along[1::2]
        mask = halved.movedim(0, axis)
    return mask.contiguous()


def _over_levels(values: list[Tensor]) -> Tensor:
    shares = level_shares(len(values))
    return torch.stack([share * value for share, value in zip(shares, values, strict=True)]).sum()


def level_shares(levels: int) -> list[float]:
    """Each coarser output counts half of the one before it; together they count 1."""
    whole = sum(0.5**level for level in range(levels))
    return [0.5**level / whole for level in range(levels)]
