"""The self-test's own training: does it do what it says, wherever it runs? On the CPU here."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support.cli import quiet_env
from vtune.selftest.bench import SCRIPTS
from vtune.selftest.readings import Records

pytestmark = pytest.mark.slow


def run(folder: Path, *arguments: str, command: tuple[str, ...] = ()) -> Records:
    (folder / "a").mkdir()
    script = [*command, str(SCRIPTS / "training.py"), *arguments, "--truth", str(folder / "a" / "truth.jsonl")]
    # torchrun leaves a folder of its own there, and pytest's is too long for its sockets.
    with tempfile.TemporaryDirectory(prefix="t-") as short:
        env = quiet_env(TMPDIR=short)
        subprocess.run([sys.executable, *script], env=env, check=True, timeout=100, capture_output=True)
    return Records(folder)


def test_it_takes_the_time_that_it_is_told_and_counts_it(tmp_path: Path) -> None:
    truth = run(tmp_path, "--device=auto", "--steps=20", "--load-ms=10", "--compute-ms=20", "--host-ms=5").truth("a")
    steps = [float(row["stepped"]) for row in truth.steps]
    assert len(steps) == 20 and truth.end["kind"] == "end"
    # Sleeps last longer than asked, never shorter.
    assert (steps[-1] - steps[0]) / 19 > 0.035
    assert all(row["got"] - row["asked"] > 0.0099 for row in truth.steps)


def test_infinite_losses_are_left_out_by_its_scaler(tmp_path: Path) -> None:
    truth = run(tmp_path, "--steps=12", "--overflows=5", "--autocast=bfloat16").truth("a")
    assert truth.overflows == 5 and len(truth.steps) == 7
    assert truth.about["autocast"] == "bfloat16"


def test_two_ranks_keep_a_count_each(tmp_path: Path) -> None:
    ranks = ("-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone")
    records = run(tmp_path, "--steps=8", "--compute-ms=5", "--slow-rank=1", command=ranks)
    assert [len(records.truth("a", rank=rank).steps) for rank in (0, 1)] == [8, 8]
    assert records.truth("a", rank=1).about["kernel_s"] == pytest.approx(0.010)


def test_the_script_for_device_memory_says_that_there_is_no_device(tmp_path: Path) -> None:
    script = [sys.executable, str(SCRIPTS / "device_memory.py")]
    done = subprocess.run(script, input="\n\n\n", capture_output=True, text=True, env=quiet_env(), timeout=60)
    if done.returncode == 0:  # on a machine with a GPU
        assert [json.loads(line)["stage"] for line in done.stdout.splitlines()] == ["open", "held", "freed"]
    else:
        assert done.stderr.strip() == "no device"
