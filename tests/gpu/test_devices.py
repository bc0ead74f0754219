"""For a machine with a GPU: what the hooks say of a device against what torch itself measures, waiting for it.

Not yet run on a GPU by those who wrote it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from vtune.journal.paths import TrialPaths
from vtune.journal.step_log import StepLog

INJECT = Path(__file__).resolve().parents[2] / "vtune" / "worker" / "inject"
# `torch.cuda._sleep` counts cycles of a clock that changes: the kernel is measured in the same process, waiting for it.
TRAINING = """
import json, sys, time, torch
from torch.utils.data import DataLoader, Dataset

class Waits(Dataset):
    def __len__(self): return 40
    def __getitem__(self, index):
        time.sleep(WAIT_S)
        return torch.ones(64)

CYCLES, WAIT_S = int(sys.argv[1]), float(sys.argv[2])
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
kernel_ms = []
for number, x in enumerate(DataLoader(Waits(), batch_size=8)):
    loss = model(x.cuda(non_blocking=True)).square().mean()
    begin.record()
    torch.cuda._sleep(CYCLES)
    end.record()
    loss.backward()
    big = torch.empty(256 * 2**20 if number == 3 else 2**20, dtype=torch.uint8, device="cuda")
    del big
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()
    kernel_ms.append(begin.elapsed_time(end))
    if number == 3:
        peak = torch.cuda.max_memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.empty_cache()
print(json.dumps({"kernel_s": sorted(kernel_ms)[len(kernel_ms) // 2] / 1e3, "peak": peak,
                  "later_peak": torch.cuda.max_memory_allocated(),
                  "uuid": str(getattr(torch.cuda.get_device_properties(0), "uuid", None))}))
"""


def train(folder: Path, *arguments: object) -> tuple[dict[str, Any], StepLog]:
    (folder / "spec.json").write_text(json.dumps({"effects": []}))
    env = {**os.environ, "PYTHONPATH": str(INJECT), "VTUNE_TRIAL": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", TRAINING, *map(str, arguments)], env=env, capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stderr
    log = StepLog(TrialPaths(folder))
    log.refresh()
    assert log.facts_named("problem") == []
    truth: dict[str, Any] = json.loads(done.stdout)
    return truth, log


def test_the_time_of_a_step_is_that_of_its_kernels(tmp_path: Path) -> None:
    truth, log = train(tmp_path, 40_000_000, 0)
    assert truth["kernel_s"] > 0.01, "the kernel is too short for this test: give it more cycles"
    assert len(log.device_steps) >= 35
    # The model itself is small against it.
    assert median(step.busy_s for step in log.device_steps) == pytest.approx(truth["kernel_s"], rel=0.05, abs=0.001)


def test_waiting_for_data_is_a_gap(tmp_path: Path) -> None:
    _, log = train(tmp_path, 40_000_000, 0.01)
    # Eight samples of 10 ms each, and the device is waited for before them.
    gaps = [step.gap_s for step in log.device_steps if step.gap_s is not None]
    assert median(gaps) == pytest.approx(0.08, rel=0.1)


def test_the_peak_before_a_reset_is_kept_and_the_script_sees_its_own(tmp_path: Path) -> None:
    truth, log = train(tmp_path, 1_000_000, 0)
    last = log.facts_named("memory")[-1].data
    assert last["allocated_peak"] == truth["peak"] > 256 * 2**20 > truth["later_peak"]
    assert last["reserved_peak"] >= last["allocated_peak"]
    peaks = [mark.peak_bytes for mark in log.stages if mark.stage != "begin"]
    assert peaks and all(peak is not None and peak <= truth["peak"] for peak in peaks)


def test_the_device_is_named_by_the_uuid_that_the_driver_has(tmp_path: Path) -> None:
    truth, log = train(tmp_path, 1_000_000, 0)
    (device,) = log.facts_named("device")
    assert str(device.data["uuid"]) == truth["uuid"]
    if os.path.exists("/proc/driver/nvidia"):
        said = subprocess.run(
            ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"], capture_output=True, text=True, check=True
        )
        assert f"GPU-{truth['uuid']}" in said.stdout
