from __future__ import annotations

import os
import shutil
import subprocess
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
import yaml

from vtune.pipelines.unet3d import write_volumes
from vtune.pipelines.unet3d.data.patches import ScrollPatches
from vtune.pipelines.unet3d.data.records import checked_records, find_records
from vtune.pipelines.unet3d.partial import partial_of
from vtune.pipelines.unet3d.settings import load_settings

PACKAGES = {"npy": "numpy", "tiff": "tifffile", "tiff-stack": "tifffile", "zarr": "zarr"}


def run(config: Path, output: Path, *more: str, kind: str = "npy") -> int:
    return write_volumes.main(["--config", str(config), "--format", kind, "--output", str(output), *more])


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("kind", PACKAGES)
def test_a_training_gets_the_same_samples_from_files_as_from_computed_volumes(
    kind: str, compress: bool, write_config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(PACKAGES[kind])
    if compress and kind == "npy":
        pytest.skip(".npy knows no compression")
    # Chunks that are no divisors of a volume's edges, nor multiples of a zarr chunk's.
    config = write_config({"data.volume_size": [40, 48, 56], "data.chunk_size": [24, 32, 32]})
    computed = load_settings(config)
    assert run(config, tmp_path / "disk", *["--compress"] * compress, kind=kind) == 0

    shown = capsys.readouterr()
    told = yaml.safe_load("data:\n" + shown.out)["data"]
    assert told == {"images": str(tmp_path / "disk" / "images"), "labels": str(tmp_path / "disk" / "labels")}
    assert shown.err.splitlines()[-2:] == ["scroll_00003 written, 4 of 4", "to train on them, put this under data:"]

    stored = load_settings(write_config({"data.chunk_size": [24, 32, 32], **{f"data.{k}": v for k, v in told.items()}}))
    records, _ = checked_records(stored.data)
    from_disk = ScrollPatches(records, stored.data, stored.augmentation)
    from_nothing = ScrollPatches(find_records(computed.data), computed.data, computed.augmentation)
    assert len(from_disk) == len(from_nothing) == 12
    for number in range(6):
        for one, other in zip(from_disk[number], from_nothing[number], strict=True):
            assert one.equal(other)


def test_it_goes_on_where_it_was_stopped(write_config, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, output = write_config(), tmp_path / "disk"
    assert run(config, output, "--records", "2") == 0
    first = output / "images" / "scroll_00000.npy"
    content, before = first.read_bytes(), first.stat().st_mtime_ns
    # Killed between a record's labels and its image, with half of another on the disk.
    (output / "images" / "scroll_00001.npy").unlink()
    with subprocess.Popen(["true"]) as ended:
        partial_of(output / "images" / "scroll_00001.npy", ended.pid).write_bytes(b"half")
    capsys.readouterr()
    assert run(config, output, "--records", "3") == 0
    advice = "to train on them, put this under data:"
    assert capsys.readouterr().err.splitlines() == [
        "1 of 3 are there already",
        "scroll_00001 written, 2 of 3",
        "scroll_00002 written, 3 of 3",
        advice,
    ]
    assert run(config, output, "--records", "3") == 0
    assert capsys.readouterr().err.splitlines() == ["3 of 3 are there already", advice]
    assert (first.read_bytes(), first.stat().st_mtime_ns) == (content, before)
    assert sorted(os.listdir(output / "images")) == [f"scroll_0000{number}.npy" for number in range(3)]
    assert np.load(output / "labels" / "scroll_00001.npy").shape == (48, 48, 48)


def test_volumes_of_another_seed_are_not_mixed_in(
    write_config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(write_config(), tmp_path / "disk", "--records", "1") == 0
    capsys.readouterr()
    assert run(write_config({"data.seed": 5}), tmp_path / "disk", "--records", "2") == 1
    assert capsys.readouterr().err == (
        f"error: {tmp_path}/disk/volumes.json: volumes with another seed were begun here: take another folder\n"
    )


def test_what_cannot_be_written_is_one_line(write_config, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert run(write_config(), tmp_path / "file") == 1
    refused = capsys.readouterr().err
    assert refused.startswith(f"error: {tmp_path}/file/volumes.json: cannot be ")
    assert len(refused.splitlines()) == 1

    huge = write_config({"data.volume_size": [100_000, 100_000, 100_000]})
    assert run(huge, tmp_path / "huge") == 1
    refused = capsys.readouterr().err
    assert refused.startswith(f"error: {tmp_path}/huge: ") and "GB are free, the volumes need 8000000.0 GB" in refused


def test_zarr_takes_the_space_that_is_told(
    write_config, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks at the edges are whole: none may stick out far, and what does is counted."""
    pytest.importorskip("zarr")
    changes = {"data.volume_size": [96, 65, 70], "data.chunk_size": [48, 48, 48], "data.records": 1}
    assert run(write_config(changes), tmp_path / "disk", kind="zarr") == 0
    taken = sum(path.stat().st_size for path in (tmp_path / "disk").rglob("c/**/*") if path.is_file())
    assert taken == 2 * 96 * 66 * 70
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**12, 10**12, taken - 1))
    assert run(write_config(changes), tmp_path / "full", kind="zarr") == 1
    assert "the volumes need" in capsys.readouterr().err


def test_a_wrong_config_is_exit_code_2(write_config, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config({"data.sed": 1})
    assert run(config, tmp_path / "disk") == 2
    assert capsys.readouterr().err == f'error: {config}: data.sed: unknown key, did you mean "data.seed"?\n'


@pytest.mark.parametrize("arguments", [["--records", "0"], ["--compress"]])
def test_a_wrong_argument_is_exit_code_2(arguments: list[str], write_config, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as caught:
        run(write_config(), tmp_path / "disk", *arguments)
    assert caught.value.code == 2
