"""A whole `vtune probe` of the training beside this file, under the fake driver whose one device it plays."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from emulated.fake_nvml import FakeDriver
from support.cli import Said, vtune
from support.drivers import built_driver

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
SCRIPT = Path(__file__).parent / "training.py"
MIB = 2**20


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_driver(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def probe(library: Path, tmp_path: Path) -> Callable[..., Said]:
    driver = FakeDriver(library, tmp_path / "nvml-state")
    driver.set(count=1, gpu0__total=4096 * MIB, gpu0__name="Emulated GPU")

    def run(*options: object, training: tuple[object, ...] = (), steps: int = 40, neighbours_bytes: int = 0) -> Said:
        driver.set(gpu0__used=neighbours_bytes)
        command = (sys.executable, SCRIPT, "--steps", 4000, *training)
        arguments = ("probe", "--json", "--steps", str(steps), *map(str, options), "--results", tmp_path / "results")
        return vtune(*arguments, "--", *map(str, command), **driver.env, PYTHONPATH=str(BENCHMARKS))

    return run
