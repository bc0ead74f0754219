"""Which volumes there are, whether they can be trained on, and which of them are kept for validation."""

import itertools
import json
import math
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from vtune.pipelines.unet3d.data.intensity import needs_range
from vtune.pipelines.unet3d.data.stored import KNOWN, StoredVolume, list_volumes
from vtune.pipelines.unet3d.data.synthetic import VirtualScroll, scroll_name
from vtune.pipelines.unet3d.data.volumes import DataError, MissingPackage, Triple, triple, words
from vtune.pipelines.unet3d.data.writing import written
from vtune.pipelines.unet3d.journal import log
from vtune.pipelines.unet3d.settings import DataSettings, Faces, Layers

# Apart from the streams of the samples (data/patches.py) and from the volumes' own draws.
SPLIT_STREAM, LOOK_STREAM = 3, 4
# Headers are asked for by so many threads: on a network drive each answer takes milliseconds of waiting.
CHECKING_THREADS = 16
# A look at the voxels themselves before the first step: boxes of this edge, one of each record, then another of each,
# and so on, for as long as somebody who waits for the first step hardly notices. So what is little is seen whole; what
# is wrong with the rest is found when it is read.
LOOK_EDGE, LOOK_BOXES, LOOK_SECONDS = 64, 64, 2.0
# Fewer, for each holds what its box was unpacked from.
LOOKING_THREADS = 4
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


class Looked(NamedTuple):
    """How much of the voxels was seen, and nothing wrong with it."""

    records: int
    voxels: int


class Split(NamedTuple):
    """Names of records, in their order."""

    train: list[str]
    validation: list[str]


def find_records(data: DataSettings) -> list[Record]:
    """In the order of their names, whatever the order of the folder."""
    records, problems = _paired(data)
    _raise(problems)
    return records


def open_records(
    data: DataSettings, output_dir: str | Path, *, earlier: Split | None
) -> tuple[list[Record], list[Record]]:
    """To train on, and to validate on; what is wrong with them is found here as far as headers and a look can tell."""
    records, looked = checked_records(data)
    if looked is not None:
        seen = f"{looked.voxels / 1e6:.3g} million voxels"
        log.info("Looked into %d of %d volumes before the first step, at %s", looked.records, len(records), seen)
    train, validation = split_records(records, data, output_dir, earlier=earlier)
    source = data.images or "synthetic scrolls"
    log.info("Data: %s, %d to train on, %d to validate on", source, len(train), len(validation))
    return train, validation


def checked_records(data: DataSettings) -> tuple[list[Record], Looked | None]:
    """Or all that can be known of problems before the first step, in one DataError. Synthetic volumes have none."""
    records, problems = _paired(data)
    stored = [record for record in records if isinstance(record, StoredRecord)]
    with ThreadPoolExecutor(CHECKING_THREADS) as threads:
        found = threads.map(lambda record: _problems(record, data), stored)
        _raise([*problems, *itertools.chain.from_iterable(found)])
    return records, _look(stored, data) if stored else None


def _paired(data: DataSettings) -> tuple[list[Record], list[str]]:
    """And what has no other half."""
    if data.images is None or data.labels is None:
        return [*synthetic_records(data)], []
    images, problems = _listed(data.images, meant="images")
    labels, more = _listed(data.labels, meant="labels")
    # Both may be the same wrong folder.
    problems = list(dict.fromkeys([*problems, *more]))
    if labels:
        problems += [f"{images[name][0]}: has no labels in {data.labels}" for name in images if name not in labels]
    if images:
        problems += [f"{labels[name][0]}: has no image in {data.images}" for name in labels if name not in images]
    return [
        StoredRecord(
            name=name,
            image=paths[0],
            label=labels[name][0],
            chunk=data.chunk_size,
            ignore_label=data.ignore_label,
        )
        for name, paths in images.items()
        if name in labels
    ], problems


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


def split_records(
    records: Sequence[Record], data: DataSettings, output_dir: str | Path, *, earlier: Split | None = None
) -> tuple[list[Record], list[Record]]:
    """Training and validation records, each in the order of their names; and a note of them in the output folder.

    The config's split file decides, if it is there, then the split of the training that goes on: with a file more in
    the folder, a new one would put records that were trained on among those that judge. What these name in neither list
    is left out. Otherwise the seed decides. The config's split file is written if it is not there.
    """
    file = None if data.split_file is None else Path(data.split_file)
    if file is not None and file.exists():
        chosen = _chosen(_read_split(file), records, file)
    elif earlier is not None:
        chosen = _chosen(earlier, records, "the checkpoint's split")
    else:
        chosen = _drawn(records, data)
    own = Path(output_dir) / "split.json"
    for path in {own, file or own}:
        if path != file or not file.exists():
            _write_split(path, data.seed, *chosen)
    return chosen


def _drawn(records: Sequence[Record], data: DataSettings) -> tuple[list[Record], list[Record]]:
    if data.validation_records >= len(records):
        raise DataError(
            f"{data.images or 'data.records'}: data.validation_records {data.validation_records} "
            f"of {len(records)} leave none to train on"
        )
    order = np.random.default_rng([data.seed, SPLIT_STREAM]).permutation(len(records))
    held = set(order[: data.validation_records].tolist())
    train = [record for number, record in enumerate(records) if number not in held]
    validation = [record for number, record in enumerate(records) if number in held]
    return train, validation


def _listed(folder: str, *, meant: str) -> tuple[dict[str, list[str]], list[str]]:
    try:
        volumes = list_volumes(folder)
    except DataError as error:
        return {}, [str(error)]
    problems = []
    if not volumes:
        inside = os.path.join(folder, meant)
        advice = f": did you mean {inside}?" if os.path.isdir(inside) else ""
        problems.append(f"{folder}: holds no volume, expected {KNOWN}{advice}")
    for name, paths in volumes.items():
        if len(paths) > 1:
            problems.append(f"{paths[1]}: has the same name as {paths[0]}: which of them is {name}?")
    return volumes, problems


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
        problems.append(
            f"{record.image}: {volume.image_type} has no darkest and brightest: "
            "set data.intensity_range, for example [-1000, 3000]"
        )
    return problems


def _look(records: Sequence[StoredRecord], data: DataSettings) -> Looked:
    until = time.monotonic() + LOOK_SECONDS
    places = [(turn, number) for turn in range(LOOK_BOXES) for number in range(len(records))]

    def look(turn: int, number: int) -> tuple[int, str | None]:
        """So many voxels, and what is wrong with them."""
        if time.monotonic() >= until:
            return 0, None
        try:
            volume = records[number].open()
            corners = list(itertools.product(*(range(0, edge, LOOK_EDGE) for edge in volume.size)))
            if turn >= len(corners):
                return 0, None
            order = np.random.default_rng([data.seed, LOOK_STREAM, number]).permutation(len(corners))
            corner = triple(corners[order[turn]])
            size = triple(min(LOOK_EDGE, edge - start) for edge, start in zip(volume.size, corner, strict=True))
            volume.read(corner, size)
        except DataError as error:
            return 0, str(error)
        return math.prod(size), None

    with ThreadPoolExecutor(LOOKING_THREADS) as threads:
        looks = list(threads.map(look, *zip(*places, strict=True)))
    problems: dict[int, str] = {}
    for (_, number), (_, problem) in zip(places, looks, strict=True):
        if problem is not None:
            problems.setdefault(number, problem)
    _raise([problems[number] for number in sorted(problems)])
    seen = {number for (_, number), (voxels, _) in zip(places, looks, strict=True) if voxels}
    return Looked(records=len(seen), voxels=sum(voxels for voxels, _ in looks))


def _raise(problems: list[str]) -> None:
    if problems:
        more = len(problems) - SHOWN_PROBLEMS
        raise DataError("\n".join([*problems[:SHOWN_PROBLEMS], *([f"… and {more} more"] if more > 0 else [])]))


def _read_split(path: Path) -> Split:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return Split(train=_names(document["train"]), validation=_names(document["validation"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f'{path}: is no split with lists "train" and "validation" of names: {words(error)}') from error


def _chosen(split: Split, records: Sequence[Record], source: Path | str) -> tuple[list[Record], list[Record]]:
    train, validation = set(split.train), set(split.validation)
    known = {record.name for record in records}
    for name in [*split.train, *split.validation]:
        if name not in known:
            raise DataError(f'{source}: names "{name}", which is not among the {len(known)} records')
    if train & validation:
        raise DataError(f'{source}: names "{min(train & validation)}" for training and for validation')
    if not train:
        raise DataError(f"{source}: leaves no record to train on")
    return (
        [record for record in records if record.name in train],
        [record for record in records if record.name in validation],
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
    with written(path) as partial:
        partial.write_text(json.dumps(split, indent=1) + "\n", encoding="utf-8")
