from __future__ import annotations

import json
import os
import pickle
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vtune.pipelines.unet3d.data.records import Split, checked_records, find_records, split_records
from vtune.pipelines.unet3d.data.synthetic import VirtualScroll
from vtune.pipelines.unet3d.data.volumes import DataError
from vtune.pipelines.unet3d.settings import DataSettings

SIZE = (24, 32, 40)
SMALL = DataSettings(patch_size=(16, 16, 16), chunk_size=(16, 16, 16))


@pytest.fixture
def data(tmp_path: Path) -> DataSettings:
    """Settings of two folders with three good records in them."""
    for name in ("a", "b", "c"):
        write(tmp_path, name)
    return replace(SMALL, images=str(tmp_path / "images"), labels=str(tmp_path / "labels"))


def write(folder: Path, name: str, *, image: np.ndarray | None = None, label: np.ndarray | None = None) -> None:
    rng = np.random.default_rng(0)
    image = rng.integers(0, 255, SIZE, np.uint8) if image is None else image
    label = rng.integers(0, 2, SIZE, np.uint8) if label is None else label
    for kind, array in (("images", image), ("labels", label)):
        (folder / kind).mkdir(exist_ok=True)
        np.save(folder / kind / f"{name}.npy", array)


def problems(data: DataSettings) -> list[str]:
    with pytest.raises(DataError) as caught:
        checked_records(data)
    return str(caught.value).splitlines()


def test_without_folders_the_records_are_synthetic() -> None:
    records = find_records(DataSettings(records=3, seed=7, volume_size=(64, 64, 64), chunk_size=(32, 32, 32)))
    assert [record.name for record in records] == ["scroll_00000", "scroll_00001", "scroll_00002"]
    block = records[2].open().read((0, 0, 0), (64, 64, 64))
    other = VirtualScroll(seed=7, record=2, size=(64, 64, 64), chunk=(32, 32, 32)).read((0, 0, 0), (64, 64, 64))
    assert np.array_equal(block.image, other.image)
    assert np.array_equal(block.label, other.label)


def test_records_are_few_bytes_for_every_worker() -> None:
    assert len(pickle.dumps(find_records(DataSettings()))) < 100_000


def test_images_and_labels_are_paired_by_name_in_any_format(data: DataSettings, tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    (tmp_path / "labels" / "b.npy").unlink()
    tifffile.imwrite(tmp_path / "labels" / "b.tif", np.ones(SIZE, np.uint8), photometric="minisblack")
    records, _ = checked_records(data)
    assert [record.name for record in records] == ["a", "b", "c"]
    block = records[1].open().read((1, 2, 3), (4, 5, 6))
    assert block.label.all()
    assert np.array_equal(block.image, np.load(tmp_path / "images" / "b.npy")[1:5, 2:7, 3:9])


def test_a_volume_without_its_other_half_is_named(data: DataSettings, tmp_path: Path) -> None:
    (tmp_path / "labels" / "b.npy").unlink()
    (tmp_path / "images" / "c.npy").unlink()
    assert problems(data) == [
        f"{tmp_path}/images/b.npy: has no labels in {tmp_path}/labels",
        f"{tmp_path}/labels/c.npy: has no image in {tmp_path}/images",
    ]


def test_what_is_missing_hides_nothing_else(data: DataSettings, tmp_path: Path) -> None:
    (tmp_path / "labels" / "b.npy").unlink()
    write(tmp_path, "c", label=np.zeros((24, 32, 41), np.uint8))
    assert problems(data) == [
        f"{tmp_path}/images/b.npy: has no labels in {tmp_path}/labels",
        f"{tmp_path}/labels/c.npy: has 24 × 32 × 41 voxels, its image {tmp_path}/images/c.npy has 24 × 32 × 40",
    ]
    assert problems(replace(data, images=str(tmp_path / "no"), labels=str(tmp_path / "neither"))) == [
        f"{tmp_path}/no: cannot be read: No such file or directory",
        f"{tmp_path}/neither: cannot be read: No such file or directory",
    ]


def test_the_folder_above_is_told_with_the_one_that_is_meant(data: DataSettings, tmp_path: Path) -> None:
    known = "holds no volume, expected .npy, .tif, .tiff, .zarr or a folder of TIFF slices"
    assert problems(replace(data, images=str(tmp_path), labels=str(tmp_path))) == [
        f"{tmp_path}: {known}: did you mean {tmp_path}/images?",
        f"{tmp_path}: {known}: did you mean {tmp_path}/labels?",
    ]
    (tmp_path / "empty").mkdir()
    empty = str(tmp_path / "empty")
    assert problems(replace(data, images=empty, labels=empty)) == [f"{empty}: {known}"]


def test_a_label_that_no_setting_can_ignore_gets_no_such_advice(data: DataSettings, tmp_path: Path) -> None:
    write(tmp_path, "b", label=np.full(SIZE, 300, np.uint16))
    assert problems(data) == [f"{tmp_path}/labels/b.npy: holds label 300 at z 0, y 0, x 0, expected 0, 1"]


def test_two_volumes_of_one_name_are_one_too_many(data: DataSettings, tmp_path: Path) -> None:
    (tmp_path / "images" / "a.tif").write_text("")
    assert problems(data) == [
        f"{tmp_path}/images/a.tif: has the same name as {tmp_path}/images/a.npy: which of them is a?"
    ]


def test_an_empty_folder_and_one_that_is_not_there_are_named(data: DataSettings, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert problems(replace(data, images=str(tmp_path / "empty"))) == [
        f"{tmp_path}/empty: holds no volume, expected .npy, .tif, .tiff, .zarr or a folder of TIFF slices"
    ]
    assert problems(replace(data, labels=str(tmp_path / "absent"))) == [
        f"{tmp_path}/absent: cannot be read: No such file or directory"
    ]


def test_everything_that_headers_tell_is_told_at_once(data: DataSettings, tmp_path: Path) -> None:
    write(tmp_path, "b", label=np.zeros((24, 32, 41), np.uint8))
    write(tmp_path, "c", image=np.zeros(SIZE, np.complex64))
    write(tmp_path, "d", image=np.zeros((8, 32, 40), np.uint8), label=np.zeros((8, 32, 40), np.uint8))
    write(tmp_path, "e", image=np.zeros(SIZE, np.float32))
    write(tmp_path, "f", label=np.zeros(SIZE, np.float32))
    write(tmp_path, "g", image=np.zeros(SIZE, bool))
    write(tmp_path, "h")
    content = (tmp_path / "labels" / "h.npy").read_bytes()
    (tmp_path / "labels" / "h.npy").write_bytes(content[:-1])
    images, labels = tmp_path / "images", tmp_path / "labels"
    assert problems(data) == [
        f"{labels}/b.npy: has 24 × 32 × 41 voxels, its image {images}/b.npy has 24 × 32 × 40",
        f"{images}/c.npy: expected integers or floats, it holds complex64",
        f"{images}/d.npy: has 8 voxels along z, a patch (data.patch_size) 16",
        f"{images}/e.npy: float32 has no darkest and brightest: set data.intensity_range, for example [-1000, 3000]",
        f"{labels}/f.npy: expected integers as labels, it holds float32",
        f"{images}/g.npy: expected integers or floats as intensities, it holds bool",
        f"{labels}/h.npy: is truncated: {len(content) - 1} of {len(content)} bytes are there",
    ]
    for name in "bcdfgh":
        write(tmp_path, name)
    with_range = replace(data, intensity_range=(0.0, 1.0))
    checked_records(with_range)


def test_a_whole_wrong_folder_does_not_fill_the_screen(data: DataSettings, tmp_path: Path) -> None:
    for number in range(30):
        write(tmp_path, f"n{number:02}", image=np.zeros(SIZE, np.float64))
    found = problems(data)
    assert len(found) == 21
    assert found[-1] == "… and 10 more"


def test_a_missing_package_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("images", "labels"):
        for name in "abc":
            (tmp_path / kind / f"{name}.zarr").mkdir(parents=True)
    monkeypatch.setitem(sys.modules, "zarr", None)
    found = problems(replace(SMALL, images=str(tmp_path / "images"), labels=str(tmp_path / "labels")))
    assert found == [f"reading {tmp_path}/images/a.zarr needs the package zarr: pip install 'vtune[seg]'"]


def test_a_foreign_label_is_found_before_the_first_step_with_its_place(data: DataSettings, tmp_path: Path) -> None:
    label = np.zeros(SIZE, np.uint8)
    label[20, 3, 7] = 3
    write(tmp_path, "b", label=label)
    assert problems(data) == [
        f"{tmp_path}/labels/b.npy: holds label 3 at z 20, y 3, x 7, expected 0, 1: "
        "set data.ignore_label: 3 if nobody knows what such voxels are"
    ]
    ignoring = replace(data, ignore_label=2)
    assert problems(ignoring) == [
        f"{tmp_path}/labels/b.npy: holds label 3 at z 20, y 3, x 7, expected 0, 1 and 2 to ignore (data.ignore_label)"
    ]


def test_every_record_is_looked_into_before_the_first_step(data: DataSettings, tmp_path: Path) -> None:
    for number in range(9):
        write(tmp_path, f"n{number}", label=np.full(SIZE, 7) if number in (4, 7) else None)
    assert problems(data) == [
        f"{tmp_path}/labels/n{number}.npy: holds label 7 at z 0, y 0, x 0, expected 0, 1: "
        "set data.ignore_label: 7 if nobody knows what such voxels are"
        for number in (4, 7)
    ]


def test_of_a_larger_volume_other_places_are_looked_at_in_turn(data: DataSettings, tmp_path: Path) -> None:
    """Until all is seen, if it is little: wherever the foreign label is."""
    for z, x in ((0, 0), (140, 79), (70, 30)):
        label = np.zeros((141, 70, 80), np.uint8)
        label[z, 65, x] = 9
        write(tmp_path, "b", image=np.zeros_like(label), label=label)
        assert f"holds label 9 at z {z}, y 65, x {x}, " in problems(data)[0]


def test_how_much_was_looked_into_is_known(data: DataSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checked_records(data)[1] == (3, 3 * 24 * 32 * 40), "all of what is small"
    # On a drive that is too slow for any of it, the training does not wait.
    monkeypatch.setattr("vtune.pipelines.unet3d.data.records.LOOK_SECONDS", 0.0)
    assert checked_records(data)[1] == (0, 0)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "int8"])
def test_labels_of_any_integer_type_are_read_as_bytes(data: DataSettings, tmp_path: Path, dtype: str) -> None:
    label = np.random.default_rng(0).integers(0, 3, SIZE).astype(dtype)
    write(tmp_path, "a", label=label)
    ignoring = replace(data, ignore_label=2)
    records, _ = checked_records(ignoring)
    found = records[0].open().read((0, 0, 0), SIZE).label
    assert found.dtype == np.uint8
    assert np.array_equal(found, np.where(label == 2, 255, label.astype(int)))


def test_labels_of_true_and_false_are_surface_and_not(data: DataSettings, tmp_path: Path) -> None:
    label = np.random.default_rng(0).random(SIZE) < 0.5
    write(tmp_path, "a", label=label)
    found = find_records(data)[0].open().read((0, 0, 0), SIZE).label
    assert found.dtype == np.uint8
    assert np.array_equal(found, label)


def test_true_is_whatever_is_not_zero(data: DataSettings, tmp_path: Path) -> None:
    """Some programs write 255 into a volume of booleans, which elsewhere means that nobody knows."""
    label = np.random.default_rng(0).random(SIZE) < 0.5
    write(tmp_path, "a", label=(label * np.uint8(255)).view(bool))
    found = find_records(data)[0].open().read((0, 0, 0), SIZE).label
    assert np.array_equal(found, label.astype(np.uint8))


def test_slices_that_are_off_by_one_are_named(data: DataSettings, tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    for kind, first in (("images", 1), ("labels", 0)):
        (tmp_path / kind / "b.npy").unlink()
        (tmp_path / kind / "b").mkdir()
        for number in range(first, first + 20):
            plane = np.zeros((20, 20), np.uint8)
            tifffile.imwrite(tmp_path / kind / "b" / f"s_{number:02}.tif", plane, photometric="minisblack")
    assert problems(data) == [
        f"{tmp_path}/labels/b: its slices are s_00.tif to s_19.tif, its image's are s_01.tif to s_20.tif"
    ]


def test_names_that_would_write_more_than_a_line_are_refused(data: DataSettings, tmp_path: Path) -> None:
    write(tmp_path, "two\nlines")
    assert problems(data) == [
        f"{tmp_path}/images: holds a name with control characters, 'two\\nlines.npy'",
        f"{tmp_path}/labels: holds a name with control characters, 'two\\nlines.npy'",
    ]


def test_what_is_no_regular_file_is_refused_and_not_waited_for(data: DataSettings, tmp_path: Path) -> None:
    (tmp_path / "images" / "b.npy").unlink()
    os.mkfifo(tmp_path / "images" / "b.npy")
    assert problems(data) == [f"{tmp_path}/images/b.npy: is no regular file"]


@pytest.mark.parametrize(
    "header", ["{'descr': '|u1', 'fortran_order': False, 'shape': (-4, 4, 4), }", "{'descr': (((", "[1, 2]", "\x00" * 9]
)
def test_a_header_of_nonsense_is_one_line(data: DataSettings, tmp_path: Path, header: str) -> None:
    path = tmp_path / "images" / "b.npy"
    text = header.encode("latin1").ljust(117) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64))
    (line,) = problems(data)
    assert line.startswith(f"{path}: ")


def test_an_intensity_that_is_no_number_is_found_with_its_place(data: DataSettings, tmp_path: Path) -> None:
    image = np.zeros(SIZE, np.float32)
    image[1, 2, 3] = np.nan
    write(tmp_path, "b", image=image)
    assert problems(replace(data, intensity_range=(0.0, 1.0))) == [
        f"{tmp_path}/images/b.npy: holds an intensity that is no number at z 1, y 2, x 3"
    ]


def test_labels_near_a_voxel_are_those_of_its_chunk(data: DataSettings, tmp_path: Path) -> None:
    label = np.load(tmp_path / "labels" / "a.npy")
    corner, found = find_records(data)[0].open().chunk_label((23, 15, 32))
    assert corner == (16, 0, 32)
    assert np.array_equal(found, label[16:24, 0:16, 32:40])


def test_the_split_is_by_the_seed_and_is_written(data: DataSettings, tmp_path: Path) -> None:
    data = DataSettings(records=20, validation_records=5)
    records = find_records(data)
    train, validation = split_records(records, data, tmp_path / "run")
    assert (len(train), len(validation)) == (15, 5)
    assert sorted([*train, *validation], key=lambda record: record.name) == records
    assert train == sorted(train, key=lambda record: record.name)
    assert split_records(records, data, tmp_path / "again") == (train, validation)
    assert split_records(records, replace(data, seed=1), tmp_path / "other")[1] != validation
    assert json.loads((tmp_path / "run" / "split.json").read_text()) == {
        "seed": 0,
        "train": [record.name for record in train],
        "validation": [record.name for record in validation],
    }


def test_without_validation_all_records_are_trained_on(tmp_path: Path) -> None:
    data = DataSettings(records=4)
    assert split_records(find_records(data), data, tmp_path) == (find_records(data), [])


def test_a_split_file_is_written_once_and_read_from_then_on(tmp_path: Path) -> None:
    file = tmp_path / "splits" / "first.json"
    data = DataSettings(records=20, validation_records=5, split_file=str(file))
    records = find_records(data)
    train, validation = split_records(records, data, tmp_path)
    assert split_records(records, replace(data, seed=3, validation_records=1), tmp_path) == (train, validation)
    file.write_text(json.dumps({"train": ["scroll_00003"], "validation": ["scroll_00001"]}))
    assert split_records(records, data, tmp_path) == ([records[3]], [records[1]])
    note = json.loads((tmp_path / "split.json").read_text())
    assert (note["train"], note["validation"]) == (["scroll_00003"], ["scroll_00001"])
    written = file.read_bytes()
    assert split_records(records, data, file.parent) == ([records[3]], [records[1]])
    assert file.read_bytes() == written, "it is the user's"


def test_the_split_of_the_training_that_goes_on_is_kept_unless_the_config_names_one(tmp_path: Path) -> None:
    data = DataSettings(records=20, validation_records=5)
    records = find_records(data)
    earlier = Split(train=["scroll_00002"], validation=["scroll_00004"])
    for changed in (data, replace(data, split_file=str(tmp_path / "new.json"))):
        assert split_records(records, changed, tmp_path, earlier=earlier) == ([records[2]], [records[4]])
    assert json.loads((tmp_path / "new.json").read_text())["validation"] == ["scroll_00004"]
    (tmp_path / "mine.json").write_text(json.dumps({"train": ["scroll_00003"], "validation": []}))
    named = replace(data, split_file=str(tmp_path / "mine.json"))
    assert split_records(records, named, tmp_path, earlier=earlier) == ([records[3]], [])
    with pytest.raises(DataError, match=r"^the checkpoint's split: names \"x\", which is not among the 20 records$"):
        split_records(records, data, tmp_path, earlier=Split(train=["x"], validation=[]))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", 'is no split with lists "train" and "validation" of names'),
        ("[]", 'is no split with lists "train" and "validation" of names'),
        ('{"train": ["scroll_00000"]}', 'is no split with lists "train" and "validation" of names'),
        ('{"train": "scroll_00000", "validation": []}', 'is no split with lists "train" and "validation" of names'),
        ('{"train": ["scroll_00000", "x"], "validation": []}', 'names "x", which is not among the 4 records'),
        ('{"train": ["scroll_00000"], "validation": ["scroll_00000"]}', 'names "scroll_00000" for training and for'),
        ('{"train": [], "validation": ["scroll_00000"]}', "leaves no record to train on"),
    ],
)
def test_a_wrong_split_file_is_named(content: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "split.json"
    file.write_text(content)
    data = DataSettings(records=4, split_file=str(file))
    with pytest.raises(DataError) as caught:
        split_records(find_records(data), data, tmp_path)
    assert str(caught.value).startswith(f"{file}: {words}")
    assert len(str(caught.value).splitlines()) == 1


def test_a_split_that_leaves_nothing_to_train_on_is_refused(data: DataSettings, tmp_path: Path) -> None:
    data = replace(data, validation_records=3)
    with pytest.raises(DataError, match=r"images: data\.validation_records 3 of 3 leave none to train on"):
        split_records(find_records(data), data, tmp_path)


def test_a_workers_error_says_what_it_said_in_the_worker() -> None:
    """PyTorch makes the type anew with the worker's traceback as its one argument."""
    wrapped = DataError(
        "Caught DataError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
        '  File "x.py", line 1, in f\nvtune.pipelines.unet3d.data.volumes.DataError: a.npy: is truncated\n'
    )
    assert wrapped.reason == "a.npy: is truncated"
    assert DataError("a.npy: is truncated").reason == "a.npy: is truncated"
    odd = DataError("the DataError: of a name.npy: is truncated")
    assert odd.reason == str(odd)
    assert pickle.loads(pickle.dumps(DataError("a.npy: x"))).reason == "a.npy: x"
