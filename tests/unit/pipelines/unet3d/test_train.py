"""The training as its user starts it: a process with a config file, output on stdout, an exit code."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest
import torch

from vtune.pipelines.unet3d import train
from vtune.pipelines.unet3d.settings import TrainingSettings, load_settings

STEP_LINE = re.compile(
    r"^Train step (\d+)/(\d+) epoch (\d+) loss (\S+) \(bce \S+ dice \S+ surface \S+\) (\d+\.\d+) s/step$"
)


def start(root: Path, config: Path) -> subprocess.Popen[str]:
    # In a session of its own, so that a signal to the group, as a terminal's Ctrl-C is, does not reach pytest.
    return subprocess.Popen(
        [sys.executable, "-m", "vtune.pipelines.unet3d.train", "--config", str(config)],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def gone(processes: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=5)
    return not alive


def step_losses(output: str) -> list[float]:
    return [float(match[4]) for line in output.splitlines() if (match := STEP_LINE.match(line))]


def test_a_tiny_training_learns(write_config, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config(
        {"training.train_iterations_per_epoch": 20, "training.log_every_n_steps": 10, "training.learning_rate": 0.03}
    )
    assert train.main(["--config", str(config)]) == 0
    losses = step_losses(capsys.readouterr().out)
    assert len(losses) == 4
    assert losses[-1] < 0.85 * losses[0]


def test_each_epoch_ends_with_a_checkpoint_and_the_log_is_kept(
    write_config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train.main(["--config", str(write_config())]) == 0
    content = torch.load(tmp_path / "run" / "checkpoints" / "last.pt", weights_only=True)
    assert content["epoch"] == 2
    assert content["settings"]["training"]["train_batch_size"] == 2
    shown = [line for line in capsys.readouterr().out.splitlines() if line]
    kept = (tmp_path / "run" / "logs" / "train.log").read_text(encoding="utf-8").splitlines()
    assert [line.split(" ", 2)[2] for line in kept] == shown
    steps = [(match[1], match[2], match[3]) for line in shown if (match := STEP_LINE.match(line))]
    assert steps == [("2", "4", "1"), ("4", "4", "1"), ("2", "4", "2"), ("4", "4", "2")]


def test_the_number_of_workers_changes_no_loss(write_config, capsys: pytest.CaptureFixture[str]) -> None:
    losses = []
    for workers in (0, 2):
        train.main(["--config", str(write_config({"training.workers": workers}))])
        losses.append(step_losses(capsys.readouterr().out))
    assert len(losses[0]) == 4
    assert losses[0] == losses[1]


def test_accumulated_steps_are_optimizer_steps(write_config, capsys: pytest.CaptureFixture[str]) -> None:
    """Twice half a batch is the same epoch: as many steps, the same samples, the same loss but for rounding."""
    losses = []
    for batch, accumulate in ((2, 1), (1, 2)):
        changes = {"training.train_batch_size": batch, "training.accumulate_steps": accumulate}
        assert train.main(["--config", str(write_config(changes))]) == 0
        losses.append(step_losses(capsys.readouterr().out))
    assert losses[0] == pytest.approx(losses[1], abs=0.003)


def test_the_learning_rate_rises_and_falls_to_nothing() -> None:
    training = TrainingSettings(learning_rate=1.0, warmup_steps=10, train_iterations_per_epoch=50, max_epochs=2)
    rates = [train.learning_rate(step, training) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == rates[10] == 1.0
    assert rates[55] == pytest.approx(0.5)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert 0 < rates[99] < 0.01


def test_a_loss_that_is_no_number_stops_the_training_and_names_the_batch(
    write_config, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config({"training.learning_rate": 1e30, "training.warmup_steps": 0})
    assert train.main(["--config", str(config)]) == 1
    message = capsys.readouterr().err
    assert re.match(
        r"error: loss is (nan|inf) in step \d of epoch 1, batch of sample \d+ \(record \d at z \d+, y \d+, x \d+\), ",
        message,
    )
    assert len(message.splitlines()) == 1


def test_a_config_error_is_exit_code_2_with_file_and_key(write_config, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config({"training.wokers": 2})
    assert train.main(["--config", str(config)]) == 2
    assert capsys.readouterr().err == (
        f'error: {config}: training.wokers: unknown key, did you mean "training.workers"?\n'
    )


def test_an_output_folder_that_cannot_be_written_is_an_error_before_any_step(
    write_config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert train.main(["--config", str(write_config({"output_dir": str(tmp_path / "file")}))]) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith("error: cannot write checkpoints to ")
    assert "Train step" not in shown.out


def test_zero_workers_take_no_loader_options(write_config) -> None:
    settings = load_settings(write_config({"training.workers": 0}))
    loader = train.make_loader(settings, train.EpochWindow(2), torch.device("cpu"))
    assert (loader.num_workers, loader.prefetch_factor, loader.persistent_workers) == (0, None, False)


@pytest.mark.parametrize("worker_start", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_an_exit_raised_inside_of_a_step_unwinds_and_leaves_no_process(
    write_config, tmp_path: Path, root: Path, worker_start: str
) -> None:
    """What ends a trial: SystemExit from a hook of the optimizer, with both workers at work."""
    config = write_config(
        {
            "training.workers": 2,
            "training.worker_start": worker_start,
            "training.train_iterations_per_epoch": 1000,
        }
    )
    script = tmp_path / "ended_from_outside.py"
    script.write_text(
        textwrap.dedent(
            """
            import multiprocessing, sys
            import torch
            from torch.optim.optimizer import register_optimizer_step_post_hook

            steps = 0

            def end_after_three(optimizer, args, kwargs):
                global steps
                steps += 1
                if steps == 3:
                    print("workers", *[child.pid for child in multiprocessing.active_children()], flush=True)
                    raise SystemExit(0)

            if __name__ == "__main__":
                register_optimizer_step_post_hook(end_after_three)
                from vtune.pipelines.unet3d import train
                # Each spawned worker imports the script again, every epoch: it should not cost more than torch does.
                assert "scipy" not in sys.modules
                sys.exit(train.main())
            """
        ),
        encoding="utf-8",
    )
    ended = subprocess.run(
        [sys.executable, str(script), "--config", str(config)],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    workers = [int(pid) for pid in re.findall(r"^workers (.*)$", ended.stdout, re.MULTILINE)[0].split()]
    assert len(workers) == 2
    assert not any(psutil.pid_exists(pid) for pid in workers)
    assert not list((tmp_path / "run" / "checkpoints").iterdir())


@pytest.mark.parametrize(
    ("signal_number", "to_group", "exit_code", "words"),
    [
        (signal.SIGINT, True, 130, "stopped by Ctrl-C\n"),
        pytest.param(signal.SIGTERM, False, 143, "", marks=pytest.mark.slow),
    ],
)
def test_a_stopped_training_leaves_no_worker(
    write_config, root: Path, signal_number: signal.Signals, to_group: bool, exit_code: int, words: str
) -> None:
    config = write_config({"training.workers": 2, "training.train_iterations_per_epoch": 100_000})
    process = start(root, config)
    try:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("Train step"):
            assert process.poll() is None
        workers = psutil.Process(process.pid).children(recursive=True)
        assert len(workers) == 2
        began = time.monotonic()
        if to_group:
            os.killpg(process.pid, signal_number)
        else:
            process.send_signal(signal_number)
        _, stderr = process.communicate(timeout=20)
        # A worker cut off while it handed over a batch may add a line of its own.
        assert process.returncode == exit_code
        assert words in stderr
        assert gone(workers)
        assert time.monotonic() - began < 8
    finally:
        process.kill()
        process.wait()
