"""Terms that compare voxel by voxel: weighted cross-entropy and soft Dice."""

from torch import Tensor
from torch.nn import functional


def weighted_bce(logits: Tensor, label: Tensor, positive_weight: float) -> Tensor:
    """Binary cross-entropy; a surface voxel counts `positive_weight` times, since there are far fewer of them."""
    # Filled on the device: a tensor made from a Python number would be copied there, and the host would wait.
    weight = logits.new_full((), positive_weight)
    return functional.binary_cross_entropy_with_logits(logits, label, pos_weight=weight)


def soft_dice(logits: Tensor, label: Tensor) -> Tensor:
    """One minus Dice of probabilities, averaged over the batch's patches, so that none drowns in another."""
    axes = tuple(range(1, logits.ndim))
    probability = logits.sigmoid()
    overlap = (probability * label).sum(axes)
    total = probability.sum(axes) + label.sum(axes)
    # One voxel of smoothing: a patch without surface and without prediction is perfect, not 0 / 0.
    return 1 - ((2 * overlap + 1) / (total + 1)).mean()
