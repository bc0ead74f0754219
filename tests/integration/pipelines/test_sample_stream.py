"""The stream of samples, from real loader processes: the same bits, whoever reads it and wherever it is stored."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from vtune.pipelines.unet3d.data.patches import EpochWindow, Patch, ScrollPatches
from vtune.pipelines.unet3d.data.records import checked_records, find_records
from vtune.pipelines.unet3d.settings import AugmentationSettings, DataSettings
from vtune.pipelines.unet3d.write_volumes import write_volumes

SAMPLES = 12
DATA = DataSettings(
    records=5,
    patches_per_record=2,
    volume_size=(40, 48, 56),
    chunk_size=(24, 24, 24),
    patch_size=(16, 20, 24),
)
EVERYTHING = AugmentationSettings(elastic_spacing=8, intensity_probability=0.6)


@pytest.fixture(scope="module")
def expected() -> list[str]:
    return hashes(DATA, workers=0)


def loader(data: DataSettings, window: EpochWindow, *, workers: int, start: str) -> DataLoader[Patch]:
    return DataLoader(
        ScrollPatches(find_records(data), data, EVERYTHING),
        sampler=window,
        batch_size=2,
        num_workers=workers,
        multiprocessing_context=start if workers else None,
        # A fresh interpreter with PyTorch in it takes seconds: one for both epochs.
        persistent_workers=workers > 0 and start == "spawn",
    )


def hashes(data: DataSettings, *, workers: int, start: str = "fork") -> list[str]:
    """Of every sample of two epochs, in the order of their arrival."""
    # As the training has it: with several threads its process sums in another order than a worker does.
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        window = EpochWindow(SAMPLES // 2, batch=2)
        batches = loader(data, window, workers=workers, start=start)
        found = []
        for epoch in range(2):
            window.epoch = epoch
            for batch in batches:
                found += [hashlib.sha256(b"".join(tensor[i].numpy().tobytes() for tensor in batch)) for i in range(2)]
        return [digest.hexdigest() for digest in found]
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_any_number_of_workers_however_started_gives_the_same_stream(
    workers: int, start: str, expected: list[str]
) -> None:
    assert len(set(expected)) == SAMPLES
    assert hashes(DATA, workers=workers, start=start) == expected


@pytest.mark.parametrize(
    ("kind", "package"), [("npy", "numpy"), ("tiff", "tifffile"), ("tiff-stack", "tifffile"), ("zarr", "zarr")]
)
def test_the_stream_is_the_same_from_every_format_in_forked_workers(
    kind: str, package: str, tmp_path: Path, expected: list[str]
) -> None:
    """Forked after the training's process has opened all volumes itself, with what threads their packages started."""
    pytest.importorskip(package)
    write_volumes(DATA, tmp_path, kind=kind, compress=kind != "npy")
    data = replace(DATA, images=str(tmp_path / "images"), labels=str(tmp_path / "labels"))
    checked_records(data)
    assert hashes(data, workers=0) == expected
    assert hashes(data, workers=2) == expected


def test_two_ranks_see_each_sample_once_and_what_one_would_see_with_twice_the_batch() -> None:
    shares = []
    for rank in range(2):
        window = EpochWindow(SAMPLES, batch=2, rank=rank, ranks=2)
        shares.append(list(loader(DATA, window, workers=1, start="fork")))
    assert [len(share) for share in shares] == [3, 3]
    numbers = [int(number) for share in shares for batch in share for number in batch.origin[:, 0]]
    assert sorted(numbers) == list(range(SAMPLES))

    alone = DataLoader(
        ScrollPatches(find_records(DATA), DATA, EVERYTHING), sampler=EpochWindow(SAMPLES, batch=4), batch_size=4
    )
    for whole, first, second in zip(alone, *shares, strict=True):
        for one, a, b in zip(whole, first, second, strict=True):
            assert torch.equal(one, torch.cat([a, b]))
