from __future__ import annotations

import hashlib
import traceback
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from vtune.pipelines.unet3d.data.patches import EpochWindow, Patch, ScrollPatches
from vtune.pipelines.unet3d.data.records import find_records
from vtune.pipelines.unet3d.data.volumes import IGNORE, DataError
from vtune.pipelines.unet3d.settings import AugmentationSettings, DataSettings, Settings, load_settings

UNCHANGED = AugmentationSettings(flip_probability=0, spatial_probability=0, intensity_probability=0)


@pytest.fixture
def settings(write_config) -> Settings:
    return load_settings(write_config())


def patches(settings: Settings, **options) -> ScrollPatches:
    return ScrollPatches(find_records(settings.data), settings.data, settings.augmentation, **options)


def digest(batches: list[Patch]) -> str:
    """Of all samples in their order, whatever the batches that they came in."""
    content = hashlib.sha256()
    for field in range(4):
        content.update(torch.cat([batch[field] for batch in batches]).numpy().tobytes())
    return content.hexdigest()


def read_epochs(path: Path, *, epochs: int = 2, samples: int = 8, batch: int = 2, **options) -> list[Patch]:
    window = EpochWindow(samples, batch=batch)
    loader = DataLoader(patches(load_settings(path)), sampler=window, batch_size=batch, **options)
    batches: list[Patch] = []
    for epoch in range(epochs):
        window.epoch = epoch
        batches.extend(loader)
    return batches


def test_any_number_of_workers_gives_the_same_samples_in_the_same_order(write_config) -> None:
    in_process = digest(read_epochs(write_config()))
    for workers in (1, 2):
        assert digest(read_epochs(write_config(), num_workers=workers, multiprocessing_context="fork")) == in_process


def test_any_batch_size_cuts_the_same_stream(write_config) -> None:
    assert len({digest(read_epochs(write_config(), batch=size)) for size in (1, 2, 4)}) == 1


def test_persistent_workers_see_the_next_epoch_too(write_config) -> None:
    """They keep the data set they were started with; the epoch must come with the sample's number."""
    persistent = {"num_workers": 1, "persistent_workers": True, "multiprocessing_context": "fork"}
    kept = read_epochs(write_config(), samples=4, **persistent)
    assert digest(kept) == digest(read_epochs(write_config(), samples=4))


def test_epochs_differ_and_seeds_differ(write_config) -> None:
    first, second = read_epochs(write_config(), samples=2)
    assert not torch.equal(first.image, second.image)
    other = read_epochs(write_config({"data.seed": 1}), samples=2, epochs=1)
    assert not torch.equal(first.image, other[0].image)


def test_a_pass_takes_as_many_patches_from_each_record(settings: Settings) -> None:
    dataset = patches(settings)
    assert len(dataset) == 12
    for turn in (0, 1):
        records = [int(dataset[number].origin[1]) for number in range(12 * turn, 12 * turn + 12)]
        assert sorted(records) == sorted(list(range(4)) * 3)


def test_only_the_given_records_are_sampled(settings: Settings) -> None:
    records = find_records(settings.data)[2:3]
    dataset = ScrollPatches(records, settings.data, UNCHANGED)
    assert len(dataset) == 3
    block = records[0].open().read((0, 0, 0), (48, 48, 48))
    for number in range(6):
        patch = dataset[number]
        found, record, z, y, x = patch.origin.tolist()
        assert (found, record) == (number, 0), "the record's place in the list that was given"
        inside = (slice(z + 2, z + 18), slice(y + 2, y + 18), slice(x + 2, x + 18))
        assert np.array_equal(patch.label[0], block.label[inside])
        assert np.allclose(patch.image[0], normalized(block.image[inside]), atol=1e-4)


def test_a_patch_says_where_it_was_cut(settings: Settings) -> None:
    patch = patches(replace(settings, augmentation=UNCHANGED))[5]
    number, record, z, y, x = patch.origin.tolist()
    assert number == 5
    # Without any change it is the middle of the region, which is larger by the margin.
    block = find_records(settings.data)[record].open().read((z + 2, y + 2, x + 2), (16, 16, 16))
    assert np.array_equal(patch.label[0], block.label)


def test_image_and_label_have_the_patch_size_and_the_types_that_travel_cheaply(settings: Settings) -> None:
    patch = patches(settings)[0]
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
        dataset = patches(load_settings(write_config({**changes, "data.foreground_probability": probability})))
        return sum(not dataset[number].label.any() for number in range(60)) / 60

    assert empty_share(1.0) < empty_share(0.0)


def test_a_chunk_larger_than_the_volume_is_read_as_far_as_it_goes(write_config) -> None:
    path = write_config({"data.chunk_size": [64, 64, 64], "data.foreground_probability": 1.0})
    assert patches(load_settings(path))[0].image.shape == (1, 16, 16, 16)


def test_a_distance_is_measured_in_the_worker_when_it_is_asked_for(settings: Settings) -> None:
    asked: list[np.ndarray] = []

    def distance_to(number: int, surface: np.ndarray) -> np.ndarray | None:
        if number == 0:
            return None
        asked.append(surface)
        return np.full(surface.shape, 3, np.float32)

    without, patch = (patches(settings, distance_to=distance_to)[number] for number in (0, 1))
    assert without.distance.shape == (0,)
    assert patch.distance.shape == (1, 16, 16, 16)
    assert (patch.distance == 3).all()
    assert asked[0].dtype == bool
    assert np.array_equal(asked[0], patch.label[0] == 1)
    batch = next(iter(DataLoader(patches(settings), batch_size=2)))
    assert batch.distance.shape == (2, 0)


def stored(tmp_path: Path, image: np.ndarray, label: np.ndarray, **options) -> ScrollPatches:
    for kind, array in (("images", image), ("labels", label)):
        (tmp_path / kind).mkdir(exist_ok=True)
        np.save(tmp_path / kind / "scan.npy", array)
    data = DataSettings(
        images=str(tmp_path / "images"),
        labels=str(tmp_path / "labels"),
        patch_size=(16, 16, 16),
        chunk_size=(16, 16, 16),
        **options,
    )
    return ScrollPatches(find_records(data), data, UNCHANGED)


def test_a_volume_hardly_larger_than_a_patch_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    image = np.random.default_rng(0).integers(0, 255, (16, 18, 40), np.uint8)
    dataset = stored(tmp_path, image, np.ones_like(image))
    for number in range(5):
        patch = dataset[number]
        _, _, z, y, x = patch.origin.tolist()
        assert (z, y) == (0, 0)
        assert 0 <= x <= 20
        assert np.allclose(patch.image[0], normalized(image[:, 1:17, x + 2 : x + 18]), atol=1e-4)


def normalized(image: np.ndarray) -> np.ndarray:
    image = image.astype(np.float64)
    return (image - image.mean()) / image.std()


@pytest.mark.parametrize(
    ("dtype", "intensity_range"),
    [("uint8", None), ("uint16", None), ("int16", None), ("float32", (-1000.0, 3000.0)), ("int32", (0.0, 60000.0))],
)
def test_intensities_of_any_type_become_the_same_patch(dtype: str, intensity_range, tmp_path: Path) -> None:
    image = np.random.default_rng(0).integers(0, 120, (24, 24, 24)).astype(dtype)
    patch = stored(tmp_path, image, np.zeros((24, 24, 24), np.uint8), intensity_range=intensity_range)[0]
    _, _, z, y, x = patch.origin.tolist()
    inside = image[z + 2 : z + 18, y + 2 : y + 18, x + 2 : x + 18]
    assert patch.image.dtype == torch.float32
    assert np.allclose(patch.image[0], normalized(inside), atol=1e-4)


def test_a_bright_inclusion_outside_of_the_range_leaves_the_rest_as_it_is(tmp_path: Path) -> None:
    """A grain of metal: otherwise all else would be of one gray beside it."""
    image = np.random.default_rng(0).uniform(-0.5, 1.0, (16, 16, 16)).astype(np.float32)
    image[8, 8, 8] = 1000.0
    patch = stored(tmp_path, image, np.zeros(image.shape, np.uint8), intensity_range=(0.0, 1.0))[0]
    assert np.allclose(patch.image[0], normalized(image.clip(0, 1)), atol=1e-4)


def test_an_intensity_beyond_float32_is_as_bright_as_can_be(tmp_path: Path) -> None:
    image = np.random.default_rng(0).uniform(-0.5, 1.0, (16, 16, 16))
    image[8, 8, 8], image[3, 3, 3] = 1e300, -1e300
    patch = stored(tmp_path, image, np.zeros(image.shape, np.uint8), intensity_range=(0.0, 1.0))[0]
    assert np.allclose(patch.image[0], normalized(image.clip(0, 1)), atol=1e-4)


def test_ignored_voxels_arrive_as_such(tmp_path: Path) -> None:
    label = np.zeros((20, 20, 20), np.uint8)
    label[:, :, 10:] = 2
    label[:, 8:10] = 1
    patch = stored(tmp_path, label, label, ignore_label=2, foreground_probability=0.0)[0]
    assert set(patch.label.unique().tolist()) == {0, 1, IGNORE}


def test_a_foreign_label_is_found_when_its_box_is_read_also_in_a_worker(tmp_path: Path) -> None:
    label = np.zeros((20, 20, 20), np.uint8)
    label[10, 10, 10] = 7
    dataset = stored(tmp_path, label, label)
    words = f"{tmp_path}/labels/scan.npy: holds label 7 at z 10, y 10, x 10, expected 0, 1: "
    words += "set data.ignore_label: 7 if nobody knows what such voxels are"
    for workers in (0, 1):
        with pytest.raises(DataError) as caught:
            list(DataLoader(dataset, num_workers=workers, multiprocessing_context="fork" if workers else None))
        assert caught.value.reason == words
        # They hold the loader's iterator in a circle; collected as garbage it waits five seconds for its worker.
        traceback.clear_frames(caught.tb)


def test_an_epoch_is_a_window_of_the_stream() -> None:
    window = EpochWindow(6, batch=2)
    assert list(window) == [0, 1, 2, 3, 4, 5]
    window.epoch = 3
    assert list(window) == [18, 19, 20, 21, 22, 23]
    assert len(window) == 6


def test_ranks_share_each_micro_batch_and_together_see_every_sample_once() -> None:
    windows = [EpochWindow(24, batch=2, rank=rank, ranks=3) for rank in range(3)]
    for window in windows:
        window.epoch = 1
    shares = [list(window) for window in windows]
    assert shares[1] == [26, 27, 32, 33, 38, 39, 44, 45]
    assert sorted(number for share in shares for number in share) == list(range(24, 48))
    # What the ranks have in one step is what one process with a batch of six has.
    for step, batch in enumerate(range(24, 48, 6)):
        together = [number for share in shares for number in share[2 * step : 2 * step + 2]]
        assert together == list(range(batch, batch + 6))


def test_a_resumed_epoch_goes_on_after_what_was_consumed() -> None:
    window = EpochWindow(24, batch=2, rank=1, ranks=2)
    window.epoch, window.first = 1, 8
    assert list(window) == [34, 35, 38, 39, 42, 43, 46, 47]
    assert len(window) == 8
    window.first = 24
    assert list(window) == []
    window.first = 6
    with pytest.raises(ValueError, match="no whole number of batches"):
        iter(window)


def test_an_epoch_of_broken_batches_is_refused() -> None:
    with pytest.raises(ValueError, match="10 samples are no whole number of batches of 2 on 2 ranks"):
        EpochWindow(10, batch=2, ranks=2)
