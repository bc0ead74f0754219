"""An exponential moving average of the weights: often a better model than the last step's, at the price of a copy."""

import copy

import torch

from vtune.pipelines.unet3d.model import UNet3D


class Averaged:
    """The average is a model of its own, in evaluation; the network has no buffers that it would miss."""

    def __init__(self, model: UNet3D, decay: float) -> None:
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self._decay = decay
        self._averages: list[torch.Tensor] = list(self.model.parameters())
        self._weights = [weight.detach() for weight in model.parameters()]

    def update(self, steps_done: int) -> None:
        # At full decay the random weights of the beginning would stay in it for 1 / (1 - decay) steps.
        decay = min(self._decay, (1 + steps_done) / (10 + steps_done))
        with torch.no_grad():
            torch._foreach_lerp_(self._averages, self._weights, 1 - decay)
