"""Mixed precision: what forward is computed in, and the scaling that float16's small gradients need."""

import torch

from vtune.pipelines.unet3d.settings import Precision

# torch starts at 2^16 and halves at every overflow. Gradients that overflow float16 at this scale as well are broken,
# and the training would leave out its steps for ever without a word.
LEAST_SCALE = 2.0**-10


def why_not(precision: Precision, device: torch.device) -> str | None:
    if precision == "fp16" and device.type != "cuda":
        return "training.precision: fp16 needs a GPU, and there is none here: bf16 and fp32 run on the CPU"
    return None


def autocast(precision: Precision, device: torch.device) -> torch.autocast:
    dtype = torch.float16 if precision == "fp16" else torch.bfloat16
    return torch.autocast(device.type, dtype=dtype, enabled=precision != "fp32")


def gradient_scaler(precision: Precision, device: torch.device) -> torch.amp.GradScaler:
    """For float16 only; for the others it passes everything through."""
    return torch.amp.GradScaler(device.type, enabled=precision == "fp16")
