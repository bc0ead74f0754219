"""Terms that compare skeletons, in which a thin sheet weighs as much as a thick one: clDice and skeleton recall.

A skeleton is what an opening takes away: from the volume, from the volume eroded once, twice and so on. That of a
sheet is a sheet.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from vtune.pipelines.unet3d.morphology import dilate, erode, morphological_skeleton, through_dilation, through_erosion


def cldice(logits: Tensor, label: Tensor, valid: Tensor | None = None, *, iterations: int) -> Tensor:
    """One minus clDice of Shit et al. (2021), averaged over the batch's patches.

    That is the harmonic mean of how much of the predicted skeleton lies in the true surface, and how much of the true
    skeleton in the predicted one.
    """
    probability = logits.sigmoid()
    if valid is not None:
        # Before the skeletons: otherwise a prediction that is right wherever it can be would have another one.
        probability, label = probability * valid, label * valid
    predicted = soft_skeleton(probability, iterations)
    # Of bytes: a quarter of the memory, and of the time.
    true = soft_skeleton(label.detach().to(torch.uint8), iterations).to(probability.dtype)
    precision = _share(predicted, label)
    sensitivity = _share(true, probability)
    return 1 - (2 * precision * sensitivity / (precision + sensitivity)).mean()


def skeleton_recall(logits: Tensor, label: Tensor, valid: Tensor | None = None, *, iterations: int) -> Tensor:
    """How much of the label's skeleton is not predicted, averaged over the batch's patches.

    After the skeleton recall of Kirchhoff et al. (2024), with a morphological skeleton in the place of their thinning,
    which would leave lines of a sheet. No gradient passes through a skeleton.
    """
    if valid is not None:
        label = label * valid
    skeleton = morphological_skeleton(label.detach() >= 0.5, iterations).to(logits.dtype)
    return 1 - _share(skeleton, logits.sigmoid()).mean()


def _share(of: Tensor, inside: Tensor) -> Tensor:
    axes = tuple(range(1, of.ndim))
    # One voxel of smoothing, as in Dice: nothing is wholly inside of anything.
    return ((of * inside).sum(axes) + 1) / (of.sum(axes) + 1)


def soft_skeleton(x: Tensor, iterations: int) -> Tensor:
    """The soft skeleton of Shit et al. (2021) of numbers in [0, 1], or of bytes that are 0 or 1.

    Erosion takes the six neighbours and dilation all 26, as theirs do. Structures that outlast `iterations` erosions
    have no skeleton within.
    """
    skeleton: Tensor = _SoftSkeleton.apply(x, iterations)
    return skeleton


class _SoftSkeleton(Function):
    """Keeps two arrays an iteration and computes the rest again on the way back, where autograd would keep dozens."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, iterations: int) -> Tensor:
        images, unclaimed = [x], [torch.ones_like(x)]
        for _ in range(iterations + 1):
            eroded = erode(images[-1])
            # Each level adds its share of what the levels before it left: one minus the product of what they leave.
            left = (1 - _ridge(images[-1], dilate(eroded))).mul_(unclaimed[-1])
            images.append(eroded)
            unclaimed.append(left)
        skeleton = 1 - unclaimed.pop()
        ctx.save_for_backward(*images, *unclaimed)
        return skeleton

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None]:
        levels = len(ctx.saved_tensors) // 2
        images, unclaimed = ctx.saved_tensors[: levels + 1], ctx.saved_tensors[levels + 1 :]
        to_unclaimed = -gradient
        to_image: Tensor | None = None
        for level in reversed(range(levels)):
            image, eroded = images[level], images[level + 1]
            opened = dilate(eroded)
            to_opened = torch.gt(image, opened, out=torch.empty_like(image)).mul_(unclaimed[level]).mul_(to_unclaimed)
            to_unclaimed = (1 - _ridge(image, opened)).mul_(to_unclaimed)
            to_eroded = through_dilation(eroded, to_opened)
            if to_image is not None:
                to_eroded += to_image
            to_image = through_erosion(image, to_eroded).sub_(to_opened)
        return to_image, None


def _ridge(image: Tensor, opened: Tensor) -> Tensor:
    """What the opening takes away. Not below 0, in bytes either: dilation by 26 may put back more than there was."""
    return image - torch.minimum(image, opened)
