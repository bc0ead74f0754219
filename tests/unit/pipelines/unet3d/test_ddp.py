"""Two processes on the CPU under torchrun: together they are one training with twice the batch."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from vtune.pipelines.unet3d import train

pytestmark = pytest.mark.slow

RANKS = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
CHANGES: dict[str, Any] = {
    "training.train_batch_size": 1,
    "training.accumulate_steps": 2,
    "training.max_epochs": 2,
    "training.checkpoint_every_n_steps": 3,
    "training.gradient_clip": 1.0,
    "training.ema_decay": 0.9,
    "data.validation_records": 2,
}


@pytest.fixture
def environment(root: Path) -> Iterator[dict[str, str]]:
    # torchrun leaves a folder of its own there, and pytest's is too long for its sockets.
    with tempfile.TemporaryDirectory(prefix="t-") as short:
        yield {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", "TMPDIR": short}


def run(environment: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *RANKS, *command], env=environment, capture_output=True, text=True, timeout=100
    )


def metrics_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "logs" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def test_two_ranks_see_each_sample_once_and_lose_as_one_process_with_twice_the_batch(
    write_config, tmp_path: Path, environment: dict[str, str]
) -> None:
    script = tmp_path / "counted.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, sys
            from vtune.pipelines.unet3d import train
            from vtune.pipelines.unet3d.data.patches import ScrollPatches

            read = ScrollPatches.__getitem__

            def counting(self, number):
                with open(os.environ["SEEN"], "a") as file:
                    file.write(f"{os.environ['RANK']} {number}\\n")
                return read(self, number)

            ScrollPatches.__getitem__ = counting
            sys.exit(train.main())
            """
        ),
        encoding="utf-8",
    )
    seen = tmp_path / "seen"
    ended = run({**environment, "SEEN": str(seen)}, str(script), "--config", str(write_config(CHANGES)))
    assert ended.returncode == 0, ended.stderr
    # 2 epochs × 4 steps × 2 micro-batches × 2 ranks, one sample each: in turns, and each once.
    by_rank = [
        [int(number) for rank, number in map(str.split, seen.read_text().splitlines()) if rank == str(one)]
        for one in (0, 1)
    ]
    assert by_rank == [list(range(0, 32, 2)), list(range(1, 32, 2))]

    alone = write_config({**CHANGES, "training.train_batch_size": 2, "output_dir": str(tmp_path / "alone")})
    assert train.main(["--config", str(alone)]) == 0
    together, single = metrics_of(tmp_path / "run"), metrics_of(tmp_path / "alone")
    assert len(together) == len(single) == 8 + 2
    for here, there in zip(together, single, strict=True):
        assert here.keys() == there.keys()
        for key in here.keys() - {"validation", "records"}:
            # Sums in another order: AdamW makes a step of a gradient however small, and so much of its rounding.
            close = 1e-4 if here["step"] == 1 else 0.05 if key == "gradient_norm" else 3e-3
            assert here[key] == pytest.approx(there[key], rel=close), (here["step"], key)
        if "validation" in here:
            assert list(here["records"]) == list(there["records"])
            assert here["validation"]["dice"] == pytest.approx(there["validation"]["dice"], abs=0.02)
    assert "2 ranks" in ended.stdout
    # One of them tells.
    assert ended.stdout.count("Train step 4/4 epoch 1 ") == 1


def test_two_ranks_stop_at_a_sigterm_together_and_go_on_bit_for_bit(
    write_config, tmp_path: Path, environment: dict[str, str]
) -> None:
    changes = {**CHANGES, "data.validation_records": 0, "training.train_iterations_per_epoch": 40}
    whole = write_config({**changes, "output_dir": str(tmp_path / "whole")})
    module = ("-m", "vtune.pipelines.unet3d.train")
    assert run(environment, *module, "--config", str(whole)).returncode == 0
    config = str(write_config(changes))
    process = subprocess.Popen(
        [sys.executable, *RANKS, *module, "--config", config],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        while not (line := process.stdout.readline()).startswith("Train step"):
            assert process.poll() is None, line
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=60)
        assert process.returncode != 0
        assert "Stopped by SIGTERM after step " in stdout, stderr
        _, alive = psutil.wait_procs(children, timeout=5)
        assert not alive
    finally:
        process.kill()
        process.wait()
    assert len(metrics_of(tmp_path / "run")) < len(metrics_of(tmp_path / "whole"))
    resumed = run(environment, *module, "--config", config, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert metrics_of(tmp_path / "run") == metrics_of(tmp_path / "whole")


@pytest.mark.parametrize("bad_rank", [0, 1])
def test_a_nan_of_one_rank_stops_both_and_names_its_sample(
    write_config, tmp_path: Path, environment: dict[str, str], bad_rank: int
) -> None:
    images, labels = tmp_path / "images", tmp_path / "labels"
    images.mkdir()
    labels.mkdir()
    rng = np.random.default_rng(0)
    for name in "abcd":
        image = rng.random((24, 24, 24), dtype=np.float32)
        np.save(images / f"{name}.npy", image)
        np.save(labels / f"{name}.npy", (image > 0.9).astype(np.uint8))
    script = tmp_path / "poisoned.py"
    # The third batch of one rank holds no numbers.
    script.write_text(
        textwrap.dedent(
            f"""
            import os, sys
            from vtune.pipelines.unet3d import train
            from vtune.pipelines.unet3d.data.patches import ScrollPatches

            read = ScrollPatches.__getitem__

            def poisoned(self, number):
                patch = read(self, number)
                if number == {4 + bad_rank}:
                    patch.image.fill_(float("nan"))
                return patch

            ScrollPatches.__getitem__ = poisoned
            sys.exit(train.main())
            """
        ),
        encoding="utf-8",
    )
    changes = {
        "training.train_batch_size": 1,
        "data.images": str(images),
        "data.labels": str(labels),
        "data.intensity_range": [0.0, 1.0],
    }
    began = time.monotonic()
    ended = run(environment, str(script), "--config", str(write_config(changes)))
    assert ended.returncode == 1
    errors = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert re.fullmatch(
        rf"error: loss is nan in step 3 of epoch 1, batch of sample {4 + bad_rank} "
        r"\(record [abcd] at z \d+, y \d+, x \d+\)",
        errors[0],
    )
    assert "Traceback" not in ended.stderr.split("ChildFailedError")[0].split("torch/distributed")[0]
    # Nobody waited for anybody.
    assert time.monotonic() - began < 60
    assert len(metrics_of(tmp_path / "run")) == 2


def test_bad_data_in_one_ranks_worker_ends_both_ranks_and_all_workers(
    write_config, tmp_path: Path, environment: dict[str, str]
) -> None:
    image = np.random.default_rng(0).integers(0, 255, (24, 24, 24), dtype=np.uint8)
    for kind in ("images", "labels"):
        (tmp_path / kind).mkdir()
        for name in "abcdef":
            np.save(tmp_path / kind / f"{name}.npy", image if kind == "images" else image // 250)
    np.save(tmp_path / "labels" / "c.npy", np.full_like(image, 9))
    script = tmp_path / "blind.py"
    script.write_text(
        "import sys\nfrom vtune.pipelines.unet3d import train\nfrom vtune.pipelines.unet3d.data import records\n"
        "records.LOOK_SECONDS = 0.0\nsys.exit(train.main())\n"
    )
    changes = {
        "data.images": str(tmp_path / "images"),
        "data.labels": str(tmp_path / "labels"),
        "training.workers": 2,
        "training.train_iterations_per_epoch": 20,
    }
    before = {process.pid for process in psutil.process_iter()}
    began = time.monotonic()
    ended = run(environment, str(script), "--config", str(write_config(changes)))
    assert ended.returncode == 1
    assert f"error: {tmp_path / 'labels' / 'c.npy'}: holds label 9 at z " in ended.stderr
    assert time.monotonic() - began < 60
    left = [process for process in psutil.process_iter(["cmdline"]) if process.pid not in before]
    assert not [process for process in left if str(script) in (process.info["cmdline"] or [])]


def test_a_problem_that_one_rank_finds_is_told_once(write_config, tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "file").write_text("")
    config = write_config({"output_dir": str(tmp_path / "file")})
    ended = run(environment, "-m", "vtune.pipelines.unet3d.train", "--config", str(config))
    assert ended.returncode == 1
    errors = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert errors == [f"error: cannot write checkpoints to {tmp_path / 'file' / 'checkpoints'}: Not a directory"]


def test_a_checkpoint_of_two_ranks_serves_one_process(
    write_config, tmp_path: Path, environment: dict[str, str]
) -> None:
    config = write_config({**CHANGES, "training.max_epochs": 1})
    assert run(environment, "-m", "vtune.pipelines.unet3d.train", "--config", str(config)).returncode == 0
    config = write_config({**CHANGES, "training.max_epochs": 2, "training.train_batch_size": 2})
    assert train.main(["--config", str(config), "--resume"]) == 0
    content = torch.load(tmp_path / "run" / "checkpoints" / "last.pt", weights_only=True)
    assert (content["epoch"], content["steps_done"]) == (2, 8)
