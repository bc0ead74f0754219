"""Which volumes there are, whether they can be trained on, and which of them are kept for validation."""

import itertools
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from vtune.pipelines.unet3d.data.intensity import needs_range
from vtune.pipelines.unet3d.data.partial import whole_or_absent
from vtune.pipelines.unet3d.data.stored import KNOWN, StoredVolume, list_volumes
from vtune.pipelines.unet3d.data.synthetic import Faces, Layers, VirtualScroll, scroll_name
from vtune.pipelines.unet3d.data.volumes import DataError, MissingPackage, Triple, triple, words
from vtune.pipelines.unet3d.settings import DataSettings

# Apart from the streams of the samples (data/patches.py) and from the volumes' own draws.
SPLIT_STREAM, LOOK_STREAM = 3, 4
# Headers are asked for by so many threads: on a network drive each answer takes milliseconds of waiting.
CHECKING_THREADS = 16
# A look at the voxels themselves before the first step: what is wrong with one volume is often wrong with all. Boxes
# of this edge, of some records; the others are looked at when their patches are read.
LOOK_RECORDS, LOOK_BOXES, LOOK_EDGE = 4, 2, 64
# A data set in the wrong place has as many problems as files.
SHOWN_PROBLEMS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticRecord:
    number: int
    seed: int
    size: Triple
    chunk: Triple
    faces: Faces = "outer"
    layers: Layers = "alike"

    @property
    def name(self) -> str:
        return scroll_name(self.number)

    def open(self) -> VirtualScroll:
        return VirtualScroll(
            seed=self.seed,
            record=self.number,
            size=self.size,
            chunk=self.chunk,
            faces=self.faces,
            layers=self.layers,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    name: str
    image: str
    label: str
    chunk: Triple
    ignore_label: int | None

    def open(self) -> StoredVolume:
        return StoredVolume(
            name=self.name, image=self.image, label=self.label, chunk=self.chunk, ignore_label=self.ignore_label
        )


# A name and how to open it: little, since every worker gets all of them.
Record: TypeAlias = SyntheticRecord | StoredRecord


def find_records(data: DataSettings) -> list[Record]:
    """In the order of their names, whatever the order of the folder."""
    if data.images is None or data.labels is None:
        return [*synthetic_records(data)]
    images, labels = list_volumes(data.images), list_volumes(data.labels)
    problems = [
        *_unclear(data.images, images),
        *_unclear(data.labels, labels),
        *(f"{images[name][0]}: has no labels in {data.labels}" for name in images if name not in labels and labels),
        *(f"{labels[name][0]}: has no image in {data.images}" for name in labels if name not in images and images),
    ]
    _raise(problems)
    return [
        StoredRecord(
            name=name,
            image=paths[0],
            label=labels[name][0],
            chunk=data.chunk_size,
            ignore_label=data.ignore_label,
        )
        for name, paths in images.items()
    ]


def synthetic_records(data: DataSettings) -> list[SyntheticRecord]:
    return [
        SyntheticRecord(
            number=number,
            seed=data.seed,
            size=data.volume_size,
            chunk=data.chunk_size,
            faces=data.faces,
            layers=data.layers,
        )
        for number in range(data.records)
    ]


def check_records(records: Sequence[Record], data: DataSettings) -> None:
    """All that can be known before the first step, in one DataError. Synthetic volumes are as their settings say."""
    stored = [record for record in records if isinstance(record, StoredRecord)]
    if not stored:
        return
    with ThreadPoolExecutor(CHECKING_THREADS) as threads:
        found = threads.map(lambda record: _problems(record, data), stored)
        _raise(list(itertools.chain.from_iterable(found)))
    every = max(1, len(stored) // LOOK_RECORDS)
    _raise([problem for record in stored[::every][:LOOK_RECORDS] for problem in _seen(record, data)])


def split_records(
    records: Sequence[Record], data: DataSettings, output_dir: str | Path
) -> tuple[list[Record], list[Record]]:
    """Training and validation records, each in the order of their names.

    A split file that is there decides, and what it names in neither list is left out; otherwise the seed decides, and
    the file is written.
    """
    path = Path(data.split_file) if data.split_file is not None else Path(output_dir) / "split.json"
    if data.split_file is not None and path.exists():
        return _read_split(path, records)
    if data.validation_records >= len(records):
        raise DataError(
            f"{data.images or 'data.records'}: data.validation_records {data.validation_records} "
            f"of {len(records)} leave none to train on"
        )
    order = np.random.default_rng([data.seed, SPLIT_STREAM]).permutation(len(records))
    held = set(order[: data.validation_records].tolist())
    train = [record for number, record in enumerate(records) if number not in held]
    validation = [record for number, record in enumerate(records) if number in held]
    _write_split(path, data.seed, train, validation)
    return train, validation


def _unclear(folder: str, volumes: dict[str, list[str]]) -> Iterator[str]:
    if not volumes:
        yield f"{folder}: holds no volume, expected {KNOWN}"
    for name, paths in volumes.items():
        if len(paths) > 1:
            yield f"{paths[1]}: has the same name as {paths[0]}: which of them is {name}?"


def _problems(record: StoredRecord, data: DataSettings) -> list[str]:
    """Of headers and sizes of files."""
    try:
        volume = record.open()
        volume.verify()
    except MissingPackage:
        # The same for every other file: once is enough.
        raise
    except DataError as error:
        return [str(error)]
    problems = []
    for axis, edge, limit in zip("zyx", data.patch_size, volume.size, strict=True):
        if edge > limit:
            problems.append(f"{record.image}: has {limit} voxels along {axis}, a patch (data.patch_size) {edge}")
    if data.intensity_range is None and needs_range(volume.image_type):
        problems.append(f"{record.image}: {volume.image_type} has no darkest and brightest: set data.intensity_range")
    return problems


def _seen(record: StoredRecord, data: DataSettings) -> list[str]:
    rng = np.random.default_rng([data.seed, LOOK_STREAM])
    try:
        volume = record.open()
        size = triple(min(LOOK_EDGE, edge) for edge in volume.size)
        for _ in range(LOOK_BOXES):
            free = (limit - edge for limit, edge in zip(volume.size, size, strict=True))
            volume.read(triple(int(rng.integers(room + 1)) for room in free), size)
    except DataError as error:
        return [str(error)]
    return []


def _raise(problems: list[str]) -> None:
    if problems:
        more = len(problems) - SHOWN_PROBLEMS
        raise DataError("\n".join([*problems[:SHOWN_PROBLEMS], *([f"… and {more} more"] if more > 0 else [])]))


def _read_split(path: Path, records: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        train, validation = _names(document["train"]), _names(document["validation"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f'{path}: is no split with lists "train" and "validation" of names: {words(error)}') from error
    known = {record.name for record in records}
    for name in [*train, *validation]:
        if name not in known:
            raise DataError(f'{path}: names "{name}", which is not among the {len(known)} records')
    both = set(train) & set(validation)
    if both:
        raise DataError(f'{path}: names "{min(both)}" for training and for validation')
    if not train:
        raise DataError(f"{path}: leaves no record to train on")
    return (
        [record for record in records if record.name in set(train)],
        [record for record in records if record.name in set(validation)],
    )


def _names(found: Any) -> list[str]:
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise TypeError("expected lists of names")
    return found


def _write_split(path: Path, seed: int, train: Sequence[Record], validation: Sequence[Record]) -> None:
    split = {
        "seed": seed,
        "train": [record.name for record in train],
        "validation": [record.name for record in validation],
    }
    # Every rank comes to the same split, and may write it at the same time.
    with whole_or_absent(path, by_many=True) as partial:
        partial.write_text(json.dumps(split, indent=1) + "\n", encoding="utf-8")
