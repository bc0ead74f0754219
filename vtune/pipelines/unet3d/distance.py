"""How far each voxel is from the nearest one of a mask, and how the loader's workers take turns at measuring it."""

import contextlib
import fcntl
import math
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

# Beyond this many voxels far is far: otherwise one false voxel in an empty corner outweighs every real surface.
DISTANCE_CAP = 10.0


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


@dataclass(frozen=True, slots=True)
class DistanceInWorker:
    """The distance to a label's surface, for the samples that need it, computed by one of all the processes that share
    the lock's path at a time.

    The lock is the operating system's: it ends with the process that holds it, however that ends.
    """

    lock_path: Path
    is_needed: Callable[[int], bool]  # by the sample's number

    def __call__(self, number: int, surface: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32] | None:
        if not self.is_needed(number):
            return None
        with _locked(self.lock_path):
            return distance_to(surface)


def lock_of_run(output_dir: str) -> Path:
    """One for all workers of all ranks on this machine, which may share the folder with others."""
    return Path(output_dir, f".distances.{platform.node()}.lock")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    # Opened anew each time: a lock belongs to what was opened, and a forked worker would share its parent's.
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
