"""A training that was killed goes on as if nothing had happened: bit for bit, on the CPU."""

from __future__ import annotations

import copy
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data._utils import signal_handling

from vtune.pipelines.unet3d import train
from vtune.pipelines.unet3d.checkpoints import keep_copy
from vtune.pipelines.unet3d.model import UNet3D
from vtune.pipelines.unet3d.stopping import StopRequest

# Everything that has a state: two epochs of seven steps, saved at every third, an average, a warm-up, validation.
EVERYTHING: dict[str, Any] = {
    "data.validation_records": 1,
    "validation.overlap": 0.0,
    "training.train_iterations_per_epoch": 7,
    "training.accumulate_steps": 2,
    "training.train_batch_size": 1,
    "training.checkpoint_every_n_steps": 3,
    "training.keep_checkpoints": 1,
    "training.ema_decay": 0.9,
    "training.gradient_clip": 1.0,
    "loss.cldice_weight": 0.2,
}
STEPS = 14


class Killed(BaseException):
    """As SIGKILL is to what the training wrote: nothing is saved on the way out."""


def run_in_process(config: Path, *more: str, killed_after: int | None = None) -> None:
    """`killed_after`: in the midst of the step that follows so many whole ones."""
    seen = 0

    def kill(*_: object) -> None:
        nonlocal seen
        seen += 1
        if killed_after is not None and seen > killed_after:
            raise Killed

    hook = register_optimizer_step_post_hook(kill)
    try:
        assert train.main(["--config", str(config), *more]) == 0
    except Killed:
        assert killed_after is not None
    finally:
        hook.remove()


def result(run: Path) -> tuple[bytes, dict[str, Any]]:
    content = torch.load(run / "checkpoints" / "last.pt", weights_only=True)
    return (run / "logs" / "metrics.jsonl").read_bytes(), content


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def step_lines(output: str) -> list[str]:
    """Without what a step took."""
    return [line.rsplit(" ", 2)[0] for line in output.splitlines() if line.startswith("Train step")]


WHOLE: list[tuple[bytes, dict[str, Any]]] = []


@pytest.fixture
def uninterrupted(write_config, tmp_path: Path) -> tuple[bytes, dict[str, Any]]:
    """Once for all tests: it is the same each time, which is the point."""
    if not WHOLE:
        run_in_process(write_config({**EVERYTHING, "output_dir": str(tmp_path / "whole")}))
        WHOLE.append(result(tmp_path / "whole"))
    return copy.deepcopy(WHOLE[0])


def alike(found: dict[str, Any], whole: dict[str, Any]) -> bool:
    """But for the time since the last log line, and the folder."""
    for content in (found, whole):
        content["progress"]["seconds"] = content["settings"]["output_dir"] = None
    return same(found, whole)


# In the first epoch before any checkpoint and after one, at an epoch's last step, in the second epoch.
@pytest.mark.slow
@pytest.mark.parametrize(
    "kills", [(5,), (2, 1, 4), *(pytest.param(kills, marks=pytest.mark.slow) for kills in ((1,), (6,), (7,), (12,)))]
)
def test_a_killed_training_goes_on_bit_for_bit(
    write_config, tmp_path: Path, uninterrupted, kills: tuple[int, ...]
) -> None:
    config = write_config(EVERYTHING)
    for number, kill in enumerate(kills):
        run_in_process(config, *(["--resume"] if number else []), killed_after=kill)
    run_in_process(config, "--resume")
    metrics, content = result(tmp_path / "run")
    assert metrics == uninterrupted[0]
    assert len(metrics.splitlines()) == STEPS + 2
    assert alike(content, uninterrupted[1])
    assert (tmp_path / "run" / "checkpoints" / "epoch_0002.pt").exists()


@pytest.mark.slow
def test_a_kill_in_a_validation_costs_the_validation_only(write_config, tmp_path: Path, uninterrupted) -> None:
    """Ended by the forward of the first window; the epoch's steps are not done again."""
    config = write_config(EVERYTHING)

    def kill(module: Any, given: Any) -> None:
        if not module.training:
            raise Killed

    hook = torch.nn.modules.module.register_module_forward_pre_hook(kill)
    try:
        with pytest.raises(Killed):
            train.main(["--config", str(config)])
    finally:
        hook.remove()
    content = torch.load(tmp_path / "run" / "checkpoints" / "last.pt", weights_only=True)
    assert (content["epoch"], content["step"], content["is_validated"]) == (1, 7, False)
    run_in_process(config, "--resume")
    metrics, content = result(tmp_path / "run")
    assert metrics == uninterrupted[0]
    assert alike(content, uninterrupted[1])


@pytest.mark.slow
def test_the_log_lines_go_on_in_their_rhythm(write_config, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Means over steps of which some were before the checkpoint."""
    changes = {**EVERYTHING, "training.log_every_n_steps": 7}
    run_in_process(write_config({**changes, "output_dir": str(tmp_path / "whole")}))
    whole = step_lines(capsys.readouterr().out)
    run_in_process(write_config(changes), killed_after=4)
    run_in_process(write_config(changes), "--resume")
    assert step_lines(capsys.readouterr().out) == whole
    assert len(whole) == 2


@pytest.mark.slow
def test_a_checkpoint_by_its_name_goes_on_from_there(write_config, tmp_path: Path, uninterrupted) -> None:
    config = write_config({**EVERYTHING, "training.keep_checkpoints": 2})
    run_in_process(config)
    run_in_process(config, "--resume", str(tmp_path / "run" / "checkpoints" / "epoch_0001.pt"))
    assert result(tmp_path / "run")[0] == uninterrupted[0]


@pytest.mark.slow
def test_going_back_to_an_earlier_epoch_loses_nothing(write_config, tmp_path: Path) -> None:
    config = write_config({**EVERYTHING, "training.keep_checkpoints": 2})
    run_in_process(config)
    folder, logs = tmp_path / "run" / "checkpoints", tmp_path / "run" / "logs"
    before = {path.name: path.read_bytes() for path in folder.glob("*.pt")}
    lines = (logs / "metrics.jsonl").read_bytes()
    run_in_process(config, "--resume", str(folder / "epoch_0001.pt"), killed_after=1)
    assert {path.name: path.read_bytes() for path in (folder / "earlier-1").iterdir()} == before
    assert (folder / "epoch_0001.pt").read_bytes() == before["epoch_0001.pt"]
    assert (logs / "metrics.1.jsonl").read_bytes() == lines
    assert len((logs / "metrics.jsonl").read_bytes().splitlines()) < len(lines.splitlines())


def test_to_resume_without_a_checkpoint_is_a_new_training_that_loses_nothing(write_config, tmp_path: Path) -> None:
    config = write_config(EVERYTHING)
    run_in_process(config)
    folder, logs = tmp_path / "run" / "checkpoints", tmp_path / "run" / "logs"
    (folder / "last.pt").unlink()
    best, lines = (folder / "best.pt").read_bytes(), (logs / "metrics.jsonl").read_bytes()
    run_in_process(config, "--resume", killed_after=1)
    assert (folder / "earlier-1" / "best.pt").read_bytes() == best
    assert (logs / "metrics.1.jsonl").read_bytes() == lines


@pytest.mark.slow
def test_another_runs_checkpoint_leaves_this_folders_metrics_alone(write_config, tmp_path: Path) -> None:
    """A checkpoint moved elsewhere: the training goes on, its curves begin where it does."""
    run_in_process(write_config({**EVERYTHING, "output_dir": str(tmp_path / "first"), "training.max_epochs": 1}))
    run_in_process(write_config(EVERYTHING), killed_after=2)
    run_in_process(write_config(EVERYTHING), "--resume", str(tmp_path / "first" / "checkpoints" / "last.pt"))
    logs = tmp_path / "run" / "logs"
    assert len((logs / "metrics.1.jsonl").read_bytes().splitlines()) == 2
    lines = [json.loads(line) for line in (logs / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "loss" in line] == list(range(8, 15))


def test_there_is_nothing_to_resume_at_first_and_at_last(
    write_config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config({"training.max_epochs": 1})
    run_in_process(config, "--resume")
    last = tmp_path / "run" / "checkpoints" / "last.pt"
    assert f"Nothing to resume: there is no {last} yet\n" in capsys.readouterr().out
    before = last.read_bytes()
    run_in_process(config, "--resume")
    shown = capsys.readouterr().out
    assert "Nothing to do: all 1 epochs are done\n" in shown
    assert "Train step" not in shown
    assert last.read_bytes() == before


def test_more_epochs_than_planned_and_other_settings_are_told(
    write_config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_in_process(write_config({"training.max_epochs": 1, "training.weight_decay": 0.0}))
    capsys.readouterr()
    run_in_process(write_config({"training.max_epochs": 2, "training.weight_decay": 0.5}), "--resume")
    shown = capsys.readouterr().out
    assert "Changed since: training.max_epochs was 1, is 2\n" in shown
    assert "Changed since: training.weight_decay was 0.0, is 0.5\n" in shown
    content = torch.load(tmp_path / "run" / "checkpoints" / "last.pt", weights_only=True)
    assert content["optimizer"]["param_groups"][0]["weight_decay"] == 0.5


def test_an_average_may_be_switched_on_later(write_config, tmp_path: Path) -> None:
    run_in_process(write_config({"training.max_epochs": 1}))
    run_in_process(write_config({"training.ema_decay": 0.5}), "--resume")
    content = torch.load(tmp_path / "run" / "checkpoints" / "last.pt", weights_only=True)
    distance = [(content["averaged"][name] - weight).abs().max().item() for name, weight in content["model"].items()]
    assert 0 < max(distance) < 0.2


@pytest.fixture
def volumes(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Adds small volumes of these names, and gives the settings that find them."""
    rng = np.random.default_rng(0)

    def add(names: str) -> dict[str, str]:
        for kind in ("images", "labels"):
            (tmp_path / kind).mkdir(exist_ok=True)
        for name in names:
            image = rng.integers(0, 255, (24, 24, 24), dtype=np.uint8)
            np.save(tmp_path / "images" / f"{name}.npy", image)
            np.save(tmp_path / "labels" / f"{name}.npy", image // 200)
        return {"data.images": str(tmp_path / "images"), "data.labels": str(tmp_path / "labels")}

    return add


@pytest.mark.slow
def test_a_new_file_among_the_data_does_not_move_the_split(write_config, tmp_path: Path, volumes) -> None:
    changes = {**EVERYTHING, **volumes("bcdefg"), "data.validation_records": 2}
    run_in_process(write_config({**changes, "output_dir": str(tmp_path / "whole")}))
    run_in_process(write_config(changes), killed_after=10)
    volumes("a")
    run_in_process(write_config(changes), "--resume")
    assert result(tmp_path / "run")[0] == result(tmp_path / "whole")[0]


@pytest.mark.slow
@pytest.mark.parametrize("is_moved", [False, True])
def test_however_often_it_is_resumed_and_from_where_the_same_records_judge(
    write_config, tmp_path: Path, volumes, is_moved: bool
) -> None:
    """First from another run's checkpoint, perhaps taken out of its folder, then from its own."""
    changes = {**EVERYTHING, **volumes("bcdefgh"), "data.validation_records": 2, "training.max_epochs": 1}
    run_in_process(write_config({**changes, "output_dir": str(tmp_path / "first")}))
    split = json.loads((tmp_path / "first" / "split.json").read_text())
    checkpoint = tmp_path / "first" / "checkpoints" / "last.pt"
    if is_moved:
        checkpoint = checkpoint.rename(tmp_path / "theirs.pt")
    volumes("aij")
    for epochs, resume in ((2, [str(checkpoint)]), (3, [])):
        run_in_process(write_config({**changes, "training.max_epochs": epochs}), "--resume", *resume)
        assert json.loads((tmp_path / "run" / "split.json").read_text()) == split
        judged = json.loads((tmp_path / "run" / "logs" / "metrics.jsonl").read_text().splitlines()[-1])
        assert list(judged["records"]) == split["validation"]


@pytest.mark.slow
def test_a_worker_that_is_killed_after_a_sigterm_costs_no_step(
    write_config, tmp_path: Path, uninterrupted, capsys: pytest.CaptureFixture[str]
) -> None:
    """A scheduler's first signal was to the training; its second one, to all, met the worker in the midst of a step."""
    config = write_config({**EVERYTHING, "training.workers": 1, "training.checkpoint_every_n_steps": None})
    request, seen = StopRequest(), 0

    def end_worker(*_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == 4:
            request.asked = True
            for worker in multiprocessing.active_children():
                worker.kill()
            # PyTorch's handler raises here, in a forward.
            time.sleep(5)

    before_step = torch.nn.modules.module.register_module_forward_pre_hook(
        lambda module, given: end_worker() if isinstance(module, UNet3D) and module.training else None
    )
    try:
        with pytest.raises(SystemExit) as ended:
            train.main(["--config", str(config)], stop=request)
        assert ended.value.code == 143
    finally:
        before_step.remove()
        # The training has taken it away, on its way out of what it thinks is its process.
        signal_handling._SIGCHLD_handler_set = False
    content = torch.load(tmp_path / "run" / "checkpoints" / "last.pt", weights_only=True)
    steps = len(result(tmp_path / "run")[0].splitlines())
    assert content["step"] == steps > 0
    run_in_process(config, "--resume")
    assert result(tmp_path / "run")[0] == uninterrupted[0]


def test_another_number_of_ranks_is_told(write_config, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_in_process(write_config({"training.max_epochs": 1}))
    last = tmp_path / "run" / "checkpoints" / "last.pt"
    content = torch.load(last, weights_only=True)
    torch.save({**content, "random": content["random"] * 3}, last)
    run_in_process(write_config({"training.max_epochs": 2}), "--resume")
    assert "Changed since: ranks were 3, are 1: an epoch has other samples\n" in capsys.readouterr().out


def test_copies_that_a_kill_prevented_are_made_up_for(write_config, tmp_path: Path) -> None:
    """The kill came after last.pt, and before best.pt and the epoch's own file."""
    config = write_config({**EVERYTHING, "training.max_epochs": 1})
    run_in_process(config)
    folder = tmp_path / "run" / "checkpoints"
    for name in ("best.pt", "epoch_0001.pt"):
        (folder / name).unlink()
    run_in_process(config, "--resume")
    assert sorted(path.name for path in folder.iterdir()) == ["best.pt", "epoch_0001.pt", "last.pt"]


def test_a_copy_stays_as_it_was_when_the_next_checkpoint_is_written(tmp_path: Path) -> None:
    (tmp_path / "last.pt").write_bytes(b"one")
    keep_copy(tmp_path / "last.pt", tmp_path / "best.pt")
    keep_copy(tmp_path / "last.pt", tmp_path / "best.pt")
    (tmp_path / "new").write_bytes(b"two")
    (tmp_path / "new").replace(tmp_path / "last.pt")
    assert (tmp_path / "best.pt").read_bytes() == b"one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.pt", "last.pt"]


@pytest.mark.slow
def test_sigkill_at_three_random_steps_changes_no_bit(write_config, tmp_path: Path, root: Path, uninterrupted) -> None:
    """The real thing, with a worker: the process is gone in the midst of a step, whatever it was writing."""
    config = write_config({**EVERYTHING, "training.workers": 1})
    script = tmp_path / "killed.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, signal, sys
            from torch.optim.optimizer import register_optimizer_step_post_hook

            left = int(sys.argv.pop(1))

            def kill(optimizer, args, kwargs):
                global left
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

            register_optimizer_step_post_hook(kill)
            from vtune.pipelines.unet3d import train
            sys.exit(train.main())
            """
        ),
        encoding="utf-8",
    )
    seed = random.randrange(1000)
    # The first may come before any checkpoint; together they end before the training does.
    kills = [random.Random(seed).randint(1, 7), *(random.Random(seed + n).randint(1, 4) for n in (1, 2))]

    def run(left: int, *more: str) -> int:
        command = [sys.executable, str(script), str(left), "--config", str(config), *more]
        env = {**os.environ, "PYTHONPATH": str(root)}
        # No pipes: the loader's worker outlives the kill for some seconds and would hold them open.
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.run(command, env=env, timeout=60, **quiet).returncode

    for number, kill in enumerate(kills):
        assert run(kill, *(["--resume"] if number else [])) == -signal.SIGKILL, kills
    assert run(0, "--resume") == 0
    metrics, content = result(tmp_path / "run")
    assert metrics == uninterrupted[0], kills
    content["settings"]["training"]["workers"] = 0
    assert alike(content, uninterrupted[1]), kills
