"""Whole volumes segmented and judged: what that holds, whatever the volume's size."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from vtune.pipelines.unet3d.data.records import Record, StoredRecord, SyntheticRecord
from vtune.pipelines.unet3d.data.volumes import DataError
from vtune.pipelines.unet3d.model import UNet3D
from vtune.pipelines.unet3d.ranks import Ranks
from vtune.pipelines.unet3d.settings import Settings, load_settings
from vtune.pipelines.unet3d.validate import score, validate

PLANE = (96, 96)


@pytest.fixture
def settings(write_config) -> Settings:
    return load_settings(write_config({"data.patch_size": [8, 40, 40]}))


def stored(folder: Path, depth: int) -> Record:
    for kind in ("image", "label"):
        np.save(folder / f"{kind}.npy", np.tile(np.eye(96, dtype=np.uint8), (depth, 1, 1)))
    paths = {kind: str(folder / f"{kind}.npy") for kind in ("image", "label")}
    return StoredRecord(name="scan", **paths, chunk=(32, 32, 32), ignore_label=None)


def synthetic(folder: Path, depth: int) -> Record:
    return SyntheticRecord(number=0, seed=0, size=(depth, *PLANE), chunk=(16, 48, 48))


def probability(windows: np.ndarray) -> torch.Tensor:
    return torch.from_numpy((windows > 0).astype(np.float32))


def ignored(folder: Path, name: str, *, share: float) -> Record:
    image = np.tile(np.eye(48, dtype=np.uint8), (20, 1, 1))
    label = image.copy()
    label[: round(20 * share)] = 2
    for kind, array in (("image", image), ("label", label)):
        np.save(folder / f"{name}.{kind}.npy", array)
    paths = {kind: str(folder / f"{name}.{kind}.npy") for kind in ("image", "label")}
    return StoredRecord(name=name, **paths, chunk=(32, 32, 32), ignore_label=2)


def test_a_record_of_which_nobody_knows_anything_does_not_judge(settings: Settings, tmp_path: Path) -> None:
    model, ranks = UNet3D(settings.model), Ranks(rank=0, count=1, device=torch.device("cpu"))
    unknown, known = (ignored(tmp_path, name, share=share) for name, share in (("unknown", 1.0), ("known", 0.5)))
    options: dict[str, Any] = {"settings": settings, "ranks": ranks, "is_stopped": lambda: False}
    found = validate(model, [unknown, known], **options)
    assert found is not None
    assert list(found.records) == ["known"]
    assert found.means == found.records["known"]
    with pytest.raises(DataError, match="^unknown: no voxel of the records that judge is known$"):
        validate(model, [unknown], **options)


@pytest.mark.parametrize("record", [stored, pytest.param(synthetic, marks=pytest.mark.slow)])
def test_a_larger_volume_takes_no_more_memory(settings: Settings, tmp_path: Path, record) -> None:
    def peak(depth: int) -> int:
        judged = record(tmp_path, depth)
        tracemalloc.start()
        try:
            score(judged, probability, settings)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few, many = peak(300), peak(900)
    assert many < 1.05 * few, f"{few} bytes for 300 planes, {many} for 900"
