"""A trained network as a function of windows: what was done to a training patch's intensities is done here too."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from vtune.pipelines.unet3d.data.intensity import standardize, to_unit
from vtune.pipelines.unet3d.inference import Segment
from vtune.pipelines.unet3d.model import UNet3D
from vtune.pipelines.unet3d.precision import autocast
from vtune.pipelines.unet3d.settings import Precision


def segmenter(
    model: UNet3D, *, intensity_range: tuple[float, float] | None, precision: Precision, device: torch.device
) -> Segment:
    model.eval()

    def segment(windows: npt.NDArray[Any]) -> Tensor:
        images = np.stack([standardize(to_unit(window, intensity_range)) for window in windows])
        batch = torch.from_numpy(images)[:, None].to(device)
        with torch.inference_mode(), autocast(precision, device):
            logits = model(batch)[0]
        probability: Tensor = logits[:, 0].float().sigmoid()
        return probability

    return segment
