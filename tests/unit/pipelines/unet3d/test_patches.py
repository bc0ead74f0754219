from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from vtune.pipelines.unet3d.data.patches import EpochWindow, Patch, ScrollPatches
from vtune.pipelines.unet3d.settings import Settings, load_settings
from vtune.pipelines.unet3d.train import make_loader


@pytest.fixture
def settings(write_config) -> Settings:
    return load_settings(write_config())


def digest(batches: list[Patch]) -> str:
    """Of all samples in their order, whatever the batches that they came in."""
    content = hashlib.sha256()
    for field in range(3):
        content.update(torch.cat([batch[field] for batch in batches]).numpy().tobytes())
    return content.hexdigest()


def read_epochs(path: Path, *, epochs: int = 2, samples: int = 8) -> list[Patch]:
    window = EpochWindow(samples)
    loader = make_loader(load_settings(path), window, torch.device("cpu"))
    batches: list[Patch] = []
    for epoch in range(epochs):
        window.epoch = epoch
        batches.extend(loader)
    return batches


def test_any_number_of_workers_gives_the_same_samples_in_the_same_order(write_config) -> None:
    digests = {digest(read_epochs(write_config({"training.workers": workers}))) for workers in (0, 1, 2)}
    assert len(digests) == 1


@pytest.mark.slow
def test_spawned_workers_give_the_same_samples_as_forked_ones(write_config) -> None:
    spawned = write_config({"training.workers": 1, "training.worker_start": "spawn"})
    first = digest(read_epochs(spawned, epochs=1))
    assert first == digest(read_epochs(write_config({"training.workers": 1}), epochs=1))


def test_any_batch_size_cuts_the_same_stream(write_config) -> None:
    digests = {digest(read_epochs(write_config({"training.train_batch_size": size}))) for size in (1, 2, 4)}
    assert len(digests) == 1


def test_persistent_workers_see_the_next_epoch_too(settings: Settings, write_config) -> None:
    """They keep the data set they were started with; the epoch must come with the sample's number."""
    window = EpochWindow(4)
    dataset = ScrollPatches(settings.data, settings.augmentation)
    loader = DataLoader(
        dataset, sampler=window, batch_size=2, num_workers=1, persistent_workers=True, multiprocessing_context="fork"
    )
    batches = list(loader)
    window.epoch = 1
    batches += list(loader)
    del loader
    assert digest(batches) == digest(read_epochs(write_config(), samples=4))


def test_epochs_differ_and_seeds_differ(write_config) -> None:
    first, second = read_epochs(write_config(), samples=2)
    assert not torch.equal(first.image, second.image)
    other = read_epochs(write_config({"data.seed": 1}), samples=2, epochs=1)
    assert not torch.equal(first.image, other[0].image)


def test_a_pass_takes_as_many_patches_from_each_record(settings: Settings) -> None:
    dataset = ScrollPatches(settings.data, settings.augmentation)
    assert len(dataset) == 12
    for turn in (0, 1):
        records = [int(dataset[number].origin[1]) for number in range(12 * turn, 12 * turn + 12)]
        assert sorted(records) == sorted(list(range(4)) * 3)


def test_a_patch_says_where_it_was_cut(settings: Settings) -> None:
    patch = ScrollPatches(settings.data, settings.augmentation)[5]
    number, record, *corner = patch.origin.tolist()
    assert number == 5
    assert 0 <= record < 4
    assert all(0 <= start <= 48 - 20 for start in corner)


def test_image_and_label_have_the_patch_size_and_the_types_that_travel_cheaply(settings: Settings) -> None:
    patch = ScrollPatches(settings.data, settings.augmentation)[0]
    assert patch.image.shape == patch.label.shape == (1, 16, 16, 16)
    assert patch.image.dtype == torch.float32
    assert patch.label.dtype == torch.uint8
    assert set(patch.label.unique().tolist()) <= {0, 1}
    assert patch.image.mean().item() == pytest.approx(0, abs=1e-4)
    assert patch.image.std().item() == pytest.approx(1, abs=1e-3)


def test_patches_around_surfaces_hold_more_of_them(write_config) -> None:
    # Volumes with much empty space, or every place would do.
    changes = {"data.patch_size": [8, 8, 8], "augmentation.spatial_probability": 0.0}

    def empty_share(probability: float) -> float:
        found = load_settings(write_config({**changes, "data.foreground_probability": probability}))
        dataset = ScrollPatches(found.data, found.augmentation)
        return sum(not dataset[number].label.any() for number in range(60)) / 60

    assert empty_share(1.0) < empty_share(0.0)


def test_a_chunk_larger_than_the_volume_is_read_as_far_as_it_goes(write_config) -> None:
    path = write_config({"data.chunk_size": [64, 64, 64], "data.foreground_probability": 1.0})
    dataset = ScrollPatches(load_settings(path).data, load_settings(path).augmentation)
    assert dataset[0].image.shape == (1, 16, 16, 16)
