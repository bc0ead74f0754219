"""The weighted sum of all terms over all outputs of the network."""

from torch import Tensor
from torch.nn import functional

from vtune.pipelines.unet3d.losses.overlap import soft_dice, weighted_bce
from vtune.pipelines.unet3d.losses.surface import surface_distance
from vtune.pipelines.unet3d.settings import LossSettings


def segmentation_loss(
    logits: list[Tensor], label: Tensor, settings: LossSettings, *, with_surface: bool
) -> dict[str, Tensor]:
    """`total` is for backward; the others are its unweighted terms: `bce`, `dice` and, when asked for, `surface`."""
    terms: dict[str, Tensor] = {}
    for output, share in zip(logits, level_shares(len(logits)), strict=True):
        target = shrink(label, output)
        for name, value in (
            ("bce", weighted_bce(output, target, settings.positive_weight)),
            ("dice", soft_dice(output, target)),
        ):
            terms[name] = terms[name] + share * value if name in terms else share * value
    total = settings.bce_weight * terms["bce"] + settings.dice_weight * terms["dice"]
    if with_surface:
        # At full resolution only: coarse surfaces are too thick for a distance to mean much.
        terms["surface"] = surface_distance(logits[0], label)
        total = total + settings.surface_weight * terms["surface"]
    return {"total": total, **terms}


def level_shares(levels: int) -> list[float]:
    """Each coarser output counts half of the one before it; together they count 1."""
    whole = sum(0.5**level for level in range(levels))
    return [0.5**level / whole for level in range(levels)]


def shrink(label: Tensor, output: Tensor) -> Tensor:
    """The label at an output's resolution. By maximum: a surface three voxels thick would be torn by skipping some."""
    if label.shape == output.shape:
        return label
    return functional.adaptive_max_pool3d(label, output.shape[2:])
