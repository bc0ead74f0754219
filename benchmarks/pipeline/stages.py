"""The stages that are measured, each as this pipeline does it and as MONAI does.

Both sides get the same voxels, sizes, types and number of threads, and everything random is certain to happen. What
both cannot do in the same way is said in README.md.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import monai_side
import numpy as np
import torch
import yaml
from torch import Tensor

from vtune.pipelines.unet3d.data.augment import Sample, augment
from vtune.pipelines.unet3d.data.patches import ScrollPatches
from vtune.pipelines.unet3d.data.records import find_records
from vtune.pipelines.unet3d.data.volumes import Triple
from vtune.pipelines.unet3d.losses.overlap import soft_dice, weighted_bce
from vtune.pipelines.unet3d.losses.skeleton import cldice, skeleton_recall
from vtune.pipelines.unet3d.losses.surface import surface_error
from vtune.pipelines.unet3d.losses.topology import euler_difference
from vtune.pipelines.unet3d.losses.total import segmentation_loss
from vtune.pipelines.unet3d.model import UNet3D
from vtune.pipelines.unet3d.settings import AugmentationSettings, DataSettings, LossSettings, ModelSettings

ROOT = Path(__file__).resolve().parents[2]
POSITIVE_WEIGHT = 3.0
ITERATIONS = 3
FORMATS = ("npy", "tiff", "tiff-stack", "zarr")
ONE, ONE_AND_TWO = (1,), (1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    volume: int
    region: int
    patch: int
    losses: tuple[int, ...]
    network: int


FULL = Sizes(volume=256, region=128, patch=96, losses=(64, 96), network=64)
QUICK = Sizes(volume=64, region=32, patch=24, losses=(24,), network=16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    group: str
    name: str
    ours: Callable[[], object]
    theirs: Callable[[], object] | None = None
    threads: tuple[int, ...] = ONE_AND_TWO
    bar: float | None = None


def stages(sizes: Sizes, scratch: Path) -> Iterator[Stage]:
    """Made one after another: what one of them needs is gone before the next."""
    yield from loading(sizes, scratch)
    yield from augmentation(sizes)
    yield from losses(sizes)
    yield from network(sizes)


def loading(sizes: Sizes, scratch: Path) -> Iterator[Stage]:
    """One thread: that is what a loader's worker has."""
    region = (sizes.region,) * 3
    for kind in ("synthetic", *FORMATS):
        for compress in (False, True) if kind in ("tiff", "zarr") else (False,):
            data = settings_of(sizes) if kind == "synthetic" else written(sizes, scratch, kind, compress=compress)
            name = kind + (", compressed" if compress else "")
            yield Stage(
                group="loading",
                name=f"{sizes.region}³ of {sizes.volume}³, {name}",
                ours=_reading(data, region),
                theirs=monai_side.reading(kind, data.images, data.labels, region),
                threads=ONE,
            )
            if kind == "npy":
                yield from samples(sizes, data)


def samples(sizes: Sizes, data: DataSettings) -> Iterator[Stage]:
    """Loading and augmentation together, as a worker does them for each sample."""
    for name, settings, bar in (("everything", EVERYTHING, 2.0), ("no elastic deformation", NO_ELASTIC, None)):
        patches = ScrollPatches(find_records(data), data, settings)
        numbers = iter(range(10**9))
        yield Stage(
            group="loading and augmentation",
            name=f"{sizes.patch}³ from {sizes.region}³, npy, {name}",
            ours=lambda patches=patches, numbers=numbers: patches[next(numbers)],
            theirs=monai_side.sample(data.images, data.labels, (sizes.region,) * 3, data.patch_size, settings),
            threads=ONE,
            bar=bar,
        )


# All of it, always.
EVERYTHING = AugmentationSettings(flip_probability=1.0, spatial_probability=1.0, intensity_probability=1.0)
NO_ELASTIC = replace(EVERYTHING, elastic_voxels=0.0)
SPATIAL = replace(EVERYTHING, flip_probability=0.0, intensity_probability=0.0)
INTENSITY = replace(EVERYTHING, flip_probability=0.0, spatial_probability=0.0)


def augmentation(sizes: Sizes) -> Iterator[Stage]:
    data = settings_of(sizes)
    block = find_records(data)[0].open().read((0, 0, 0), (sizes.region,) * 3)
    image, label = torch.from_numpy(block.image).float() / 255, torch.from_numpy(block.label)
    region = Sample(image.numpy(), label.numpy())
    for name, settings in (
        ("everything", EVERYTHING),
        ("no elastic deformation", NO_ELASTIC),
        ("spatial only", SPATIAL),
        ("spatial only, no elastic deformation", replace(SPATIAL, elastic_voxels=0.0)),
        ("intensities only", INTENSITY),
    ):
        rng = np.random.default_rng(0)
        yield Stage(
            group="augmentation",
            name=f"{sizes.patch}³ from {sizes.region}³, {name}",
            ours=lambda settings=settings, rng=rng: augment(region, data.patch_size, settings, rng),
            theirs=monai_side.augmentation(image, label, data.patch_size, settings),
        )


def losses(sizes: Sizes) -> Iterator[Stage]:
    for edge in sizes.losses:
        byte_label = scroll_label(sizes, edge)
        label = byte_label.float()
        # Of a network on its way: mostly right, never sure, and noisy.
        generator = torch.Generator().manual_seed(0)
        logits = (2 * label - 1.5 + torch.randn(label.shape, generator=generator)).requires_grad_()

        def stage(
            name: str,
            term: Callable[[Tensor, Tensor], Tensor],
            peer: str | None,
            *,
            bar: float | None = None,
            logits: Tensor = logits,
            label: Tensor = label,
            edge: int = edge,
        ) -> Stage:
            return Stage(
                group="loss",
                name=f"{name}, {edge}³",
                ours=_there_and_back(term, logits, label),
                theirs=None if peer is None else _there_and_back(monai_side.loss(peer), logits, label),
                bar=bar,
            )

        yield stage("Dice", soft_dice, "dice")
        yield stage("Dice and weighted cross-entropy", _dice_and_bce, "dice and cross-entropy")
        yield stage("clDice", lambda x, y: cldice(x, y, iterations=ITERATIONS), "cldice")
        yield stage("surface distance, Hausdorff", surface_error, "hausdorff")
        yield stage("morphological skeleton", lambda x, y: skeleton_recall(x, y, iterations=ITERATIONS), None)
        yield stage("topology", euler_difference, None)
        yield stage("all that both have", _total(THEIRS_TOO, byte_label), "all", bar=2.0)
        yield stage("all six here, all three of MONAI", _total(ALL, byte_label), "all")


THEIRS_TOO = LossSettings(cldice_weight=1.0, skeleton_iterations=ITERATIONS, positive_weight=POSITIVE_WEIGHT)
ALL = replace(THEIRS_TOO, skeleton_weight=1.0, topology_weight=1.0)


def network(sizes: Sizes) -> Iterator[Stage]:
    settings = ModelSettings(filters=16, max_filters=128, depth=3 if sizes.network < 32 else 4)
    ours, theirs = UNet3D(settings), monai_side.network(settings)
    image = torch.randn((1, 1, *[sizes.network] * 3), generator=torch.Generator().manual_seed(0))
    name = f"{settings.depth} levels, {settings.filters} filters, {sizes.network}³"
    counts = [sum(weights.numel() for weights in model.parameters()) / 1e6 for model in (ours, theirs)]
    name += f" ({counts[0]:.2f} and {counts[1]:.2f} million weights)"
    yield Stage(group="network", name=f"forward, {name}", ours=_forward(ours, image), theirs=_forward(theirs, image))
    yield Stage(
        group="network",
        name=f"forward and backward, {name}",
        ours=_forward_and_backward(ours, image),
        theirs=_forward_and_backward(theirs, image),
    )


def settings_of(sizes: Sizes) -> DataSettings:
    return DataSettings(
        records=1,
        volume_size=(sizes.volume,) * 3,
        patch_size=(sizes.patch,) * 3,
        # A hair less, for it is rounded up.
        read_margin=sizes.region / sizes.patch - 1 - 1e-9,
        # MONAI would read all labels to find a surface.
        foreground_probability=0.0,
    )


def written(sizes: Sizes, scratch: Path, kind: str, *, compress: bool) -> DataSettings:
    """The synthetic volume in one of the formats, by the pipeline's own command."""
    folder = scratch / (kind + ("-compressed" if compress else ""))
    config = scratch / "volumes.yaml"
    data = {"records": 1, "volume_size": [sizes.volume] * 3, "patch_size": [sizes.patch] * 3}
    # Of a network that goes with any size of patch.
    document = {"output_dir": str(scratch / "run"), "data": data, "model": {"depth": 2}}
    config.write_text(yaml.safe_dump(document), encoding="utf-8")
    command = [sys.executable, "-m", "vtune.pipelines.unet3d.write_volumes", "--config", str(config)]
    command += ["--format", kind, "--output", str(folder), *(["--compress"] if compress else [])]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if made.returncode != 0:
        raise SystemExit(f"error: the volumes for {kind} were not written: {made.stderr.strip()}")
    return replace(settings_of(sizes), images=str(folder / "images"), labels=str(folder / "labels"))


def scroll_label(sizes: Sizes, edge: int) -> Tensor:
    block = find_records(settings_of(sizes))[0].open().read((0, 0, 0), (edge,) * 3)
    return torch.from_numpy(block.label)[None, None]


def _reading(data: DataSettings, region: Triple) -> Callable[[], tuple[Tensor, Tensor]]:
    """Opened anew for each sample, as the data set does: thousands of volumes cannot all stay open."""
    records = find_records(data)
    rng = np.random.default_rng(0)

    def read() -> tuple[Tensor, Tensor]:
        volume = records[0].open()
        z, y, x = (int(rng.integers(limit - edge + 1)) for limit, edge in zip(volume.size, region, strict=True))
        block = volume.read((z, y, x), region)
        return torch.from_numpy(block.image).float() / 255, torch.from_numpy(block.label)

    return read


def _there_and_back(term: Callable[[Tensor, Tensor], Tensor], logits: Tensor, label: Tensor) -> Callable[[], object]:
    def step() -> None:
        logits.grad = None
        term(logits, label).backward()

    return step


def _dice_and_bce(logits: Tensor, label: Tensor) -> Tensor:
    return soft_dice(logits, label) + weighted_bce(logits, label, positive_weight=POSITIVE_WEIGHT)


def _total(settings: LossSettings, byte_label: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """As the training asks for it: of the label as it comes from the loader."""
    return lambda logits, label: segmentation_loss([logits], byte_label, settings, with_surface=True)["total"]


def _forward(model: torch.nn.Module, image: Tensor) -> Callable[[], object]:
    def forward() -> None:
        with torch.no_grad():
            model(image)

    return forward


def _forward_and_backward(model: torch.nn.Module, image: Tensor) -> Callable[[], object]:
    def step() -> None:
        model.zero_grad(set_to_none=True)
        outputs = model(image)
        torch.stack([output.mean() for output in outputs]).sum().backward()

    return step
