"""Mixed precision as far as a machine without a GPU can tell, and what only changes how the network computes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from vtune.pipelines.unet3d import train
from vtune.pipelines.unet3d.averaging import Averaged
from vtune.pipelines.unet3d.model import UNet3D
from vtune.pipelines.unet3d.precision import autocast, gradient_scaler, why_not
from vtune.pipelines.unet3d.segmenter import segmenter
from vtune.pipelines.unet3d.settings import ModelSettings


def losses(write_config, tmp_path: Path, changes: dict[str, Any]) -> list[float]:
    assert train.main(["--config", str(write_config(changes))]) == 0
    lines = (tmp_path / "run" / "logs" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["loss"] for line in lines]


def test_bfloat16_loses_a_little_otherwise_than_float32(write_config, tmp_path: Path) -> None:
    exact = losses(write_config, tmp_path, {})
    rounded = losses(write_config, tmp_path, {"training.precision": "bf16"})
    assert rounded != exact
    assert rounded == pytest.approx(exact, rel=0.05)


def test_weights_and_losses_stay_in_float32(write_config, tmp_path: Path) -> None:
    losses(write_config, tmp_path, {"training.precision": "bf16"})
    content = torch.load(tmp_path / "run" / "checkpoints" / "last.pt", weights_only=True)
    assert {weight.dtype for weight in content["model"].values()} == {torch.float32}


def test_only_float16_needs_a_gpu() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert why_not("fp16", cpu) is not None
    assert why_not("fp32", cpu) is why_not("bf16", cpu) is why_not("fp16", gpu) is None


def test_forward_is_in_the_asked_precision_only() -> None:
    x = torch.ones(2, 2)
    for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        with autocast(precision, torch.device("cpu")):
            assert (x @ x).dtype == dtype


def test_a_scaler_that_is_not_needed_passes_everything_through() -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = gradient_scaler("bf16", torch.device("cpu"))
    loss = (weight * 2).sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert weight.item() == -1
    assert scaler.get_scale() == 1
    assert not scaler.is_enabled()


@pytest.mark.parametrize(
    "option", ["gradient_checkpointing", "channels_last", pytest.param("compile", marks=pytest.mark.slow)]
)
def test_how_the_network_computes_changes_no_loss_but_for_rounding(write_config, tmp_path: Path, option: str) -> None:
    if option == "compile" and shutil.which("c++") is None and shutil.which("g++") is None:
        pytest.skip("no C++ compiler for torch.compile")
    plain = losses(write_config, tmp_path, {})
    assert losses(write_config, tmp_path, {f"model.{option}": True}) == pytest.approx(plain, rel=2e-3)
    content = torch.load(tmp_path / "run" / "checkpoints" / "last.pt", weights_only=True)
    # A checkpoint for either way.
    assert losses(write_config, tmp_path, {}) == plain
    assert (
        content["model"].keys()
        == torch.load(tmp_path / "run" / "checkpoints" / "last.pt", weights_only=True)["model"].keys()
    )


def test_gradient_checkpointing_keeps_less_and_gives_the_same_gradients() -> None:
    settings = {"filters": 4, "max_filters": 8, "depth": 3}
    plain, frugal = (UNet3D(ModelSettings(**settings, gradient_checkpointing=on)) for on in (False, True))
    frugal.load_state_dict(plain.state_dict())
    image = torch.randn(1, 1, 16, 18, 21, generator=torch.Generator().manual_seed(0))
    kept: list[int] = []
    for model in (plain, frugal):
        sizes: dict[int, int] = {}

        def pack(tensor: torch.Tensor, sizes: dict[int, int] = sizes) -> torch.Tensor:
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            total = sum(output.square().mean() for output in model(image))
        # What backward computes again is packed too, and gone at once.
        kept.append(sum(sizes.values()))
        total.backward()
    assert kept[1] < 0.6 * kept[0]
    for one, other in zip(plain.parameters(), frugal.parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad, rtol=1e-4, atol=1e-7)


def test_an_average_follows_the_weights_quickly_at_first() -> None:
    model = UNet3D(ModelSettings(filters=2, max_filters=4, depth=2))
    averaged = Averaged(model, 0.999)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 1
    moved = []
    for step in (0, 1, 10_000):
        before = averaged.model.heads[0].weight.clone()
        target = model.heads[0].weight
        averaged.update(step)
        moved.append(((averaged.model.heads[0].weight - before) / (target - before)).mean().item())
    assert moved == pytest.approx([0.9, 9 / 11, 0.001], rel=1e-2)
    assert not any(weight.requires_grad for weight in averaged.model.parameters())


def test_windows_are_standardized_as_patches_are() -> None:
    """Brighter, or with more contrast, a scan is the same to the network."""
    model = UNet3D(ModelSettings(filters=2, max_filters=4, depth=2))
    segment = segmenter(model, intensity_range=None, precision="fp32", device=torch.device("cpu"))
    import numpy as np

    window = np.random.default_rng(0).integers(0, 60, (2, 8, 8, 8), dtype=np.uint8)
    first, brighter = segment(window), segment(window * 2 + 50)
    assert first.shape == (2, 8, 8, 8)
    assert torch.allclose(first, brighter, atol=1e-4)
    assert ((first > 0) & (first < 1)).all()
