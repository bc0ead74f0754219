"""Whatever of the data is written: whole or absent, and a DataError that names it where it cannot be."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from vtune.pipelines.unet3d.data.tiff import is_slice
from vtune.pipelines.unet3d.data.volumes import DataError, words
from vtune.pipelines.unet3d.partial import whole_or_absent


@contextlib.contextmanager
def written(path: Path) -> Iterator[Path]:
    """Where to write it, in a folder that is made if need be; see `whole_or_absent`."""
    if path.is_dir() and not _is_of_one_array(path):
        raise DataError(f"{path}: is a folder with other things in it, and stays as it is")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_or_absent(path) as partial:
            yield partial
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {words(error)}") from error


def _is_of_one_array(folder: Path) -> bool:
    """Nothing, slices, or a zarr array as it is written here: its metadata and its chunks."""
    names = {entry.name for entry in folder.iterdir()}
    if not names or (not folder.suffix and all(map(is_slice, names))):
        return True
    try:
        kind = json.loads((folder / "zarr.json").read_text(encoding="utf-8"))["node_type"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return kind == "array" and names <= {"zarr.json", "c"}
