from __future__ import annotations

from pathlib import Path

import pytest
import torch

from vtune.pipelines.unet3d.model import UNet3D
from vtune.pipelines.unet3d.settings import ModelSettings, load_settings


def small(*, deep_supervision: bool = True) -> UNet3D:
    return UNet3D(ModelSettings(filters=2, max_filters=6, depth=4, deep_supervision=deep_supervision))


def test_deep_supervision_gives_one_output_a_decoder_level_finest_first() -> None:
    outputs = small()(torch.randn(2, 1, 16, 24, 32))
    assert [tuple(output.shape) for output in outputs] == [(2, 1, 16, 24, 32), (2, 1, 8, 12, 16), (2, 1, 4, 6, 8)]


def test_without_deep_supervision_there_is_one_output() -> None:
    assert len(small(deep_supervision=False)(torch.randn(1, 1, 16, 16, 16))) == 1


def test_in_evaluation_there_is_only_the_finest_output_and_it_is_the_same() -> None:
    model = small()
    image = torch.randn(1, 1, 16, 16, 16)
    finest = model(image)[0]
    outputs = model.eval()(image)
    assert len(outputs) == 1
    assert torch.equal(outputs[0], finest)


def test_edges_that_do_not_halve_evenly_come_back_at_full_size() -> None:
    outputs = small()(torch.randn(1, 1, 13, 17, 22))
    assert outputs[0].shape == (1, 1, 13, 17, 22)


def test_every_weight_gets_a_gradient() -> None:
    model = small()
    sum(output.square().mean() for output in model(torch.randn(2, 1, 16, 16, 16))).backward()
    silent = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert silent == []


@pytest.mark.parametrize("deep_supervision", [True, False])
def test_no_weight_is_left_without_use(deep_supervision: bool) -> None:
    """An unused weight makes distributed training hang."""
    model = small(deep_supervision=deep_supervision)
    outputs = model(torch.randn(1, 1, 16, 16, 16))
    sum(output.sum() for output in outputs).backward()
    assert all(weight.grad is not None for weight in model.parameters())


def test_filters_double_by_level_up_to_the_most() -> None:
    widths = [block.first.out_channels for block in small().encoder]
    assert widths == [2, 4, 6, 6]


def test_the_big_configs_checkpoint_is_about_as_large_as_documented(root: Path) -> None:
    settings = load_settings(root / "configs" / "exp001.yaml")
    with torch.device("meta"):
        weights = sum(weight.numel() for weight in UNet3D(settings.model).parameters())
    # Documented: 386 MB. Weights and two AdamW moments of 4 bytes each.
    assert weights * 12 / 1e6 == pytest.approx(386, rel=0.03)
