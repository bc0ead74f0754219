"""A whole `vtune probe` of trainings on the emulated accelerator, under the fake driver: where their time goes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emulated.fake_nvml import FakeDriver
from support.cli import vtune
from support.drivers import built_driver

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
SCRIPT = Path(__file__).parent / "scripts" / "on_a_device.py"
TWENTY_MS = ("--forward", 0.006, "--loss", 0.002, "--backward", 0.010, "--optimizer", 0.002)

pytestmark = [pytest.mark.slow, pytest.mark.timing]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_driver(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def probe(library: Path, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    driver = FakeDriver(library, tmp_path / "nvml-state")
    driver.set(count=1, gpu0__total=16 * 2**30, gpu0__name="Emulated GPU")

    def run(*options: object) -> dict[str, Any]:
        command = (sys.executable, SCRIPT, "--steps", 2000, "--synchronize", *TWENTY_MS, *options)
        arguments = ("probe", "--json", "--steps", "50", "--results", tmp_path / "results", "--", *map(str, command))
        said = vtune(*arguments, **driver.env, PYTHONPATH=str(BENCHMARKS))
        assert said.code == 0, said.stderr
        trial: dict[str, Any] = said.json["trial"]
        return trial

    return run


def test_a_device_that_works_is_timed_and_its_idle_time_is_the_hosts(probe: Callable[..., dict[str, Any]]) -> None:
    trial = probe("--logging", 0.005)
    assert trial["device_step_s"] == pytest.approx(0.020, rel=0.03)
    # The logging after the step, and what a step takes on the CPU.
    assert 0.005 < trial["device_gap_s"] < 0.009
    assert trial["data_wait_fraction"] < 0.05
    assert 0.1 < trial["host_fraction"] < 0.35
    assert trial["vram_allocated_peak_bytes"] == 158 * 2**20
    (gpu,) = trial["gpus"]
    assert gpu["util_mean"] == pytest.approx(100 * 0.020 / trial["step_time_s"]["mean"], rel=0.1)


def test_a_slow_loader_is_a_gap_and_not_the_hosts_fault(probe: Callable[..., dict[str, Any]]) -> None:
    trial = probe("--wait", 0.03)
    assert trial["device_gap_s"] == pytest.approx(0.031, rel=0.1)
    assert trial["data_wait_fraction"] > 0.5
    assert trial["host_fraction"] < 0.06
    assert trial["bottleneck"] == "data"


def test_a_loss_on_the_cpu_is_the_hosts_time_and_not_the_datas(probe: Callable[..., dict[str, Any]]) -> None:
    trial = probe("--cpu-loss", 0.08)
    assert trial["host_fraction"] == pytest.approx(0.08 / trial["step_time_s"]["mean"], abs=0.06)
    assert trial["data_wait_fraction"] < 0.05
    assert trial["bottleneck"] == "host"
    assert any("not validated here" in note for note in trial["notes"])
    stages = {one["stage"]: one for one in trial["stages"]}
    assert stages["loss"]["host_s"] > 0.08 > 10 * stages["forward"]["host_s"]
