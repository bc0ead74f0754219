"""How far predicted and true surface are apart: a Euclidean distance transform on the CPU inside of the loss.

It is exact and slow, and it takes the device's results to the host and back, so the training asks for it on every
n-th step only (`training.surface_distance_interval`).
"""

import threading

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

# Beyond this many voxels far is far: otherwise one false voxel in an empty corner outweighs every real surface.
DISTANCE_CAP = 10.0

# scipy's transform holds some 30 bytes a voxel while it runs. One at a time, or replicas that compute their losses in
# threads have their peaks together and the host runs out of memory.
_ONE_AT_A_TIME = threading.Lock()


def surface_distance(logits: Tensor, label: Tensor) -> Tensor:
    """Squared error of each voxel times its distance to the true and to the predicted surface, of the cap, averaged.

    The differentiable Hausdorff loss of Karimi and Salcudean (2019) with capped, linear distances. Their gradient
    reaches the probabilities; the distances are constants.
    """
    probability = logits.sigmoid()
    predicted = (probability.detach() >= 0.5).cpu().numpy()
    true = (label.detach() >= 0.5).cpu().numpy()
    far = np.stack([distance_to(a) + distance_to(b) for a, b in zip(true, predicted, strict=True)])
    weight = torch.from_numpy(far).to(logits.device) / DISTANCE_CAP
    return ((probability - label) ** 2 * weight).mean()


def distance_to(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
    """Voxels from each place to the nearest one of the mask, at most the cap. Leading axes of length 1 are kept."""
    # Imported when needed: spawned loader workers import the training script, and with it this module, but never
    # compute a loss.
    from scipy import ndimage

    if not mask.any():
        # The transform has no answer when there is nothing to be near to.
        return np.full(mask.shape, DISTANCE_CAP, dtype=np.float32)
    with _ONE_AT_A_TIME:
        distance: npt.NDArray[np.float64] = ndimage.distance_transform_edt(~mask)
    return np.minimum(distance, DISTANCE_CAP).astype(np.float32)
