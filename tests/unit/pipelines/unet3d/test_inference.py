from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from vtune.pipelines.unet3d.inference import WindowError, probability_slabs, window_starts, window_weights


def pointwise(windows: np.ndarray) -> Tensor:
    """A network that looks at nothing but the voxel itself: whatever the windows, one result for the whole volume."""
    return torch.from_numpy(windows.astype(np.float32) / 255).sigmoid()


def whole(volume: np.ndarray, segment: Any = pointwise, **options: Any) -> np.ndarray:
    slabs = dict(run(volume, segment, **options))
    assert list(slabs) == sorted(slabs)
    return np.concatenate(list(slabs.values()))


def run(
    volume: np.ndarray,
    segment: Any,
    *,
    window: tuple[int, int, int] = (8, 8, 8),
    overlap: float = 0.5,
    batch_size: int = 3,
) -> Iterator[tuple[int, np.ndarray]]:
    return probability_slabs(
        lambda first, stop: volume[first:stop], volume.shape, segment,
        window=window, overlap=overlap, batch_size=batch_size,
    )  # fmt: skip


def some_volume(*size: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, size, dtype=np.uint8)


@pytest.mark.parametrize("size", [(8, 8, 8), (9, 8, 30), (23, 17, 12), (40, 9, 11)])
@pytest.mark.parametrize("overlap", [0.0, 0.5, 0.75, 0.9])
def test_a_pointwise_network_gives_what_it_gives_of_the_whole_volume(
    size: tuple[int, int, int], overlap: float
) -> None:
    volume = some_volume(*size)
    assert np.allclose(whole(volume, overlap=overlap), pointwise(volume).numpy(), atol=2e-6)


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_the_batch_changes_no_bit(batch_size: int) -> None:
    volume = some_volume(20, 18, 16)
    assert np.array_equal(whole(volume, batch_size=batch_size), whole(volume, batch_size=4))


def test_it_is_the_weighted_mean_of_the_windows_as_done_by_hand() -> None:
    """Windows that disagree: each says a number of its own, in two whole volumes of sums and of weights."""
    volume, window, overlap = some_volume(13, 11, 9), (8, 6, 4), 0.6
    said: list[float] = []

    def disagreeing(windows: np.ndarray) -> Tensor:
        values = [float(block.astype(np.float64).mean()) for block in windows]
        said.extend(values)
        return torch.stack([torch.full(window, value) for value in values])

    found = whole(volume, disagreeing, window=window, overlap=overlap)
    sums, weights = np.zeros(volume.shape), np.zeros(volume.shape)
    bells = [np.exp(-0.5 * ((np.arange(edge) - (edge - 1) / 2) / (edge / 8)) ** 2) for edge in window]
    bell = np.einsum("i,j,k->ijk", *bells)
    starts = [window_starts(edge, width, overlap) for edge, width in zip(volume.shape, window, strict=True)]
    places = [(z, y, x) for z in starts[0] for y in starts[1] for x in starts[2]]
    assert len(places) == len(said)
    for (z, y, x), value in zip(places, said, strict=True):
        box = np.s_[z : z + window[0], y : y + window[1], x : x + window[2]]
        assert value == pytest.approx(volume[box].mean())
        sums[box] += bell * value
        weights[box] += bell
    assert np.allclose(found, sums / weights, rtol=1e-4)


@pytest.mark.parametrize(
    ("edge", "window", "overlap"), [(320, 72, 0.5), (72, 72, 0.5), (73, 72, 0.9), (1000, 136, 0.0)]
)
def test_windows_overlap_as_asked_and_reach_both_ends(edge: int, window: int, overlap: float) -> None:
    starts = window_starts(edge, window, overlap)
    assert (starts[0], starts[-1]) == (0, edge - window)
    steps = np.diff(starts)
    assert (steps <= np.ceil(window * (1 - overlap))).all()
    # One fewer would not do.
    assert len(starts) <= 2 or (edge - window) / (len(starts) - 2) > window * (1 - overlap) * 0.999
    assert len(set(steps.tolist())) <= 2


def test_weights_add_up_to_one_and_favour_the_middle() -> None:
    starts = window_starts(50, 16, 0.5)
    shares = window_weights(50, 16, starts)
    total = np.zeros(50)
    for start, share in zip(starts, shares, strict=True):
        total[start : start + 16] += share
    assert np.allclose(total, 1, atol=1e-6)
    inner = shares[len(shares) // 2]
    assert inner[8] > 0.9
    assert inner[0] < 0.01


def test_every_plane_is_read_once_and_in_order() -> None:
    volume = some_volume(30, 8, 8)
    read: list[int] = []

    def planes(first: int, stop: int) -> np.ndarray:
        read.extend(range(first, stop))
        return volume[first:stop]

    for _ in probability_slabs(planes, volume.shape, pointwise, window=(8, 8, 8), overlap=0.7, batch_size=1):
        pass
    assert read == list(range(30))


def test_a_slab_is_the_callers_to_keep() -> None:
    volume = some_volume(24, 8, 8)
    slabs = [(slab, slab.copy()) for _, slab in run(volume, pointwise)]
    assert len(slabs) > 2
    assert all(np.array_equal(slab, copy) for slab, copy in slabs)


def test_memory_is_that_of_a_patchs_depth_whatever_the_volumes() -> None:
    def peak(depth: int) -> int:
        tracemalloc.start()
        try:
            planes = np.zeros((8, 96, 96), np.uint8)
            for _ in probability_slabs(
                lambda first, stop: planes[: stop - first], (depth, 96, 96), pointwise,
                window=(8, 48, 48), overlap=0.5, batch_size=1,
            ):  # fmt: skip
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(200) < 1.05 * peak(20)


@pytest.mark.parametrize("axis", range(3))
def test_a_volume_smaller_than_the_patch_is_refused(axis: int) -> None:
    size = [8, 8, 8]
    size[axis] = 7
    with pytest.raises(WindowError, match=f"^7 voxels along {'zyx'[axis]}, a patch has 8$"):
        whole(some_volume(*size))
