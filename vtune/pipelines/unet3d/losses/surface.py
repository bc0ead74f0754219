"""How far predicted and true surface are apart: a Euclidean distance transform on the CPU inside of the loss.

It takes the device's results to the host and back, and the device waits, so the training asks for it on every n-th
step only (`training.surface_distance_interval`). The half of it that needs no prediction, the distance to the true
surface, may be computed by the loader's workers instead (`loss.surface_place`).
"""

import threading

import numpy as np
import torch
from torch import Tensor

from vtune.pipelines.unet3d.distance import DISTANCE_CAP, distance_to

# One patch at a time, some ten bytes a voxel: otherwise replicas that compute their losses in threads would have their
# peaks together, and take turns on the same cores all the same.
_ONE_AT_A_TIME = threading.Lock()


def surface_error(
    logits: Tensor, label: Tensor, valid: Tensor | None = None, label_distance: Tensor | None = None
) -> Tensor:
    """Squared error of each voxel times its distance to the true and to the predicted surface, of the cap, averaged.

    The differentiable Hausdorff loss of Karimi and Salcudean (2019) with capped, linear distances. Their gradient
    reaches the probabilities; the distances are constants. `label_distance` is what `DistanceInWorker` made of the
    label.
    """
    probability = logits.sigmoid()
    predicted, true = logits.detach() >= 0, label.detach() >= 0.5
    if valid is not None:
        known = valid > 0
        predicted, true = predicted & known, true & known
    if label_distance is None:
        label_distance = _distances(true)
    weight = (_distances(predicted) + label_distance) / DISTANCE_CAP
    error = (probability - label) ** 2 * weight
    if valid is None:
        return error.mean()
    return (error * valid).sum() / valid.sum().clamp(min=1)


def _distances(masks: Tensor) -> Tensor:
    """Of each patch of a batch, one after another."""
    far = np.empty(masks.shape, dtype=np.float32)
    for place, mask in zip(far, masks.cpu().numpy(), strict=True):
        with _ONE_AT_A_TIME:
            place[...] = distance_to(mask)
    return torch.from_numpy(far).to(masks.device)
