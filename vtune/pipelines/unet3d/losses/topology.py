"""Do the pieces hang together as they should? Compares Euler characteristics, window by window.

The Euler characteristic of a set of voxels is its pieces, minus its tunnels, plus its cavities: a sheet has 1, with a
hole in it 0, two sheets have 2, and two that touch at one place 1. Of probabilities it is the mean over all
thresholds, an Euler integral (Baryshnikov and Ghrist 2010), and has a gradient: where two sheets are bridged, it
points to the bridge. As a measure of segmentations: Li et al. 2025, "Topology Optimization in Medical Image
Segmentation With Fast χ Euler Characteristic".
"""

import torch
from torch import Tensor
from torch.nn import functional

# Small enough for the numbers of one window to be about one place: two faults of opposite sign in it cancel out.
WINDOW = 16


def euler_difference(logits: Tensor, label: Tensor, valid: Tensor | None = None) -> Tensor:
    """The mean of d / (1 + d) over all windows, d being the difference of predicted and true Euler characteristic.

    So a window counts from 0, right, to 1, hopeless: noise, which has hundreds of pieces and tunnels, is not hundreds
    of times worse than a bridge, and the term can be weighed against Dice.
    """
    probability = logits.sigmoid()
    if valid is not None:
        probability, label = probability * valid, label * valid
    predicted = euler_characteristic(_windows(probability))
    true = euler_characteristic(_windows(label.detach().to(torch.uint8)))
    difference = (predicted - true).abs()
    wrong = difference / (1 + difference)
    if valid is None:
        return wrong.mean()
    known = (_windows(valid).amax((0, 1, 2)) > 0).to(wrong.dtype)
    return (wrong * known).sum() / known.sum().clamp(min=1)


def euler_characteristic(volumes: Tensor) -> Tensor:
    """Of each of n volumes, (z, y, x, n), with the mean over all thresholds in (0, 1] for numbers in between.

    A volume's voxels are the vertices of a cubical complex: neighbours span an edge, four a square, eight a cube (so
    voxels that touch by an edge or a corner only are apart), and a cell is there as long as its lowest voxel is. The
    sum over all cells of (-1)^dimension times the lowest voxel is therefore a sum over voxels, each times the signed
    number of cells whose lowest it is. Autograd keeps that number, one byte a voxel, and nothing of the cells.
    """
    cells = _cells_by_lowest_voxel(volumes.detach(), (0, 1, 2))
    return (cells * volumes).sum((0, 1, 2))


def _cells_by_lowest_voxel(values: Tensor, axes: tuple[int, ...]) -> Tensor:
    """For each value the number of cells along these axes that it is the lowest of: those of even dimension minus those
    of odd. Of equals the first is the lowest. 27 cells touch a voxel, so a byte is enough."""
    if not axes:
        return torch.ones_like(values, dtype=torch.int8)
    axis, *rest = axes
    count = values.shape[axis] - 1
    first, second = values.narrow(axis, 0, count), values.narrow(axis, 1, count)
    cells = _cells_by_lowest_voxel(values, tuple(rest))
    # Those that reach over two voxels along this axis: a dimension more, so their sign is the other one.
    longer = _cells_by_lowest_voxel(torch.minimum(first, second), tuple(rest))
    of_first = longer * (first <= second).view(torch.int8)
    cells.narrow(axis, 0, count).sub_(of_first)
    cells.narrow(axis, 1, count).sub_(longer.sub_(of_first))
    return cells


def _windows(volumes: Tensor) -> Tensor:
    """(batch, 1, z, y, x) cut into cubes, with zeros around it where it needs them: (WINDOW, WINDOW, WINDOW, windows).

    The windows come last, so that neighbours along any axis are whole rows of memory apart.
    """
    missing = [-edge % WINDOW for edge in volumes.shape[2:]]
    padded = functional.pad(volumes, [0, missing[2], 0, missing[1], 0, missing[0]])
    depth, height, width = (edge // WINDOW for edge in padded.shape[2:])
    cut = padded.reshape(-1, depth, WINDOW, height, WINDOW, width, WINDOW)
    return cut.permute(2, 4, 6, 0, 1, 3, 5).reshape(WINDOW, WINDOW, WINDOW, -1)
