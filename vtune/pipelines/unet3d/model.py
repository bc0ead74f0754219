"""A residual 3D U-Net with instance norm and deep supervision, for patches of any size."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from vtune.pipelines.unet3d.settings import ModelSettings


class UNet3D(nn.Module):
    """Image (batch, 1, z, y, x) → logits, finest first: full resolution, then one per coarser decoder level.

    Without deep supervision, or in evaluation, there is only the finest.
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        widths = [min(settings.filters * 2**level, settings.max_filters) for level in range(settings.depth)]
        self.encoder = nn.ModuleList(
            ResidualBlock(wide_in, wide_out, stride=1 if level == 0 else 2)
            for level, (wide_in, wide_out) in enumerate(zip([1, *widths], widths, strict=False))
        )
        steps_up = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose3d(deep, shallow, 2, stride=2) for deep, shallow in steps_up)
        self.decoder = nn.ModuleList(ResidualBlock(2 * shallow, shallow) for _, shallow in steps_up)
        supervised = widths[-2::-1] if settings.deep_supervision else widths[:1]
        self.heads = nn.ModuleList(nn.Conv3d(width, 1, 1) for width in supervised)
        self._gradient_checkpointing = settings.gradient_checkpointing
        # Convolutions take the layout of their weights. Instance norm goes back to the plain one, so that whether this
        # pays depends on the device: an option, and off.
        self._layout = torch.channels_last_3d if settings.channels_last else torch.contiguous_format
        if settings.channels_last:
            self.to(memory_format=self._layout)  # type: ignore[call-overload]  # torch's own stubs leave it out

    def forward(self, image: Tensor) -> list[Tensor]:
        skips: list[Tensor] = []
        x = image.contiguous(memory_format=self._layout)
        for block in self.encoder:
            x = self._forgetting(block, x)
            skips.append(x)
        skips.pop()

        logits: list[Tensor] = []
        first_supervised = len(self.decoder) - (len(self.heads) if self.training else 1)
        for level, (up, block) in enumerate(zip(self.up, self.decoder, strict=True)):
            x = self._forgetting(_upwards, up, block, x, skips.pop())
            if level >= first_supervised:
                logits.append(self.heads[level - len(self.decoder)](x))
        return logits[::-1]

    def _forgetting(self, work: Callable[..., Tensor], *given: Any) -> Tensor:
        """With gradient checkpointing only what goes into a level is kept, and the level computed again in backward."""
        if not (self._gradient_checkpointing and self.training and torch.is_grad_enabled()):
            return work(*given)
        # Nothing here is drawn at random, so that there is no random state to set back.
        result: Tensor = checkpoint(work, *given, use_reentrant=False, preserve_rng_state=False)
        return result


def _upwards(up: nn.Module, block: nn.Module, deep: Tensor, skip: Tensor) -> Tensor:
    # An odd edge was rounded up on the way down: cut what the way up has too much.
    depth, height, width = skip.shape[2:]
    result: Tensor = block(torch.cat([up(deep)[..., :depth, :height, :width], skip], dim=1))
    return result


class ResidualBlock(nn.Module):
    def __init__(self, wide_in: int, wide_out: int, *, stride: int = 1) -> None:
        super().__init__()
        # No bias where a norm follows: it would be subtracted again.
        self.first = nn.Conv3d(wide_in, wide_out, 3, stride=stride, padding=1, bias=False)
        self.first_norm = nn.InstanceNorm3d(wide_out, affine=True)
        self.second = nn.Conv3d(wide_out, wide_out, 3, padding=1, bias=False)
        self.second_norm = nn.InstanceNorm3d(wide_out, affine=True)
        same_shape = stride == 1 and wide_in == wide_out
        self.shortcut = nn.Identity() if same_shape else nn.Conv3d(wide_in, wide_out, 1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.leaky_relu(self.first_norm(self.first(x)), 0.01, inplace=True)
        y = self.second_norm(self.second(y))
        return functional.leaky_relu(y + self.shortcut(x), 0.01, inplace=True)
