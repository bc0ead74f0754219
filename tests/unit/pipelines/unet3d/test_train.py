"""The training as its user starts it: a process with a config file, output on stdout, an exit code."""

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
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from vtune.pipelines.unet3d import train
from vtune.pipelines.unet3d.data.patches import EpochWindow
from vtune.pipelines.unet3d.data.records import find_records
from vtune.pipelines.unet3d.schedule import SurfaceSamples, measures_surface
from vtune.pipelines.unet3d.settings import TrainingSettings, load_settings

STEP_LINE = re.compile(
    r"^Train step (\d+)/(\d+) epoch (\d+) loss (\S+) \(bce \S+ dice \S+ surface \S+\) (\d+\.\d+) s/step$"
)


def start(config: Path) -> subprocess.Popen[str]:
    # In a session of its own, so that a signal to the group, as a terminal's Ctrl-C is, does not reach pytest.
    return subprocess.Popen(
        [sys.executable, "-m", "vtune.pipelines.unet3d.train", "--config", str(config)],
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


def metrics_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "logs" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


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


def test_every_step_has_a_line_with_all_digits(
    write_config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train.main(["--config", str(write_config())]) == 0
    lines = metrics_of(tmp_path / "run")
    assert [(line["step"], line["epoch"]) for line in lines] == [
        *((n, 1) for n in range(1, 5)),
        *((n, 2) for n in range(5, 9)),
    ]
    # Every second step has the surface distance, counted anew in each epoch.
    assert ["surface" in line for line in lines] == [True, False] * 4
    assert all({"loss", "bce", "dice", "learning_rate", "gradient_norm"} <= set(line) for line in lines)
    shown = step_losses(capsys.readouterr().out)
    means = [(lines[n]["loss"] + lines[n + 1]["loss"]) / 2 for n in range(0, 8, 2)]
    assert shown == pytest.approx(means, abs=0.0006)
    assert any(round(line["loss"], 6) != line["loss"] for line in lines)


def test_all_losses_together_train_and_are_shown(
    write_config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = {f"loss.{name}_weight": 0.5 for name in ("cldice", "skeleton", "topology")}
    assert train.main(["--config", str(write_config(weights))]) == 0
    pattern = r"loss \S+ \(bce \d\S+ dice \d\S+ surface \d\S+ cldice \d\S+ skeleton \d\S+ topology \d\S+\)"
    assert len(re.findall(pattern, capsys.readouterr().out)) == 4
    line = metrics_of(tmp_path / "run")[0]
    parts = {"bce": 1, "dice": 1, "surface": 1, "cldice": 0.5, "skeleton": 0.5, "topology": 0.5}
    assert line["loss"] == pytest.approx(sum(weight * line[name] for name, weight in parts.items()), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_the_distance_computed_by_a_worker_changes_no_loss(write_config, tmp_path: Path, workers: int) -> None:
    losses = []
    shared = Path(tempfile.gettempdir())
    before = set(shared.iterdir())
    for place in ("loss", "worker"):
        changes = {"loss.surface_place": place, "training.workers": workers, "training.surface_distance_interval": 3}
        assert train.main(["--config", str(write_config(changes))]) == 0
        losses.append(metrics_of(tmp_path / "run"))
    assert losses[0] == losses[1]
    locks = [path.name for path in set(shared.iterdir()) - before if path.name.endswith(".lock")]
    assert not locks, "it is in the run's own folder, and nowhere else"


def test_the_number_of_workers_changes_no_loss(write_config, tmp_path: Path) -> None:
    losses = []
    for workers in (0, 2):
        train.main(["--config", str(write_config({"training.workers": workers}))])
        losses.append(metrics_of(tmp_path / "run"))
    assert len(losses[0]) == 8
    assert losses[0] == losses[1]


def test_accumulated_steps_are_optimizer_steps(write_config, tmp_path: Path) -> None:
    """Twice half a batch is the same epoch: as many steps, the same samples, the same loss but for rounding."""
    losses = []
    for batch, accumulate in ((2, 1), (1, 2)):
        changes = {"training.train_batch_size": batch, "training.accumulate_steps": accumulate}
        assert train.main(["--config", str(write_config(changes))]) == 0
        losses.append([line["loss"] for line in metrics_of(tmp_path / "run")])
    assert losses[0][0] == pytest.approx(losses[1][0], rel=1e-5)
    assert losses[0] == pytest.approx(losses[1], abs=0.003)


def test_the_learning_rate_rises_and_falls_to_nothing() -> None:
    training = TrainingSettings(learning_rate=1.0, warmup_steps=10, train_iterations_per_epoch=50, max_epochs=2)
    rates = [train.learning_rate(step, training) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == rates[10] == 1.0
    assert rates[55] == pytest.approx(0.5)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert 0 < rates[99] < 0.01


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_workers_measure_distances_for_just_the_steps_that_have_them(ranks: int) -> None:
    training = TrainingSettings(
        train_batch_size=2, accumulate_steps=3, train_iterations_per_epoch=5, surface_distance_interval=2
    )
    asked = SurfaceSamples(training, ranks)
    for rank in range(ranks):
        window = EpochWindow(5 * 3 * 2 * ranks, batch=2, rank=rank, ranks=ranks)
        for epoch in (0, 1):
            window.epoch = epoch
            found = [asked(number) for number in window]
            assert found == [measures_surface(step, training) for step in range(5) for _ in range(3 * 2)]


def test_clipping_holds_the_gradients_but_tells_their_norm(write_config, tmp_path: Path) -> None:
    lines = []
    for clip in (None, 1e-4):
        assert train.main(["--config", str(write_config({"training.gradient_clip": clip}))]) == 0
        lines.append(metrics_of(tmp_path / "run"))
    assert lines[0][0]["gradient_norm"] == lines[1][0]["gradient_norm"] > 1e-3
    # AdamW divides by the gradient's own size: its second step shows that the first one's was another.
    assert lines[0][2]["loss"] != lines[1][2]["loss"]


@pytest.mark.slow
def test_validation_tells_each_record_and_keeps_the_best(
    write_config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = {"data.validation_records": 2, "training.max_epochs": 3, "validation.every_n_epochs": 2}
    assert train.main(["--config", str(write_config(changes))]) == 0
    told = [line for line in metrics_of(tmp_path / "run") if "validation" in line]
    # Every second one, and the last.
    assert [(line["step"], line["epoch"]) for line in told] == [(8, 2), (12, 3)]
    split = json.loads((tmp_path / "run" / "split.json").read_text(encoding="utf-8"))
    for line in told:
        assert list(line["records"]) == split["validation"]
        assert set(line["validation"]) == {"dice", "surface_dice", "cldice"}
        for name, mean in line["validation"].items():
            values = [scores[name] for scores in line["records"].values()]
            assert mean == pytest.approx(sum(values) / 2)
            assert all(0 <= value <= 1 for value in values)
    shown = re.findall(
        r"^Validation epoch (\d) dice (\S+) surface_dice \S+ cldice \S+ \(2 records, \S+ s\)(, the best so far)?$",
        capsys.readouterr().out,
        re.MULTILINE,
    )
    assert [(epoch, dice) for epoch, dice, _ in shown] == [
        (str(line["epoch"]), f"{line['validation']['dice']:.3f}") for line in told
    ]
    best = max(told, key=lambda line: (line["validation"]["dice"], -line["epoch"]))
    content = torch.load(tmp_path / "run" / "checkpoints" / "best.pt", weights_only=True)
    assert (content["epoch"], content["best_dice"]) == (best["epoch"], best["validation"]["dice"])


def test_the_newest_epochs_are_kept_as_asked(write_config, tmp_path: Path) -> None:
    changes = {"training.keep_checkpoints": 2, "training.max_epochs": 3, "training.train_iterations_per_epoch": 1}
    assert train.main(["--config", str(write_config(changes))]) == 0
    folder = tmp_path / "run" / "checkpoints"
    assert sorted(path.name for path in folder.iterdir()) == ["epoch_0002.pt", "epoch_0003.pt", "last.pt"]
    assert torch.load(folder / "epoch_0002.pt", weights_only=True)["epoch"] == 2


@pytest.mark.slow
def test_an_average_of_the_weights_is_validated_and_saved(write_config, tmp_path: Path) -> None:
    changes = {"training.ema_decay": 0.9, "data.validation_records": 1, "training.max_epochs": 1}
    dice = []
    for decay in (None, 0.9):
        assert train.main(["--config", str(write_config({**changes, "training.ema_decay": decay}))]) == 0
        dice.append(metrics_of(tmp_path / "run")[-1]["records"])
    content = torch.load(tmp_path / "run" / "checkpoints" / "last.pt", weights_only=True)
    assert content["averaged"].keys() == content["model"].keys()
    assert not torch.equal(content["averaged"]["heads.0.weight"], content["model"]["heads.0.weight"])
    assert dice[0] != dice[1]


@pytest.mark.slow
def test_a_new_training_keeps_an_earlier_ones_metrics_and_checkpoints(
    write_config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever forgets --resume has lost nothing."""
    changes = {"training.keep_checkpoints": 1, "data.validation_records": 1}
    checkpoints = tmp_path / "run" / "checkpoints"
    before: dict[str, bytes] = {}
    for seed in (0, 1):
        before = {path.name: path.read_bytes() for path in checkpoints.glob("*.pt")}
        assert train.main(["--config", str(write_config({**changes, "training.seed": seed}))]) == 0
    logs = tmp_path / "run" / "logs"
    earlier, later = (logs / "metrics.1.jsonl").read_bytes(), (logs / "metrics.jsonl").read_bytes()
    assert len(earlier.splitlines()) == len(later.splitlines()) == 10
    assert earlier != later
    kept = checkpoints / "earlier-1"
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == before
    assert sorted(before) == ["best.pt", "epoch_0002.pt", "last.pt"]
    assert (checkpoints / "last.pt").read_bytes() != before["last.pt"]
    told = f"An earlier run's checkpoints are kept in {kept}: --resume {kept / 'last.pt'} goes on with it\n"
    assert told in capsys.readouterr().out


def test_an_earlier_run_stays_where_it_is_while_the_data_is_wrong(write_config, tmp_path: Path) -> None:
    assert train.main(["--config", str(write_config())]) == 0
    wrong = {"data.images": str(tmp_path / "none"), "data.labels": str(tmp_path / "none")}
    assert train.main(["--config", str(write_config(wrong))]) == 1
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["last.pt"]


def test_the_data_is_told_before_the_first_step(
    write_config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train.main(["--config", str(write_config({"data.validation_records": 1}))]) == 0
    assert "Data: synthetic scrolls, 3 to train on, 1 to validate on\n" in capsys.readouterr().out
    for kind in ("images", "labels"):
        (tmp_path / kind).mkdir()
        for name in "ab":
            np.save(tmp_path / kind / f"{name}.npy", np.eye(24, dtype=np.uint8)[None].repeat(24, 0))
    changes = {"data.images": str(tmp_path / "images"), "data.labels": str(tmp_path / "labels")}
    assert train.main(["--config", str(write_config(changes))]) == 0
    shown = capsys.readouterr().out
    assert f"Data: {tmp_path / 'images'}, 2 to train on, 0 to validate on\n" in shown
    assert "Looked into 2 of 2 volumes before the first step, at 0.0276 million voxels\n" in shown


@pytest.mark.slow
def test_a_reader_that_leaves_is_told_once_and_the_training_goes_on(write_config, tmp_path: Path) -> None:
    """As `| head -1` does."""
    process = start(write_config({"training.log_every_n_steps": 1}))
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    told = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=30), told) == (0, "")
    log = (tmp_path / "run" / "logs" / "train.log").read_text(encoding="utf-8")
    assert log.count("Train step") == 8
    assert log.count("Nobody reads these lines on stdout any more") == 1


def test_ctrl_c_while_it_still_imports_is_one_line(write_config) -> None:
    """PyTorch alone takes seconds."""
    process = start(write_config())
    try:
        while not any("/torch/" in mapped.path for mapped in psutil.Process(process.pid).memory_maps()):
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert (process.returncode, out, err) == (130, "", "stopped by Ctrl-C; nothing was saved yet\n")
    finally:
        process.kill()
        process.wait()


def test_ctrl_c_tells_what_is_saved(write_config, capsys: pytest.CaptureFixture[str]) -> None:
    """Pressed in the sixth step, of four an epoch; then in the first one after the resume."""
    seen = 0

    def press(*_: object) -> None:
        nonlocal seen
        seen += 1
        if seen in (2, 8, 9):
            raise KeyboardInterrupt

    hook = register_optimizer_step_post_hook(press)
    words = "stopped by Ctrl-C; "
    last = "the last checkpoint is that of {}: go on with --resume\n"
    try:
        for more, told in (
            ([], "nothing was saved yet\n"),
            ([], last.format("epoch 1")),
            (["--resume"], last.format("epoch 1")),
        ):
            assert train.main(["--config", str(write_config()), *more]) == 130
            assert capsys.readouterr().err == words + told
    finally:
        hook.remove()


def test_a_config_error_is_exit_code_2_with_file_and_key(write_config, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config({"training.wokers": 2})
    assert train.main(["--config", str(config)]) == 2
    assert capsys.readouterr().err == (
        f'error: {config}: training.wokers: unknown key, did you mean "training.workers"?\n'
    )


def test_zero_workers_take_no_loader_options(write_config) -> None:
    settings = load_settings(write_config({"training.workers": 0}))
    records = find_records(settings.data)
    loader = train.make_loader(settings, EpochWindow(2, batch=2), torch.device("cpu"), records, ranks=1)
    assert (loader.num_workers, loader.prefetch_factor, loader.persistent_workers) == (0, None, False)


@pytest.mark.slow
@pytest.mark.parametrize("worker_start", ["fork", "spawn"])
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
                heavy = {"scipy", "tifffile", "zarr", "edt", "cc3d", "tensorboard", "skimage", "monai"}
                assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signal_number", "to_group", "exit_code", "words"),
    [
        (signal.SIGINT, True, 130, "stopped by Ctrl-C; nothing was saved yet\n"),
        pytest.param(signal.SIGTERM, False, 143, "", marks=pytest.mark.slow),
        # As a scheduler does it: the loader's workers get it as well, perhaps before the training does.
        pytest.param(signal.SIGTERM, True, 143, "", marks=pytest.mark.slow),
    ],
)
def test_a_stopped_training_leaves_no_worker(
    write_config, tmp_path: Path, signal_number: signal.Signals, to_group: bool, exit_code: int, words: str
) -> None:
    config = write_config({"training.workers": 2, "training.train_iterations_per_epoch": 100_000})
    process = start(config)
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
    if signal_number == signal.SIGTERM:
        content = torch.load(tmp_path / "run" / "checkpoints" / "last.pt", weights_only=True)
        assert content["step"] == metrics_of(tmp_path / "run")[-1]["step"]
