"""A training small enough for a unit test: the whole of it takes a second or two."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

TINY: dict[str, Any] = {
    "output_dir": "set by the fixture",
    "data": {
        "records": 4,
        "patches_per_record": 3,
        "volume_size": [48, 48, 48],
        "chunk_size": [24, 24, 24],
        "patch_size": [16, 16, 16],
    },
    "augmentation": {"elastic_voxels": 1, "elastic_spacing": 8},
    "model": {"filters": 4, "max_filters": 8, "depth": 2},
    "training": {
        "workers": 0,
        "worker_start": "fork",
        "train_batch_size": 2,
        "train_iterations_per_epoch": 4,
        "max_epochs": 2,
        "surface_distance_interval": 2,
        "learning_rate": 0.01,
        "warmup_steps": 2,
        "log_every_n_steps": 2,
        "torch_threads": 1,
        # Its import takes seconds where it is installed.
        "tensorboard": False,
    },
}

WriteConfig = Callable[..., Path]


@pytest.fixture
def write_config(tmp_path: Path) -> WriteConfig:
    """Writes the tiny training's config, with changes such as `{"training.workers": 2}`."""

    def write(changes: dict[str, Any] | None = None) -> Path:
        document = copy.deepcopy(TINY)
        document["output_dir"] = str(tmp_path / "run")
        for dotted, value in (changes or {}).items():
            *sections, key = dotted.split(".")
            place = document
            for section in sections:
                place = place.setdefault(section, {})
            place[key] = value
        path = tmp_path / "tiny.yaml"
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        return path

    return write


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """On a loaded machine many threads on few cores take several times as long as one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
