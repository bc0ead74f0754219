"""Terms that compare voxel by voxel: weighted cross-entropy and soft Dice.

As in all terms, the label is 0 or 1 and `valid` is 0 where nobody knows it: such a voxel counts nowhere, whatever is
predicted there. Without `valid` all are known.
"""

from torch import Tensor
from torch.nn import functional


def weighted_bce(logits: Tensor, label: Tensor, valid: Tensor | None = None, *, positive_weight: float) -> Tensor:
    """Binary cross-entropy; a surface voxel counts `positive_weight` times, since there are far fewer of them."""
    # Filled on the device: a tensor made from a Python number would be copied there, and the host would wait.
    weight = logits.new_full((), positive_weight)
    if valid is None:
        return functional.binary_cross_entropy_with_logits(logits, label, pos_weight=weight)
    whole = functional.binary_cross_entropy_with_logits(logits, label, valid, pos_weight=weight, reduction="sum")
    return whole / valid.sum().clamp(min=1)


def soft_dice(logits: Tensor, label: Tensor, valid: Tensor | None = None) -> Tensor:
    """One minus Dice of probabilities, averaged over the batch's patches, so that none drowns in another."""
    axes = tuple(range(1, logits.ndim))
    probability = logits.sigmoid()
    if valid is not None:
        probability, label = probability * valid, label * valid
    overlap = (probability * label).sum(axes)
    total = probability.sum(axes) + label.sum(axes)
    # One voxel of smoothing: a patch without surface and without prediction is perfect, not 0 / 0.
    return 1 - ((2 * overlap + 1) / (total + 1)).mean()
