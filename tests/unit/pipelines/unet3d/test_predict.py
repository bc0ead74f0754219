"""From a checkpoint and a volume to a volume of labels, as its user starts it."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from vtune.pipelines.unet3d import predict, train
from vtune.pipelines.unet3d.data.records import find_records
from vtune.pipelines.unet3d.data.volumes import SURFACE
from vtune.pipelines.unet3d.metrics import Comparison
from vtune.pipelines.unet3d.settings import load_settings


@pytest.fixture
def checkpoint(write_config, tmp_path: Path) -> Path:
    assert train.main(["--config", str(write_config({"training.max_epochs": 1, "training.ema_decay": 0.9}))]) == 0
    return tmp_path / "run" / "checkpoints" / "last.pt"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "scan of mine.npy"
    np.save(path, np.random.default_rng(0).integers(0, 255, (30, 20, 18), dtype=np.uint8))
    return path


def run(checkpoint: Path, image: Path, output: Path, *more: str) -> int:
    return predict.main(["--checkpoint", str(checkpoint), "--image", str(image), "--output", str(output), *more])


def test_labels_are_where_the_probability_is_at_least_a_half(
    checkpoint: Path, image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(checkpoint, image, tmp_path / "p.npy", "--probability") == 0
    assert run(checkpoint, image, tmp_path / "l.npy") == 0
    probability, label = np.load(tmp_path / "p.npy"), np.load(tmp_path / "l.npy")
    assert (probability.dtype, label.dtype) == (np.float32, np.uint8)
    assert probability.shape == label.shape == (30, 20, 18)
    assert np.array_equal(label, probability >= 0.5)
    assert 0 <= probability.min() < probability.max() <= 1 + 1e-6
    assert f"{tmp_path / 'l.npy'}: {label.mean():.1%} surface\n" in capsys.readouterr().out


@pytest.mark.parametrize("suffix", [".tif", ".zarr"])
def test_every_format_holds_the_same_voxels(checkpoint: Path, image: Path, tmp_path: Path, suffix: str) -> None:
    pytest.importorskip({".tif": "tifffile", ".zarr": "zarr"}[suffix])
    from vtune.pipelines.unet3d.data.stored import open_image

    for more in ([], ["--probability"]):
        assert run(checkpoint, image, tmp_path / "n.npy", *more) == 0
        output = tmp_path / f"{len(more)}{suffix}"
        assert run(checkpoint, image, output, *more) == 0
        found = open_image(output).read((0, 0, 0), (30, 20, 18))
        assert np.array_equal(found, np.load(tmp_path / "n.npy"))
        assert found.dtype == (np.float32 if more else np.uint8)


def test_the_averaged_weights_are_used(checkpoint: Path) -> None:
    model, _ = predict.load_model(checkpoint, torch.device("cpu"))
    content = torch.load(checkpoint, weights_only=True)
    assert torch.equal(model.state_dict()["heads.0.weight"], content["averaged"]["heads.0.weight"])
    assert not torch.equal(model.state_dict()["heads.0.weight"], content["model"]["heads.0.weight"])


@pytest.mark.slow
def test_what_was_learnt_is_predicted(write_config, tmp_path: Path) -> None:
    """The same volume as an image file: as good as the validation said."""
    changes = {
        "data.validation_records": 1,
        "training.max_epochs": 1,
        "training.train_iterations_per_epoch": 150,
        "training.learning_rate": 0.03,
        "model.filters": 8,
        "model.max_filters": 16,
    }
    config = write_config(changes)
    assert train.main(["--config", str(config)]) == 0
    content = torch.load(tmp_path / "run" / "checkpoints" / "best.pt", weights_only=True)
    import json

    name = json.loads((tmp_path / "run" / "split.json").read_text())["validation"][0]
    record = next(record for record in find_records(load_settings(config).data) if record.name == name)
    block = record.open().read((0, 0, 0), (48, 48, 48))
    np.save(tmp_path / "image.npy", block.image)
    assert run(tmp_path / "run" / "checkpoints" / "best.pt", tmp_path / "image.npy", tmp_path / "out.npy") == 0
    comparison = Comparison(tolerance_voxels=1.0)
    comparison.add(np.load(tmp_path / "out.npy") == 1, block.label == SURFACE)
    found = comparison.scores()["dice"]
    assert found == pytest.approx(content["best_dice"])
    assert found > 0.4


def error_of(capsys: pytest.CaptureFixture[str]) -> str:
    shown = capsys.readouterr().err
    assert len(shown.splitlines()) == 1, shown
    return shown.removeprefix("error: ").rstrip("\n")


def test_bad_inputs_are_one_line_each(
    checkpoint: Path, image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small, floats, text = tmp_path / "small.npy", tmp_path / "floats.npy", tmp_path / "scan.txt"
    np.save(small, np.zeros((30, 12, 18), np.uint8))
    np.save(floats, np.zeros((30, 20, 18), np.float32))
    mask = tmp_path / "mask.npy"
    np.save(mask, np.zeros((30, 20, 18), np.bool_))
    text.write_text("")
    capsys.readouterr()
    for given, line in (
        (tmp_path / "none.npy", f"{tmp_path / 'none.npy'}: no such file or folder"),
        (text, rf"{text}: expected \.npy, .*"),
        (mask, f"{mask}: expected integers or floats as intensities, it holds bool"),
        (small, f"{small}: cannot be segmented: 12 voxels along y, a patch has 16"),
        (floats, rf"{floats}: holds float32, and {checkpoint} was trained without a data\.intensity_range for such"),
    ):
        assert run(checkpoint, given, tmp_path / "out.npy") == 1
        assert re.fullmatch(line, error_of(capsys))
    with pytest.raises(SystemExit):
        run(checkpoint, image, image)
    assert "is the image itself" in capsys.readouterr().err
    assert run(tmp_path / "none.pt", image, tmp_path / "out.npy") == 1
    assert error_of(capsys) == f"cannot read checkpoint {tmp_path / 'none.pt'}: No such file or directory"
    with pytest.raises(SystemExit) as ended:
        run(checkpoint, image, tmp_path / "out.jpg")
    assert ended.value.code == 2
    assert not list(tmp_path.glob("*out*"))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["things.zarr", "things.npy", "group.zarr"])
def test_a_folder_of_other_things_is_never_replaced(
    checkpoint: Path, image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    zarr = pytest.importorskip("zarr")
    output = tmp_path / name
    if name == "group.zarr":
        zarr.open_group(str(output), mode="w").create_array("0", shape=(2, 2, 2), dtype="u1")
    output.mkdir(exist_ok=True)
    (output / "of years.txt").write_text("work")
    before = contents(tmp_path)
    capsys.readouterr()
    assert run(checkpoint, image, output) == 1
    assert error_of(capsys) == f"{output}: is a folder with other things in it, and stays as it is"
    assert contents(tmp_path) == before


def test_an_output_around_or_inside_of_what_it_is_made_from_is_refused(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    around, slices = tmp_path / "around.zarr", tmp_path / "slices"
    around.mkdir()
    slices.mkdir()
    np.save(around / "scan.npy", np.zeros((30, 20, 18), np.uint8))
    for image, output, words in (
        (around / "scan.npy", around, "holds the image"),
        (slices, slices / "out.tif", "lies within the image"),
    ):
        with pytest.raises(SystemExit) as ended:
            run(checkpoint, image, output)
        assert ended.value.code == 2
        assert f"--output {output}: {words}" in capsys.readouterr().err
    assert (around / "scan.npy").exists()


@pytest.mark.parametrize("suffix", [".npy", ".zarr"])
def test_an_earlier_output_is_replaced_and_that_is_told(
    checkpoint: Path, image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    pytest.importorskip("zarr")
    output = tmp_path / f"out{suffix}"
    for words in ("surface\n", "surface, in the place of what was there\n"):
        assert run(checkpoint, image, output) == 0
        assert capsys.readouterr().out.endswith(words)


def test_an_output_that_cannot_be_finished_is_absent(
    checkpoint: Path, image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A limit on the size of files stands for a full disk."""
    capsys.readouterr()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
    try:
        assert run(checkpoint, image, tmp_path / "out.npy") == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert error_of(capsys) == f"{tmp_path / 'out.npy'}: cannot be written: File too large"
    assert not list(tmp_path.glob("*out*"))


@pytest.mark.slow
@pytest.mark.parametrize("stdout", ["a reader that leaves", "/dev/full"])
def test_a_stdout_that_takes_nothing_costs_nothing(checkpoint: Path, image: Path, tmp_path: Path, stdout: str) -> None:
    command = [sys.executable, "-m", "vtune.pipelines.unet3d.predict", "--checkpoint", str(checkpoint)]
    command += ["--image", str(image), "--output", str(tmp_path / "out.npy")]
    if stdout == "/dev/full":
        with open(stdout, "wb") as full:
            ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
        assert (ran.returncode, ran.stderr) == (0, "")
    else:
        read, write = os.pipe()
        os.close(read)
        ran = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
        os.close(write)
        assert (ran.returncode, ran.stderr) == (0, "")
    assert np.load(tmp_path / "out.npy").shape == (30, 20, 18)


def test_settings_of_another_version_are_told(
    checkpoint: Path, image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = torch.load(checkpoint, weights_only=True)
    content["settings"]["model"]["attention"] = True
    torch.save(content, checkpoint)
    capsys.readouterr()
    assert run(checkpoint, image, tmp_path / "out.npy") == 1
    assert error_of(capsys).startswith(f"cannot use checkpoint {checkpoint}: its settings are another version's (")


@pytest.mark.slow
def test_stopped_in_the_middle_it_leaves_nothing(checkpoint: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "long.npy", np.zeros((20_000, 32, 32), np.uint8))
    command = [sys.executable, "-m", "vtune.pipelines.unet3d.predict", "--checkpoint", str(checkpoint)]
    process = subprocess.Popen(
        [*command, "--image", str(tmp_path / "long.npy"), "--output", str(tmp_path / "out.npy")],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert "planes" in process.stdout.readline()
        assert list(tmp_path.glob("*out*"))
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
        assert process.returncode == 143
        assert time.monotonic() - began < 8
        assert not list(tmp_path.glob("*out*"))
    finally:
        process.kill()
        process.wait()


def test_an_intensity_that_is_no_number_ends_it(
    write_config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config({"training.max_epochs": 1, "data.intensity_range": [0.0, 255.0]})
    assert train.main(["--config", str(config)]) == 0
    image = np.zeros((30, 20, 18), np.float32)
    image[29, 3, 4] = np.nan
    np.save(tmp_path / "scan.npy", image)
    capsys.readouterr()
    assert run(tmp_path / "run" / "checkpoints" / "last.pt", tmp_path / "scan.npy", tmp_path / "out.npy") == 1
    line = error_of(capsys)
    assert re.fullmatch(rf"{tmp_path / 'scan.npy'}: holds an intensity that is no number, in planes \d+ to 29", line)
    assert not list(tmp_path.glob("*out*"))
