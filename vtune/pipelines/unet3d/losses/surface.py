"""How far predicted and true surface are apart: a Euclidean distance transform on the CPU inside of the loss.

It takes the device's results to the host and back, and the device waits, so the training asks for it on every n-th
step only (`training.surface_distance_interval`). The half of it that needs no prediction, the distance to the true
surface, may be computed by the loader's workers instead (`loss.surface_place`).
"""

import contextlib
import fcntl
import math
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

# Beyond this many voxels far is far: otherwise one false voxel in an empty corner outweighs every real surface.
DISTANCE_CAP = 10.0

# One patch at a time, some ten bytes a voxel: otherwise replicas that compute their losses in threads would have their
# peaks together, and take turns on the same cores all the same.
_ONE_AT_A_TIME = threading.Lock()


def surface_distance(
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


@dataclass(frozen=True, slots=True)
class DistanceInWorker:
    """The distance to a label's surface, computed by one of all the processes that share the lock's path at a time.

    The lock is the operating system's: it ends with the process that holds it, however that ends.
    """

    lock_path: Path

    def __call__(self, label: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
        with _locked(self.lock_path):
            return distance_to(label)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    # Opened anew each time: a lock belongs to what was opened, and a forked worker would share its parent's.
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def distance_to(mask: npt.NDArray[np.bool_], cap: float = DISTANCE_CAP) -> npt.NDArray[np.float32]:
    """Voxels from each place to the nearest one of the mask, at most the cap. The mask may have any number of axes.

    Exact. Squared distances are whole numbers, and bytes if the cap is small: the least over all shifts, along one axis
    after another, takes a fraction of the time of scipy's transform or of edt's, which know of no cap.
    """
    reach = math.ceil(cap)
    # The largest sum is one of two squares that are both out of reach.
    far = np.full(mask.shape, reach**2, dtype=np.uint8 if 2 * reach**2 < 256 else np.int32)
    far[mask] = 0
    squared = torch.from_numpy(far)
    for axis in range(far.ndim):
        squared = _least_along(squared, axis, reach)
    distance: npt.NDArray[np.float32] = squared.numpy().astype(np.float32)
    # By NumPy: PyTorch's square root is the one of MKL, which may be a bit off, on some processors and not on others.
    np.sqrt(distance, out=distance)
    return np.minimum(distance, np.float32(cap), out=distance)


def _least_along(squared: Tensor, axis: int, reach: int) -> Tensor:
    """The least, over all places on the same line, of what they have and the square of how far they are."""
    length = squared.shape[axis]
    least, further = squared.clone(), torch.empty_like(squared)
    for step in range(1, min(reach, length)):
        torch.add(squared, step**2, out=further)
        before, behind = least.narrow(axis, 0, length - step), least.narrow(axis, step, length - step)
        torch.minimum(before, further.narrow(axis, step, length - step), out=before)
        torch.minimum(behind, further.narrow(axis, 0, length - step), out=behind)
    return least
