"""Everything that may be set, with its default and its range; configs/ has the words to each key.

Standard library and PyYAML only: a config can be checked without loading PyTorch.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from vtune.pipelines.unet3d.config_file import (
    TOP_KEYS,
    Sections,
    SettingsError,
    got,
    load_yaml,
    read_section,
    unknown_key,
    within,
)

# Which surfaces of a synthetic sheet are labelled.
Faces: TypeAlias = Literal["outer", "both"]
# Papyrus is made of two layers of strips, laid crosswise. Where a scan does not show it ("alike"), a small patch tells
# the outer surface from the inner one only by which way the whole roll bends; where it does ("crossed"), by the sheet.
Layers: TypeAlias = Literal["alike", "crossed"]
Precision: TypeAlias = Literal["fp32", "bf16", "fp16"]

# The section of another program that may share this file. It is not ours to read or to judge.
FOREIGN_SECTION = "vtune"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSettings:
    seed: int = within(0, low=0)
    records: int = within(806, low=1)
    patches_per_record: int = within(5, low=1)
    volume_size: tuple[int, int, int] = within((320, 320, 320), low=8)
    chunk_size: tuple[int, int, int] = within((64, 64, 64), low=8)
    faces: Faces = "outer"
    layers: Layers = "alike"
    patch_size: tuple[int, int, int] = within((72, 136, 136), low=8)
    read_margin: float = within(0.2, low=0.0, high=1.0)
    foreground_probability: float = within(0.5, low=0.0, high=1.0)
    # Folders of volumes; without them they are synthetic, and the sizes above are theirs.
    images: str | None = None
    labels: str | None = None
    intensity_range: tuple[float, float] | None = None
    ignore_label: int | None = within(None, low=2, high=255)
    validation_records: int = within(0, low=0)
    split_file: str | None = None

    @property
    def region_size(self) -> tuple[int, int, int]:
        """What is read for one patch: the patch and the margin that a rotation needs at its edges."""
        z, y, x = (math.ceil(edge * (1 + self.read_margin)) for edge in self.patch_size)
        return z, y, x


@dataclass(frozen=True, slots=True, kw_only=True)
class AugmentationSettings:
    flip_probability: float = within(0.5, low=0.0, high=1.0)
    spatial_probability: float = within(0.8, low=0.0, high=1.0)
    rotation_degrees: float = within(30.0, low=0.0, high=180.0)
    scale_range: tuple[float, float] = within((0.85, 1.2), low=0.1, high=10.0)
    elastic_voxels: float = within(4.0, low=0.0)
    elastic_spacing: int = within(24, low=2)
    intensity_probability: float = within(0.3, low=0.0, high=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    filters: int = within(32, low=1)
    max_filters: int = within(320, low=1)
    depth: int = within(6, low=2, high=8)
    deep_supervision: bool = True
    gradient_checkpointing: bool = False
    channels_last: bool = False
    compile: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LossSettings:
    bce_weight: float = within(1.0, low=0.0)
    dice_weight: float = within(1.0, low=0.0)
    cldice_weight: float = within(0.0, low=0.0)
    skeleton_weight: float = within(0.0, low=0.0)
    surface_weight: float = within(1.0, low=0.0)
    topology_weight: float = within(0.0, low=0.0)
    positive_weight: float = within(3.0, low=0.0)
    skeleton_iterations: int = within(3, low=1, high=50)
    surface_place: Literal["loss", "worker"] = "loss"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    seed: int = within(0, low=0, high=2**63 - 1)  # PyTorch takes no larger one
    workers: int = within(1, low=0)
    worker_start: Literal["spawn", "fork"] = "spawn"
    train_batch_size: int = within(1, low=1)
    accumulate_steps: int = within(1, low=1)
    train_iterations_per_epoch: int = within(4000, low=1)
    max_epochs: int = within(32, low=1)
    surface_distance_interval: int = within(16, low=1)
    learning_rate: float = within(0.0003, low=0.0)
    warmup_steps: int = within(500, low=0)
    weight_decay: float = within(0.01, low=0.0)
    gradient_clip: float | None = within(None, low=0.0)
    log_every_n_steps: int = within(10, low=1)
    torch_threads: int | None = within(None, low=1)
    precision: Precision = "fp32"
    ema_decay: float | None = within(None, low=0.0, high=1.0)
    checkpoint_every_n_steps: int | None = within(None, low=1)
    keep_checkpoints: int = within(0, low=0)
    tensorboard: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationSettings:
    every_n_epochs: int = within(1, low=1)
    overlap: float = within(0.5, low=0.0, high=0.9)
    batch_size: int = within(1, low=1)
    surface_tolerance: float = within(1.0, low=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    output_dir: str
    data: DataSettings
    augmentation: AugmentationSettings
    model: ModelSettings
    loss: LossSettings
    training: TrainingSettings
    validation: ValidationSettings


SECTIONS: Sections = {
    "data": DataSettings,
    "augmentation": AugmentationSettings,
    "model": ModelSettings,
    "loss": LossSettings,
    "training": TrainingSettings,
    "validation": ValidationSettings,
}


def load_settings(path: Path) -> Settings:
    """Reads and checks the whole file; every problem is reported at once."""
    document = load_yaml(path)
    problems: list[str] = []
    known = {*TOP_KEYS, *SECTIONS}
    for key in document:
        if key not in known and key != FOREIGN_SECTION:
            problems.append(unknown_key(str(key), None, SECTIONS))

    output_dir = document.get("output_dir")
    if not isinstance(output_dir, str) or not output_dir:
        problems.append(f"output_dir: expected the folder for checkpoints and logs, {got(output_dir)}")

    sections = {
        name: read_section(name, kind, document.get(name), problems, SECTIONS) for name, kind in SECTIONS.items()
    }
    if not problems:
        settings = Settings(output_dir=str(output_dir), **sections)
        problems = _contradictions(settings)
        if not problems:
            return settings
    raise SettingsError(path, problems)


def _contradictions(settings: Settings) -> list[str]:
    """What no single key can tell."""
    problems = []
    data, model = settings.data, settings.model
    if (data.images is None) != (data.labels is None):
        problems.append("data.images, data.labels: expected both folders, or neither")
    is_synthetic = data.images is None
    for axis, region, volume in zip("zyx", data.region_size, data.volume_size, strict=True):
        if region > volume and is_synthetic:
            problems.append(
                f"data.patch_size: needs {region} voxels along {axis} with its read_margin, "
                f"data.volume_size has {volume}"
            )
    # Instance norm has no variance to divide by when one voxel is left.
    smallest = math.prod(math.ceil(edge / 2 ** (model.depth - 1)) for edge in data.patch_size)
    if smallest < 2:
        problems.append(f"model.depth: {model.depth} levels leave one voxel of a patch of {list(data.patch_size)}")
    if is_synthetic and data.validation_records >= data.records:
        problems.append(f"data.validation_records: {data.validation_records} of {data.records} leave none to train on")
    if data.intensity_range is not None and data.intensity_range[0] >= data.intensity_range[1]:
        problems.append(f"data.intensity_range: expected [black, white], got {list(data.intensity_range)}")
    low, high = settings.augmentation.scale_range
    if low > high:
        problems.append(f"augmentation.scale_range: expected [smallest, largest], got [{low:g}, {high:g}]")
    return problems
