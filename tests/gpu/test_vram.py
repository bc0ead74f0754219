"""For a machine with a GPU: limits that its own allocator holds, and what validation takes, against torch's own words.

Not yet run on a GPU by those who wrote it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vtune.journal.paths import TrialPaths
from vtune.journal.step_log import StepLog

INJECT = Path(__file__).resolve().parents[2] / "vtune" / "worker" / "inject"
MIB = 2**20
TRAINING = """
import json, sys, torch
from torch.utils.data import DataLoader, TensorDataset
what = sys.argv[1]
if what == "own fraction":
    torch.cuda.set_per_process_memory_fraction(0.01)
before_cuda = torch.cuda.is_initialized()
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
data = TensorDataset(torch.ones(40, 64))
validation = DataLoader(data, batch_size=8)
def holds(mib):
    return torch.empty(mib * 2**20, dtype=torch.uint8, device="cuda")
spike = 0
for number, (x,) in enumerate(DataLoader(data, batch_size=4)):
    model(x.cuda()).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if number == 4 and what == "over the limit":
        holds(600)
    if number == 6:
        torch.cuda.reset_peak_memory_stats()
        with torch.no_grad():
            for (y,) in validation:
                big = holds(200)
                model(y.cuda())
                del big
        spike = torch.cuda.max_memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.empty_cache()
ask = getattr(torch.cuda, "get_per_process_memory_fraction", lambda: None)
print(json.dumps({"spike": spike, "before": before_cuda, "asked": ask(), "device": torch.cuda.current_device()}))
"""


def train(folder: Path, what: str, *effects: dict[str, Any], **env: str) -> tuple[int, str, str, StepLog]:
    (folder / "spec.json").write_text(json.dumps({"effects": effects}))
    done = subprocess.run(
        [sys.executable, "-c", TRAINING, what],
        env={**os.environ, "PYTHONPATH": str(INJECT), "VTUNE_TRIAL": str(folder), **env},
        capture_output=True,
        text=True,
        timeout=110,
    )
    log = StepLog(TrialPaths(folder))
    log.refresh()
    assert log.facts_named("problem") == []
    return done.returncode, done.stdout, done.stderr, log


@pytest.mark.parametrize("conf", ["", "expandable_segments:True"])
def test_over_the_limit_torch_itself_raises_whatever_its_segments_are(tmp_path: Path, conf: str) -> None:
    limit = {"kind": "LimitVram", "bytes": 400 * MIB, "fraction": None}
    code, _, stderr, log = train(tmp_path, "over the limit", limit, PYTORCH_CUDA_ALLOC_CONF=conf)
    assert code == 1 and "OutOfMemoryError" in stderr and "_vtune" not in stderr
    (told,) = log.facts_named("vram_limit")
    assert told.data["bytes"] == pytest.approx(400 * MIB, rel=0.02)
    last = log.facts_named("memory")[-1].data
    assert last["ooms"] == 1 and last["reserved_peak"] <= 400 * MIB


def test_below_the_limit_nothing_changes_and_the_script_is_told_of_none(tmp_path: Path) -> None:
    limit = {"kind": "LimitVram", "bytes": None, "fraction": 0.5}
    code, stdout, stderr, log = train(tmp_path, "plain", limit)
    assert code == 0, stderr
    said = json.loads(stdout)
    assert said["asked"] in (None, 1.0) and said["device"] == 0 and not said["before"]
    assert log.facts_named("vram_limit")[0].data["by"] == "limit"


def test_the_scripts_own_smaller_fraction_stays(tmp_path: Path) -> None:
    code, stdout, stderr, log = train(tmp_path, "own fraction", {"kind": "LimitVram", "bytes": None, "fraction": 0.9})
    assert json.loads(stdout)["asked"] in (None, 0.01) if code == 0 else "OutOfMemoryError" in stderr
    assert log.facts_named("vram_limit")[0].data["by"] == "script"


def test_what_validation_takes_is_what_torch_says_whatever_the_script_resets(tmp_path: Path) -> None:
    code, stdout, stderr, log = train(tmp_path, "plain")
    assert code == 0, stderr
    spike = json.loads(stdout)["spike"]
    assert spike > 200 * MIB
    assert max(fact.data["allocated_peak"] for fact in log.facts_named("validation")) == spike
