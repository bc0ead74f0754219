"""A driver whose devices a test describes, for programs started with `fake_driver.env`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from emulated.fake_nvml import FakeDriver
from support.drivers import built_driver


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory) -> Path:
    return built_driver(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def old_nvml_library(tmp_path_factory) -> Path:
    return built_driver(tmp_path_factory.mktemp("old-nvml"), "-DOLD_DRIVER", "-Wno-unused")


@pytest.fixture
def fake_driver(nvml_library: Path, tmp_path: Path) -> FakeDriver:
    return FakeDriver(nvml_library, tmp_path / "nvml-state")


@pytest.fixture
def old_driver(old_nvml_library: Path, tmp_path: Path) -> FakeDriver:
    return FakeDriver(old_nvml_library, tmp_path / "old-nvml-state")


@pytest.fixture
def run_sampler(tmp_path: Path) -> Callable[..., object]:
    from support.sampled import Sampled

    started: list[Sampled] = []

    def run(driver: FakeDriver, **asked: object) -> Sampled:
        started.append(Sampled(driver.env, **asked))
        return started[-1]

    yield run
    for sampled in started:
        sampled.kill()
