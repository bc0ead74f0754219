"""Finds the surfaces in a volume with a trained network.

    python -m vtune.pipelines.unet3d.predict --checkpoint runs/exp001/checkpoints/best.pt \\
        --image scan.tif --output surface.tif

The checkpoint brings its settings along. Exit codes: 0 done · 1 it failed · 130 Ctrl-C · 143 SIGTERM. The output is
whole or absent.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from vtune.pipelines.unet3d.checkpoints import CheckpointError, check_architecture, load_checkpoint, settings_of
from vtune.pipelines.unet3d.data.intensity import needs_range
from vtune.pipelines.unet3d.data.stored import ending_of, open_image, write_image
from vtune.pipelines.unet3d.data.volumes import DataError
from vtune.pipelines.unet3d.failures import tell, words_for
from vtune.pipelines.unet3d.inference import THRESHOLD, WindowError, probability_slabs
from vtune.pipelines.unet3d.journal import to_nowhere
from vtune.pipelines.unet3d.model import UNet3D
from vtune.pipelines.unet3d.precision import why_not
from vtune.pipelines.unet3d.segmenter import segmenter
from vtune.pipelines.unet3d.settings import Settings
from vtune.pipelines.unet3d.stopping import StopRequest

OUTPUTS = (".npy", ".tif", ".tiff", ".zarr")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m vtune.pipelines.unet3d.predict", description="Find surfaces.")
    parser.add_argument("--checkpoint", type=Path, required=True, help="e.g. runs/exp001/checkpoints/best.pt")
    parser.add_argument("--image", type=Path, required=True, help="a .npy, .tif or .zarr, or a folder of TIFF slices")
    parser.add_argument("--output", type=Path, required=True, help=f"to write: {', '.join(OUTPUTS)}")
    parser.add_argument("--probability", action="store_true", help="write probabilities as float32 instead of 0 and 1")
    chosen = parser.parse_args(arguments)
    if ending_of(chosen.output) not in OUTPUTS:
        parser.error(f"--output {chosen.output}: expected one of {', '.join(OUTPUTS)}")
    output, image = (Path(os.path.realpath(path)) for path in (chosen.output, chosen.image))
    if output == image:
        parser.error(f"--output {chosen.output}: is the image itself")
    if image in output.parents:
        parser.error(f"--output {chosen.output}: lies within the image, among its slices or chunks")
    if output in image.parents:
        parser.error(f"--output {chosen.output}: holds the image, and would take its place")
    try:
        predict(chosen.checkpoint, chosen.image, chosen.output, as_probability=chosen.probability)
    except (DataError, CheckpointError) as error:
        tell(words_for(error) or "")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("stopped by Ctrl-C\n")
        return 130
    return 0


def predict(checkpoint: Path, image_path: Path, output: Path, *, as_probability: bool) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model, settings = load_model(checkpoint, device)
    image = open_image(image_path)
    image.verify()
    if image.dtype.kind == "b":
        raise DataError(f"{image_path}: expected integers or floats as intensities, it holds bool")
    if settings.data.intensity_range is None and needs_range(image.dtype):
        raise DataError(
            f"{image_path}: holds {image.dtype}, and {checkpoint} was trained without a data.intensity_range for such"
        )
    segment = segmenter(
        model,
        intensity_range=settings.data.intensity_range,
        # Trained on a GPU, used without one.
        precision="fp32" if why_not(settings.training.precision, device) else settings.training.precision,
        device=device,
    )

    def read(first: int, stop: int) -> npt.NDArray[Any]:
        planes = image.read((first, 0, 0), (stop - first, *image.size[1:]))
        if planes.dtype.kind == "f" and not np.isfinite(planes).all():
            raise DataError(f"{image_path}: holds an intensity that is no number, in planes {first} to {stop - 1}")
        return planes

    began = time.perf_counter()
    slabs = probability_slabs(
        read,
        image.size,
        segment,
        window=settings.data.patch_size,
        overlap=settings.validation.overlap,
        batch_size=settings.validation.batch_size,
    )
    was_there = ", in the place of what was there" if output.exists() else ""
    written_type = np.dtype(np.float32 if as_probability else np.uint8)
    surface = 0
    try:
        with write_image(output, image.size, written_type, compress=not as_probability) as put:
            for z, slab in slabs:
                found = slab >= THRESHOLD
                surface += int(np.count_nonzero(found))
                put(z, slab if as_probability else found.astype(np.uint8))
                done = z + len(slab)
                say(f"{done}/{image.size[0]} planes, {time.perf_counter() - began:.0f} s")
    except WindowError as error:
        raise DataError(f"{image_path}: cannot be segmented: {error}") from error
    share = surface / np.prod(image.size, dtype=np.float64)
    say(f"{output}: {share:.1%} surface{was_there}")


def say(line: str) -> None:
    """To whoever listens: a reader that has left, as `| head` does, costs no volume."""
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except OSError:
        to_nowhere(sys.stdout)


def load_model(checkpoint: Path, device: torch.device) -> tuple[UNet3D, Settings]:
    """The averaged weights, if it was trained with an average."""
    content = load_checkpoint(checkpoint)
    settings = settings_of(content, checkpoint)
    model = UNet3D(settings.model)
    check_architecture(content, checkpoint, model=model, settings=settings.model)
    model.load_state_dict(content["averaged"] or content["model"])
    return model.to(device), settings


if __name__ == "__main__":
    # Nothing is to be saved here: unwound, so that half an output is removed.
    signal.signal(signal.SIGTERM, StopRequest().on_signal)
    sys.exit(main())
