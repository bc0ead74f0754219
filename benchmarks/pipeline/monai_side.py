"""The same work by MONAI, as its documentation advises for speed: no metadata, a mapped file, one resampling for
rotation, scaling and elastic deformation together. Lazy resampling needs the metadata, and would only save flips."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from vtune.pipelines.unet3d.data.augment import (
    BLUR_SIGMA_RANGE,
    BRIGHTNESS,
    CONTRAST,
    GAMMA_RANGE,
    NOISE_DEVIATION,
)
from vtune.pipelines.unet3d.data.volumes import Triple
from vtune.pipelines.unet3d.settings import AugmentationSettings, ModelSettings

with warnings.catch_warnings():
    # Of packages that it would rather have, and of its dependencies' deprecations.
    warnings.simplefilter("ignore")
    from monai.data import set_track_meta
    from monai.data.image_reader import NumpyReader, PILReader
    from monai.losses import DiceCELoss, DiceLoss, HausdorffDTLoss, SoftclDiceLoss
    from monai.networks.nets import DynUNet
    from monai.transforms import (
        Compose,
        EnsureChannelFirstd,
        LoadImaged,
        NormalizeIntensityd,
        Rand3DElasticd,
        RandAdjustContrastd,
        RandAffined,
        RandFlipd,
        RandGaussianNoised,
        RandGaussianSmoothd,
        RandScaleIntensityd,
        RandShiftIntensityd,
        RandSpatialCropd,
        ScaleIntensityRanged,
        Transform,
    )

BOTH = ("image", "label")
# Of its tutorial on transforms.
ELASTIC_SIGMA, ELASTIC_MAGNITUDE = (5.0, 8.0), (100.0, 200.0)
POSITIVE_WEIGHT = 3.0
SEED = 0

set_track_meta(False)

# One sample: what it is read from, or what it becomes.
Sample = dict[str, object]


def reading(kind: str, images: str | None, labels: str | None, region: Triple) -> Callable[[], object] | None:
    """Without its optional ITK it reads .npy of these formats, and a TIFF of one slice by Pillow."""
    if kind == "npy" and images is not None and labels is not None:
        paths = _npy_paths(images, labels)
        load = Compose([*_load_npy(region), _scaled()]).set_random_state(SEED)
        return lambda: _whole(load(dict(paths)))
    if kind == "tiff-stack" and images is not None and labels is not None:
        return _reading_slices(Path(images), Path(labels), region)
    return None


def _load_npy(region: Triple) -> list[Transform]:
    """In the file's own type, so that nothing is read before the crop says what."""
    return [
        LoadImaged(BOTH, reader=NumpyReader(mmap_mode="c"), dtype=None),
        EnsureChannelFirstd(BOTH, channel_dim="no_channel"),
        RandSpatialCropd(BOTH, region, random_size=False),
    ]


def _npy_paths(images: str, labels: str) -> Sample:
    return {"image": str(next(Path(images).glob("*.npy"))), "label": str(next(Path(labels).glob("*.npy")))}


def _reading_slices(images: Path, labels: Path, region: Triple) -> Callable[[], object]:
    """It is given those slices alone that hold the region, which it would not find out by itself."""
    slices = [
        sorted(next(path for path in folder.iterdir() if path.is_dir()).glob("*.tif*")) for folder in (images, labels)
    ]
    load = Compose(
        [
            LoadImaged(BOTH, reader=PILReader(reverse_indexing=False), dtype=None),
            EnsureChannelFirstd(BOTH, channel_dim="no_channel"),
            RandSpatialCropd(BOTH, region, random_size=False),
            _scaled(),
        ]
    ).set_random_state(SEED)
    rng = np.random.default_rng(SEED)

    def read() -> object:
        z = int(rng.integers(len(slices[0]) - region[0] + 1))
        return _whole(load({key: files[z : z + region[0]] for key, files in zip(BOTH, slices, strict=True)}))

    return read


def _scaled() -> Transform:
    return ScaleIntensityRanged("image", 0, 255, 0, 1)


def _whole(sample: Sample) -> Sample:
    """A label that is still a view of the file would be read later, by whoever makes a batch of it."""
    return {key: value.contiguous() if isinstance(value, Tensor) else value for key, value in sample.items()}


def augmentation(
    image: Tensor, label: Tensor, patch_size: Triple, settings: AugmentationSettings
) -> Callable[[], object]:
    change = _augment(patch_size, settings)
    return lambda: _whole(change({"image": image[None], "label": label[None]}))


def sample(
    images: str | None, labels: str | None, region: Triple, patch_size: Triple, settings: AugmentationSettings
) -> Callable[[], object]:
    assert images is not None and labels is not None
    paths = _npy_paths(images, labels)
    load = Compose([*_load_npy(region), _scaled()]).set_random_state(SEED)
    change = _augment(patch_size, settings)
    return lambda: _whole(change(load(dict(paths))))


def _augment(patch_size: Triple, settings: AugmentationSettings) -> Compose:
    moved = _spatial(patch_size, settings)
    axes = range(3) if settings.flip_probability > 0 else ()
    flips = [RandFlipd(BOTH, prob=settings.flip_probability, spatial_axis=axis) for axis in axes]
    changed = _intensity() if settings.intensity_probability > 0 else []
    return Compose([*moved, *changed, *flips, NormalizeIntensityd("image")]).set_random_state(SEED)


def _spatial(patch_size: Triple, settings: AugmentationSettings) -> list[Transform]:
    if settings.spatial_probability == 0:
        return [RandSpatialCropd(BOTH, patch_size, random_size=False)]
    low, high = settings.scale_range
    shared = {
        "prob": 1.0,
        "rotate_range": (math.radians(settings.rotation_degrees),) * 3,
        "scale_range": ((low - 1, high - 1),) * 3,
        "spatial_size": patch_size,
        "mode": ("bilinear", "nearest"),
        "padding_mode": "reflection",
    }
    if settings.elastic_voxels == 0:
        return [RandAffined(BOTH, cache_grid=True, **shared)]
    return [Rand3DElasticd(BOTH, ELASTIC_SIGMA, ELASTIC_MAGNITUDE, **shared)]


def _intensity() -> list[Transform]:
    return [
        RandAdjustContrastd("image", prob=1.0, gamma=GAMMA_RANGE),
        RandScaleIntensityd("image", CONTRAST, prob=1.0),
        RandShiftIntensityd("image", BRIGHTNESS, prob=1.0),
        RandGaussianSmoothd("image", *[BLUR_SIGMA_RANGE] * 3, prob=1.0),
        RandGaussianNoised("image", prob=1.0, std=NOISE_DEVIATION),
    ]


def loss(name: str) -> Callable[[Tensor, Tensor], Tensor]:
    weight = torch.tensor([POSITIVE_WEIGHT])
    both = DiceCELoss(sigmoid=True, weight=weight)
    skeletons = SoftclDiceLoss(iter_=3, sigmoid=True)
    surface = HausdorffDTLoss(include_background=True, sigmoid=True)
    return {
        "dice": DiceLoss(sigmoid=True),
        "dice and cross-entropy": both,
        "cldice": skeletons,
        "hausdorff": surface,
        "all": lambda x, y: both(x, y) + skeletons(x, y) + surface(x, y),
    }[name]


def network(settings: ModelSettings) -> nn.Module:
    """The residual U-Net with instance norm and deep supervision that is nearest to ours."""
    depth = settings.depth
    widths = [min(settings.filters * 2**level, settings.max_filters) for level in range(depth)]
    dyn_unet = DynUNet(
        spatial_dims=3,
        in_channels=1,
        out_channels=1,
        kernel_size=[3] * depth,
        strides=[1] + [2] * (depth - 1),
        upsample_kernel_size=[2] * (depth - 1),
        filters=widths,
        deep_supervision=True,
        deep_supr_num=depth - 2,
        res_block=True,
    )
    return _Unbound(dyn_unet)


class _Unbound(nn.Module):
    """DynUNet stacks its outputs, all at full resolution; a list of them is what ours gives."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: Tensor) -> list[Tensor]:
        return list(self.model(image).unbind(dim=1))
