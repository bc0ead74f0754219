from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from emulated.fake_nvml import FakeDriver
from support.drivers import built_driver
from support.trainings import Training


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Training]]:
    begun: list[Training] = []

    def start(*arguments: str, **env: str) -> Training:
        begun.append(Training(tmp_path, *arguments, **env))
        return begun[-1]

    yield start
    for training in begun:
        training.end()


@pytest.fixture
def fake_driver(tmp_path: Path) -> FakeDriver:
    return FakeDriver(built_driver(tmp_path), tmp_path / "nvml-state")
