"""What goes wrong is one line that names the file and the reason, before the first step where it can be known."""

from __future__ import annotations

import math
import multiprocessing
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from vtune.pipelines.unet3d import train
from vtune.pipelines.unet3d.averaging import Averaged
from vtune.pipelines.unet3d.checkpoints import CheckpointError, check_architecture, load_checkpoint
from vtune.pipelines.unet3d.data.patches import EpochWindow
from vtune.pipelines.unet3d.data.records import find_records
from vtune.pipelines.unet3d.failures import TrainingError, lost_peer
from vtune.pipelines.unet3d.journal import Progress
from vtune.pipelines.unet3d.model import UNet3D
from vtune.pipelines.unet3d.partial import partial_of
from vtune.pipelines.unet3d.ranks import Ranks
from vtune.pipelines.unet3d.settings import load_settings
from vtune.pipelines.unet3d.state import TrainingState
from vtune.pipelines.unet3d.stopping import StopRequest


@pytest.fixture
def fails(capsys: pytest.CaptureFixture[str]):
    """Runs the training, which has to fail with one line, and gives the line."""

    def run(config: Path, *more: str, before_any_step: bool = True, code: int = 1) -> str:
        capsys.readouterr()
        assert train.main(["--config", str(config), *more]) == code
        shown = capsys.readouterr()
        assert len(shown.err.splitlines()) == 1, shown.err
        assert shown.err.startswith("error: ")
        assert not before_any_step or "Train step" not in shown.out
        return shown.err.removeprefix("error: ").rstrip("\n")

    return run


@pytest.fixture
def finished(write_config, tmp_path: Path) -> Path:
    """The last checkpoint of a tiny training."""
    short = {"training.train_iterations_per_epoch": 1, "training.max_epochs": 1}
    assert train.main(["--config", str(write_config(short))]) == 0
    return tmp_path / "run" / "checkpoints" / "last.pt"


def test_a_loss_that_is_no_number_names_the_batch_and_leaves_the_weights_alone(
    write_config, tmp_path: Path, fails
) -> None:
    config = write_config({"training.learning_rate": 1e30, "training.warmup_steps": 0})
    line = fails(config, before_any_step=False)
    place = r"record \S+ at z \d+, y \d+, x \d+"
    assert re.fullmatch(
        rf"(loss|the gradients' norm) is (nan|inf) in step \d of epoch 1, "
        rf"batch of sample \d+ \({place}\), sample \d+ \({place}\)",
        line,
    )
    assert not list((tmp_path / "run" / "checkpoints").iterdir())


def test_of_accumulated_batches_only_the_bad_one_is_named(write_config, tmp_path: Path, fails) -> None:
    """Of a volume of one gray, of which this network makes no numbers."""
    images, labels = tmp_path / "images", tmp_path / "labels"
    images.mkdir()
    labels.mkdir()
    rng = np.random.default_rng(0)
    for name in ("good", "gray"):
        image = rng.integers(0, 255, (24, 24, 24), dtype=np.uint8)
        np.save(images / f"{name}.npy", np.full_like(image, 100) if name == "gray" else image)
        np.save(labels / f"{name}.npy", image // 230)
    changes = {
        "data.images": str(images),
        "data.labels": str(labels),
        "augmentation.intensity_probability": 0.0,
        "training.train_batch_size": 1,
        "training.accumulate_steps": 6,
    }

    def spoil(module: Any, given: Any, outputs: Any) -> Any:
        is_gray = isinstance(module, UNet3D) and given[0].abs().max() < 0.1
        return [output * math.nan for output in outputs] if is_gray else outputs

    hook = torch.nn.modules.module.register_module_forward_hook(spoil)
    try:
        line = fails(write_config(changes), before_any_step=False)
    finally:
        hook.remove()
    named = re.findall(r"record (\S+) at", line)
    assert set(named) == {"gray"}
    assert len(named) < 6


def test_an_output_folder_that_cannot_be_written(write_config, tmp_path: Path, fails) -> None:
    (tmp_path / "file").write_text("")
    line = fails(write_config({"output_dir": str(tmp_path / "file")}))
    assert line == f"cannot write checkpoints to {tmp_path / 'file' / 'checkpoints'}: Not a directory"


def test_no_room_for_all_the_checkpoints_that_will_be(
    write_config, tmp_path: Path, fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is almost full: one checkpoint fits, not those that are asked for."""
    settings = load_settings(write_config())
    weights = sum(weight.numel() for weight in UNet3D(settings.model).parameters()) * 4
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**12, 10**12, 2 * 3 * weights))
    assert train.main(["--config", str(write_config({"training.max_epochs": 1}))]) == 0
    for changes in (
        {"training.keep_checkpoints": 3},
        {"training.ema_decay": 0.9, "training.keep_checkpoints": 1},
        {"data.validation_records": 1, "training.keep_checkpoints": 1},
    ):
        line = fails(write_config({**changes, "output_dir": str(tmp_path / "other")}))
        assert re.fullmatch(r"cannot write checkpoints to \S+: \d+ MB are free, \d+ MB needed", line)


def test_a_checkpoint_that_cannot_be_finished_leaves_the_one_before_it(write_config, finished: Path, fails) -> None:
    """A real failure of a real write in the middle of the file: a limit on the size of files stands for a full disk."""
    before = finished.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, hard))
    try:
        line = fails(write_config(), "--resume", before_any_step=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert line.startswith(f"cannot write checkpoint {finished}: ")
    assert finished.read_bytes() == before
    assert list(finished.parent.iterdir()) == [finished]


def test_what_a_killed_run_left_of_a_checkpoint_is_removed(write_config, tmp_path: Path) -> None:
    folder = tmp_path / "run" / "checkpoints"
    folder.mkdir(parents=True)
    with subprocess.Popen(["true"]) as ended:
        dead = ended.pid
    for name in (partial_of(folder / "last.pt", dead).name, partial_of(folder / "epoch_0001.pt", dead).name):
        (folder / name).write_bytes(b"half")
    assert train.main(["--config", str(write_config({"training.max_epochs": 1}))]) == 0
    assert [path.name for path in folder.iterdir()] == ["last.pt"]


def test_a_checkpoint_of_another_architecture_names_the_key(write_config, finished: Path, fails) -> None:
    for key, value, there, here in (
        ("filters", 8, 4, 8),
        ("depth", 3, 2, 3),
        ("deep_supervision", False, "true", "false"),
    ):
        line = fails(write_config({f"model.{key}": value}), "--resume")
        assert line == (
            f"cannot use checkpoint {finished}: another architecture, "
            f"its model.{key} is {there}, the config's is {here}"
        )


def test_weights_of_another_version_are_named(write_config, finished: Path) -> None:
    settings = load_settings(write_config())
    content = load_checkpoint(finished)
    content["model"]["heads.0.weight"] = torch.zeros(1, 3, 1, 1, 1)
    with pytest.raises(CheckpointError, match=r"its weight heads\.0\.weight is 1x3x1x1x1, here it is 1x4x1x1x1$"):
        check_architecture(content, finished, model=UNet3D(settings.model), settings=settings.model)
    del content["model"]["heads.0.weight"]
    with pytest.raises(CheckpointError, match=r"its weight heads\.0\.weight is missing, here it is 1x4x1x1x1$"):
        check_architecture(content, finished, model=UNet3D(settings.model), settings=settings.model)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 half a file", b"no checkpoint at all\n"])
def test_a_damaged_checkpoint(write_config, finished: Path, fails, content: bytes) -> None:
    finished.write_bytes(content)
    assert fails(write_config(), "--resume").startswith(
        f"cannot read checkpoint {finished}: damaged, or no checkpoint ("
    )


def test_a_truncated_checkpoint(write_config, finished: Path, fails) -> None:
    whole = finished.read_bytes()
    finished.write_bytes(whole[: len(whole) // 2])
    assert fails(write_config(), "--resume").startswith(
        f"cannot read checkpoint {finished}: damaged, or no checkpoint ("
    )


def test_a_file_of_another_program(write_config, finished: Path, fails) -> None:
    torch.save({"epoch": 3, "state_dict": {}}, finished)
    assert fails(write_config(), "--resume") == (
        f'cannot use checkpoint {finished}: it has no "settings", another program or version wrote it'
    )


def test_a_checkpoint_cannot_run_code(write_config, tmp_path: Path, finished: Path, fails) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "pwned"),)

    torch.save({"epoch": Evil()}, finished)
    assert fails(write_config(), "--resume").startswith(f"cannot read checkpoint {finished}: ")
    assert not (tmp_path / "pwned").exists()


def test_a_named_checkpoint_that_is_not_there(write_config, tmp_path: Path, fails) -> None:
    line = fails(write_config(), "--resume", str(tmp_path / "none.pt"))
    assert line == f"cannot read checkpoint {tmp_path / 'none.pt'}: No such file or directory"


def test_an_epoch_that_became_shorter_than_what_is_done_of_it(write_config, tmp_path: Path, fails) -> None:
    config = {"training.checkpoint_every_n_steps": 3, "training.learning_rate": 0.01}
    assert train.main(["--config", str(write_config({**config, "training.max_epochs": 1}))]) == 0
    # As a kill within the epoch leaves it.
    last = tmp_path / "run" / "checkpoints" / "last.pt"
    content = load_checkpoint(last)
    torch.save({**content, "step": 3, "is_epoch_done": False}, last)
    line = fails(write_config({**config, "training.train_iterations_per_epoch": 2}), "--resume")
    assert line == (
        f"cannot use checkpoint {last}: it is 3 steps into epoch 1, training.train_iterations_per_epoch is 2"
    )


def test_float16_without_a_gpu(write_config, fails) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    line = fails(write_config({"training.precision": "fp16"}))
    assert line == "training.precision: fp16 needs a GPU, and there is none here: bf16 and fp32 run on the CPU"


@pytest.fixture
def one_bad_label(tmp_path: Path) -> dict[str, Any]:
    """Settings of a pass over nine volumes, of which one holds a foreign label everywhere."""
    images, labels = tmp_path / "images", tmp_path / "labels"
    images.mkdir()
    labels.mkdir()
    image = np.random.default_rng(0).integers(0, 255, (24, 24, 24), dtype=np.uint8)
    for name in "abcdefghi":
        np.save(images / f"{name}.npy", image)
        np.save(labels / f"{name}.npy", np.full_like(image, 7) if name == "b" else image // 250)
    return {
        "data.images": str(images),
        "data.labels": str(labels),
        "training.train_iterations_per_epoch": 14,
    }


def test_bad_data_that_only_a_read_finds(
    write_config, tmp_path: Path, fails, one_bad_label, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if the files were on a drive so slow that the look before the first step is over before it has begun.
    monkeypatch.setattr("vtune.pipelines.unet3d.data.records.LOOK_SECONDS", 0.0)
    line = fails(write_config(one_bad_label), before_any_step=False)
    assert line.startswith(f"{tmp_path / 'labels' / 'b.npy'}: holds label 7 at z ")


# How it fails, as a line of a script before the training, the settings for it, and what it says.
FAILURES = {
    "bad data": ("records.LOOK_SECONDS = 0.0", {}, r"error: \S+/b\.npy: holds label 7 at z .*"),
    "a loss that is no number": (
        "",
        {"data.images": None, "data.labels": None, "training.learning_rate": 1e30, "training.warmup_steps": 0},
        r"error: (loss|the gradients' norm) is (nan|inf) in step .*",
    ),
    "persistent workers": (
        "records.LOOK_SECONDS = 0.0; train.PERSISTENT_WORKERS = True",
        {},
        r"error: \S+/b\.npy: holds label 7 at z .*",
    ),
    "a fault of its own": (
        "from torch.optim.optimizer import register_optimizer_step_post_hook as then; then(lambda *_: 1 / 0)",
        {"data.images": None, "data.labels": None},
        "ZeroDivisionError: .*",
    ),
}


def test_a_failed_training_leaves_no_worker_to_whoever_called_it(write_config, fails) -> None:
    wrong = {"training.workers": 2, "training.learning_rate": 1e30, "training.warmup_steps": 0}
    fails(write_config(wrong), before_any_step=False)
    assert not multiprocessing.active_children()


def test_a_killed_worker_is_one_line_with_the_likely_reason(write_config, fails) -> None:
    """As the system does it when memory runs out."""

    def kill(*_: object) -> None:
        os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)
        time.sleep(5)

    hook = register_optimizer_step_post_hook(kill)
    try:
        line = fails(write_config({"training.workers": 1}), before_any_step=False)
    finally:
        hook.remove()
    how = r"DataLoader worker .* (is killed by signal: Killed|exited unexpectedly)"
    advice = r"perhaps for want of memory, of which fewer training\.workers take less"
    assert re.fullmatch(rf"a loader worker was killed \({how}\): {advice}", line)


def test_a_seed_that_no_generator_takes(write_config, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config({"training.seed": 10**30})
    assert train.main(["--config", str(config)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {config}: training.seed: expected 0 to ")


@pytest.mark.slow
def test_a_second_training_in_the_same_folder_is_refused(write_config, tmp_path: Path, fails) -> None:
    config = write_config({"training.train_iterations_per_epoch": 100_000, "training.log_every_n_steps": 1})
    command = [sys.executable, "-m", "vtune.pipelines.unet3d.train", "--config", str(config)]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout is not None
        while not first.stdout.readline().startswith("Train step"):
            assert first.poll() is None
        line = fails(write_config({"training.max_epochs": 1}))
        assert line == f"{tmp_path / 'run'} is in use by the training with process id {first.pid}"
    finally:
        first.kill()
        first.communicate()
    # The system lets go of it for whoever dies.
    assert train.main(["--config", str(write_config({"training.max_epochs": 1}))]) == 0


def gone(group: int, *, within_s: float) -> bool:
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.slow
@pytest.mark.parametrize("worker_start", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "failure", ["bad data", *(pytest.param(failure, marks=pytest.mark.slow) for failure in list(FAILURES)[1:])]
)
def test_a_failed_training_ends_with_its_workers(
    write_config, tmp_path: Path, root: Path, one_bad_label, failure: str, worker_start: str
) -> None:
    prelude, changes, words = FAILURES[failure]
    workers = {"training.workers": 2, "training.worker_start": worker_start}
    config = write_config({**one_bad_label, **workers, **changes})
    script = tmp_path / "fails.py"
    script.write_text(
        "import sys\nfrom vtune.pipelines.unet3d import train\nfrom vtune.pipelines.unet3d.data import records\n"
        f"if __name__ == '__main__':\n    {prelude}\n    sys.exit(train.main())\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(script), "--config", str(config)],
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, told = process.communicate(timeout=40)
        assert process.returncode == 1
        assert re.fullmatch(words, told.splitlines()[-1]), told
        # Multiprocessing's own tracker of resources takes a moment longer.
        assert gone(process.pid, within_s=10)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_all_that_headers_tell_at_once(write_config, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images, labels = tmp_path / "images", tmp_path / "labels"
    images.mkdir()
    labels.mkdir()
    for name, shape in (("a", (24, 24, 24)), ("b", (24, 24, 24)), ("small", (24, 8, 24))):
        np.save(images / f"{name}.npy", np.zeros(shape, np.uint8))
        np.save(labels / f"{name}.npy", np.zeros((20, 24, 24) if name == "b" else shape, np.uint8))
    changes = {"data.images": str(images), "data.labels": str(labels)}
    assert train.main(["--config", str(write_config(changes))]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(f"error: {labels / 'b.npy'}: ")
    assert lines[1].startswith(f"error: {images / 'small.npy'}: ")


def test_an_empty_folder(write_config, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("images", "labels"):
        (tmp_path / name).mkdir()
    changes = {"data.images": str(tmp_path / "images"), "data.labels": str(tmp_path / "labels")}
    assert train.main(["--config", str(write_config(changes))]) == 1
    assert f"error: {tmp_path / 'images'}: holds no volume" in capsys.readouterr().err


def test_a_log_that_cannot_be_written(write_config, tmp_path: Path, fails) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "logs").write_text("")
    assert re.fullmatch(rf"cannot write the log {tmp_path}/run/logs/train\.log: .*", fails(write_config()))


def test_metrics_that_cannot_be_written(write_config, tmp_path: Path, fails) -> None:
    logs = tmp_path / "run" / "logs"
    logs.mkdir(parents=True)
    os.symlink("/dev/full", logs / "metrics.jsonl")
    line = fails(write_config(), before_any_step=False)
    assert line == f"cannot write {logs / 'metrics.jsonl'}: No space left on device"


def test_a_rank_that_is_gone_is_told_by_the_others_in_a_line() -> None:
    place = "[/third_party/gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:924: "
    text = place + "Connection reset by peer. This is typically caused by a remote worker"
    assert lost_peer(RuntimeError(text)) == "another rank has ended (Connection reset by peer)"
    closed = RuntimeError("[pair.cc:534] Connection closed by peer [127.0.0.1]:1\nmore")
    assert lost_peer(closed) == "another rank has ended (Connection closed by peer)"
    assert lost_peer(RuntimeError("shapes do not match")) is None


class Run(NamedTuple):
    state: TrainingState
    epoch: Callable[[], None]
    metrics: list[dict[str, float]]


@pytest.fixture
def scaled(write_config) -> Callable[..., Run]:
    """An epoch on the CPU as with float16 on a GPU: the same scaler, and gradients that overflow float32."""

    def make(*, scale: float, steps: int) -> Run:
        settings = load_settings(write_config({"training.train_iterations_per_epoch": steps}))
        torch.manual_seed(0)
        model = UNet3D(settings.model)
        state = TrainingState(
            model=model,
            optimizer=torch.optim.AdamW(model.parameters()),
            scaler=torch.amp.GradScaler("cpu", init_scale=scale),
            averaged=Averaged(model, 0.9),
            progress=Progress(settings.loss, steps_per_epoch=steps),
        )
        told: list[dict[str, float]] = []

        class Told:
            def step(self, steps_done: int, *, values: dict[str, float], **_: object) -> None:
                told.append({**values, "weight": float(model.heads[0].weight.detach().abs().sum())})

        records = find_records(settings.data)
        window = EpochWindow(steps * 2, batch=2)
        ranks = Ranks(rank=0, count=1, device=torch.device("cpu"))

        def epoch() -> None:
            train.train_epoch(
                model,
                train.make_loader(settings, window, ranks.device, records, ranks=1),
                state,
                settings=settings,
                ranks=ranks,
                records=records,
                metrics=Told(),  # type: ignore[arg-type]
                stop=StopRequest(),
                save=lambda: None,
            )

        return Run(state, epoch, told)

    return make


def test_a_step_that_a_gradient_scaler_leaves_out_is_no_failure(scaled) -> None:
    run = scaled(scale=2.0**127, steps=10)
    untouched = float(run.state.averaged.model.heads[0].weight.abs().sum())
    run.epoch()
    scales = [values["scale"] for values in run.metrics]
    left_out = [later < earlier for earlier, later in pairwise(scales)]
    # The largest scale overflows, half of it or less does not: then it learns.
    assert left_out[0] and not left_out[-1]
    assert run.metrics[0]["weight"] == untouched
    assert run.metrics[-1]["weight"] != untouched
    assert all(math.isfinite(values["loss"]) for values in run.metrics)
    assert run.state.steps_done == 10


def test_gradients_that_overflow_at_any_scale_stop_the_training(scaled) -> None:
    run = scaled(scale=2.0**-8, steps=10)
    run.state.model.heads[0].weight.register_hook(lambda gradient: gradient * math.inf)
    with pytest.raises(TrainingError, match=r"^the gradients' norm is (nan|inf) in step 4 of epoch 1, batch of "):
        run.epoch()
    assert len(run.metrics) == 3
