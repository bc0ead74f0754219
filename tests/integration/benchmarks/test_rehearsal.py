"""The rehearsal: the notes' story in small, through the real program and NVIDIA's real client, on an emulated GPU."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from emulated.fake_nvml import LIBRARY, FakeDriver
from support.cli import ROOT, quiet_env
from support.drivers import built_driver

EMULATED = ROOT / "benchmarks" / "emulated"
CONFIG = ROOT / "configs" / "exp001_rehearsal.yaml"
NOW = """
import json
from vtune.telemetry.nvml import devices
(one,) = devices().devices
print(json.dumps([one.gpu.name, one.used_bytes, one.util_percent, [p.pid for p in one.processes]]))
"""


def start(*arguments: str | Path, scratch: Path, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(EMULATED / "vtune_emulated.py"), *map(str, arguments)],
        env=quiet_env(XDG_CACHE_HOME=str(scratch / "cache"), TMPDIR=str(scratch), **env),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def probe(scratch: Path, *more: str) -> tuple[int, dict[str, Any], str]:
    began = start("probe", "--config", CONFIG, "--results", scratch / "results", "--json", *more, scratch=scratch)
    stdout, stderr = began.communicate(timeout=110)
    return began.returncode, json.loads(stdout), stderr


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc) to build the emulated device's driver with")
    return tmp_path


def left_over(scratch: Path) -> list[str]:
    return [path.name for path in scratch.glob("vtune-emulated-*")]


@pytest.mark.slow
@pytest.mark.timing
def test_the_users_settings_show_what_the_notes_saw_a_hundred_times_smaller(scratch: Path) -> None:
    code, told, stderr = probe(scratch)
    assert code == 0, stderr
    trial = told["trial"]
    (gpu,) = trial["gpus"]
    # 18 s a step, of which the GPU works one or two.
    assert trial["step_time_s"]["mean"] == pytest.approx(0.165, rel=0.1)
    assert trial["data_wait_fraction"] > 0.85
    assert trial["bottleneck"] == "data"
    assert 9 <= told["headroom"] <= 18
    assert gpu["name"] == "Emulated A100" and gpu["util_mean"] < 15
    assert trial["device_gap_s"] > 0.8 * trial["step_time_s"]["mean"]
    assert gpu["vram_peak_bytes"] == pytest.approx(470e6, rel=0.02) and "driver" in gpu["vram_from"]
    assert gpu["power_w_mean"] is None
    assert "the number of cores is the experiment's: 12 cores declared" in " ".join(trial["notes"])
    assert trial["samples_per_epoch"] == 4000 and trial["projected"]["run_s"] > 32 * 600
    # Its own log says what it is, and nothing but the compiled library is left.
    assert "Emulated A100" in (scratch / "results" / "exp001_rehearsal" / "trials" / "0001" / "stdout.log").read_text()
    assert left_over(scratch) == []


@pytest.mark.slow
def test_a_batch_of_two_fits_and_the_batch_of_four_that_the_notes_hoped_for_does_not(scratch: Path) -> None:
    code, told, stderr = probe(scratch, "--set", "workers=4", "--set", "batch_size=2", "--steps", "20")
    assert code == 0, stderr
    assert told["trial"]["vram_peak_bytes"] < 0.95 * 800e6
    code, told, stderr = probe(scratch, "--set", "workers=4", "--set", "batch_size=4", "--steps", "20")
    assert code == 4 and told["trial"]["status"] == "out_of_vram", stderr


@pytest.mark.slow
def test_stopped_from_outside_it_takes_vtune_with_it_and_leaves_nothing(scratch: Path) -> None:
    began = start("probe", "--config", CONFIG, "--results", scratch / "results", "--json", scratch=scratch)
    journal = scratch / "results" / "exp001_rehearsal"
    give_up = time.monotonic() + 60
    while not list(journal.glob("trials/0001/stdout.log")) and time.monotonic() < give_up:
        time.sleep(0.1)
    time.sleep(2.0)
    began.send_signal(signal.SIGTERM)
    began.communicate(timeout=60)
    assert began.returncode != 0
    assert left_over(scratch) == []
    assert str(journal) not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout


def test_where_a_real_driver_is_it_refuses_and_starts_nothing(scratch: Path) -> None:
    (scratch / "real").mkdir()
    (scratch / "real.c").write_text("int nvmlInit_v2(void) { return 0; }\n")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", scratch / "real" / LIBRARY, scratch / "real.c"], check=True, timeout=60
    )
    refused = start("doctor", scratch=scratch, LD_LIBRARY_PATH=str(scratch / "real"))
    stdout, stderr = refused.communicate(timeout=60)
    assert refused.returncode == 3 and stdout == ""
    assert "a real GPU driver is here" in stderr and "hint: " in stderr
    assert not (scratch / "cache").exists()


def test_the_driver_frees_what_a_process_that_died_had_taken(scratch: Path, tmp_path: Path) -> None:
    driver = FakeDriver(built_driver(scratch), tmp_path / "state")
    holder = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    held = f"{holder.pid}:500000000:40"
    driver.set(gpu0__util=40, gpu0__used=500_000_000, gpu0__procs=held, gpu0__while_alive=holder.pid)

    def now() -> list[Any]:
        asked = subprocess.run(
            [sys.executable, "-c", NOW], env={**os.environ, **driver.env}, capture_output=True, text=True, check=True
        )
        found: list[Any] = json.loads(asked.stdout)
        return found

    try:
        assert now() == ["Fake GPU", 500_000_000, 40, [holder.pid]]
    finally:
        holder.kill()
        holder.communicate()
    assert now() == ["Fake GPU", 0, 0, []]


@pytest.mark.slow
@pytest.mark.timing
def test_one_setting_by_brute_force_is_what_arithmetic_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EMULATED))
    import brute_force

    config = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    cell = brute_force.Cell(workers=2, batch=2, prefetch=1, persistent=False)
    row = brute_force.measure(cell, config, 3.0)
    assert row["arithmetic_samples_per_s"] == pytest.approx(2 * 2 / 0.22)
    assert row["samples_per_s"] == pytest.approx(row["arithmetic_samples_per_s"], rel=0.15)
    assert row["samples_per_s_whole_run"] < row["samples_per_s"] * 1.01
    assert row["vram_peak_bytes"] == pytest.approx(740e6, rel=0.02)
