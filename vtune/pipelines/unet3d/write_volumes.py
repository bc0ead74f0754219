"""Writes the synthetic volumes of a config to disk, to train from files what is otherwise computed.

    python -m vtune.pipelines.unet3d.write_volumes --config configs/quickstart.yaml --format zarr --output volumes

It goes on where it was stopped. The samples of a training are the same bits from any of the formats, and those of the
synthetic volumes. Exit codes: 0 done · 1 they cannot be written · 2 the config is wrong · 130 Ctrl-C.
"""

import argparse
import dataclasses
import json
import math
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import yaml

from vtune.pipelines.unet3d.config_file import SettingsError
from vtune.pipelines.unet3d.data.records import SyntheticRecord, synthetic_records
from vtune.pipelines.unet3d.data.stored import write_image
from vtune.pipelines.unet3d.data.volumes import Block, DataError, words
from vtune.pipelines.unet3d.data.writing import written
from vtune.pipelines.unet3d.data.zarr_store import stored_voxels
from vtune.pipelines.unet3d.settings import DataSettings, load_settings

# What is appended to a volume's name. Slices are in a folder.
ENDINGS = {"npy": ".npy", "tiff": ".tif", "tiff-stack": "", "zarr": ".zarr"}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m vtune.pipelines.unet3d.write_volumes", description="Write synthetic volumes to disk."
    )
    parser.add_argument("--config", type=Path, required=True, help="YAML file, e.g. configs/quickstart.yaml")
    parser.add_argument("--format", choices=list(ENDINGS), required=True)
    parser.add_argument("--output", type=Path, required=True, help="folder that gets images/ and labels/")
    parser.add_argument("--records", type=int, help="how many volumes; as many as data.records without it")
    parser.add_argument("--compress", action="store_true", help="zlib in TIFF, zstandard in zarr; .npy knows none")
    chosen = parser.parse_args(arguments)
    if chosen.records is not None and chosen.records < 1:
        parser.error(f"--records: expected at least 1, got {chosen.records}")
    if chosen.compress and chosen.format == "npy":
        parser.error("--compress: .npy files cannot be compressed")
    try:
        data = load_settings(chosen.config).data
        records = chosen.records if chosen.records is not None else data.records
        data = dataclasses.replace(data, records=records, images=None, labels=None)
        write_volumes(data, chosen.output, kind=chosen.format, compress=chosen.compress)
    except SettingsError as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"error: {line}\n")
        return 2
    except DataError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("stopped by Ctrl-C; started again it goes on from here\n")
        return 130
    sys.stderr.write("to train on them, put this under data:\n")
    for key in ("images", "labels"):
        sys.stdout.write("  " + yaml.safe_dump({key: str(chosen.output / key)}, width=math.inf, allow_unicode=True))
    return 0


def write_volumes(data: DataSettings, output: Path, *, kind: str, compress: bool) -> None:
    records = synthetic_records(data)
    _agree(data, output, kind=kind, compress=compress)
    missing = [record for record in records if not all(path.exists() for path in _paths(record, output, kind))]
    if not compress:
        voxels = stored_voxels(data.volume_size) if kind == "zarr" else math.prod(data.volume_size)
        _check_space(output, bytes_needed=2 * voxels * len(missing))
    if len(missing) < len(records):
        sys.stderr.write(f"{len(records) - len(missing)} of {len(records)} are there already\n")
    for done, record in enumerate(missing, start=len(records) - len(missing) + 1):
        image_path, label_path = _paths(record, output, kind)
        with (
            write_image(image_path, record.size, np.dtype(np.uint8), compress=compress) as put_image,
            write_image(label_path, record.size, np.dtype(np.uint8), compress=compress) as put_label,
        ):
            for z, slab in _slabs(record):
                put_image(z, slab.image)
                put_label(z, slab.label)
        sys.stderr.write(f"{record.name} written, {done} of {len(records)}\n")


def _slabs(record: SyntheticRecord) -> Iterator[tuple[int, Block]]:
    """As thick as a chunk, the least that is computed at once. Each from a volume opened anew, for it keeps chunks."""
    depth, height, width = record.size
    for z in range(0, depth, record.chunk[0]):
        yield z, record.open().read((z, 0, 0), (min(record.chunk[0], depth - z), height, width))


def _paths(record: SyntheticRecord, output: Path, kind: str) -> tuple[Path, Path]:
    name = record.name + ENDINGS[kind]
    return output / "images" / name, output / "labels" / name


def _agree(data: DataSettings, output: Path, *, kind: str, compress: bool) -> None:
    """With what was begun here, for volumes of another seed or size have the same names."""
    note = output / "volumes.json"
    ours = {
        "seed": data.seed,
        "volume_size": list(data.volume_size),
        "chunk_size": list(data.chunk_size),
        "faces": data.faces,
        "layers": data.layers,
        "format": kind,
        "compress": compress,
    }
    try:
        theirs = json.loads(note.read_text(encoding="utf-8"))
    except FileNotFoundError:
        with written(note) as partial:
            partial.write_text(json.dumps(ours) + "\n", encoding="utf-8")
        return
    except (OSError, ValueError) as error:
        raise DataError(f"{note}: cannot be read: {words(error)}") from error
    different = [key for key in ours if not isinstance(theirs, dict) or theirs.get(key) != ours[key]]
    if different:
        raise DataError(f"{note}: volumes with another {', '.join(different)} were begun here: take another folder")


def _check_space(folder: Path, *, bytes_needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < bytes_needed:
        raise DataError(f"{folder}: {free / 1e9:.1f} GB are free, the volumes need {bytes_needed / 1e9:.1f} GB")


if __name__ == "__main__":
    sys.exit(main())
