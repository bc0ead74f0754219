"""A full run: as by hand, beyond the end of whoever started it, asked before it is ended, and never twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from vtune.execution.engines.local import LocalEngine
from vtune.execution.ownership import proof_of
from vtune.execution.process_tree import process_of
from vtune.execution.ram_limits import ram_limits
from vtune.journal.counts import read_counts
from vtune.journal.files import dump_json
from vtune.journal.paths import TrialPaths
from vtune.journal.trial_files import read_outcome

ROOT = Path(__file__).resolve().parents[3]
INJECT = ROOT / "vtune" / "worker" / "inject"
WAIT = "import time; print('ready', flush=True); time.sleep(1000)"
# What vtune is to the supervisor: it starts the run, and then is there.
STARTER = """
import json, sys, time
from pathlib import Path
from types import SimpleNamespace
from vtune.execution.engines.local import LocalEngine
folder = Path(sys.argv[1])
# All else is the supervisor's to read from the folder.
spec = SimpleNamespace(token=json.loads((folder / "spec.json").read_text())["token"])
run = LocalEngine(Path(sys.argv[2])).start(spec, folder)
print(run.leader_pid, flush=True)
time.sleep(1000)
"""
TINY: dict[str, Any] = {
    "data": {
        "records": 3,
        "patches_per_record": 3,
        "volume_size": [48, 48, 48],
        "chunk_size": [24, 24, 24],
        "patch_size": [16, 16, 16],
    },
    "augmentation": {"elastic_voxels": 1, "elastic_spacing": 8},
    "model": {"filters": 4, "max_filters": 8, "depth": 2},
    "training": {
        "workers": 2,
        "worker_start": "fork",
        "train_batch_size": 2,
        "train_iterations_per_epoch": 4,
        "max_epochs": 2,
        "log_every_n_steps": 2,
        "torch_threads": 1,
        "tensorboard": False,
    },
}


class Launches:
    """Full runs in folders of their own, in the way of the trials beside them."""

    def __init__(self, trials: Any, inject: Path) -> None:
        self.trials = trials
        self.inject = inject
        self.count = 0

    def prepare(self, *command: str, locks: tuple[str, ...] = ()) -> tuple[Any, Path]:
        spec = replace(self.trials.spec(*command), outlives=True, locks=locks)
        self.count += 1
        return spec, self.trials.folder(spec, f"launch{self.count}")

    def start(self, *command: str, **options: Any) -> tuple[Any, Path, str]:
        spec, folder = self.prepare(*command, **options)
        run = LocalEngine(self.inject).start(spec, folder)
        self.trials._started.append(run)
        return run, folder, spec.token

    def python(self, code: str, *arguments: str, **options: Any) -> tuple[Any, Path, str]:
        return self.start(sys.executable, "-c", code, *arguments, **options)


@pytest.fixture(autouse=True)
def compile_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full run has the user's TMPDIR, and there torch makes this folder by itself."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "compiled"))


@pytest.fixture
def launches(trials: Any) -> Launches:
    return Launches(trials, trials.inject)


def start_and_be_killed(spec_folder: Path, inject: Path) -> int:
    """The training's pid, once whoever started it is gone by SIGKILL."""
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(spec_folder), str(inject)], stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None
    leader = int(starter.stdout.readline())
    starter.kill()
    starter.wait()
    starter.stdout.close()
    return leader


def tiny(folder: Path, name: str, **training: Any) -> Path:
    document = {**TINY, "training": {**TINY["training"], **training}, "output_dir": str(folder / name)}
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def metrics_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "logs" / "metrics.jsonl").read_text().splitlines()]


def supervisor_of(folder: Path) -> int:
    return int(json.loads((folder / "supervisor.json").read_text())["supervisor_pid"])


@pytest.mark.slow
def test_a_real_training_has_the_losses_of_one_by_hand_and_is_counted(trials, tmp_path, finish):
    train = [sys.executable, "-m", "vtune.pipelines.unet3d.train", "--config"]
    by_hand = subprocess.run([*train, tiny(tmp_path, "hand")], capture_output=True, text=True, timeout=100)
    assert by_hand.returncode == 0, by_hand.stderr
    run, folder, _ = Launches(trials, INJECT).start(*train, str(tiny(tmp_path, "launched")))
    outcome = finish(run)
    assert (outcome.ended_by, outcome.exit_code, outcome.stragglers) == ("itself", 0, 0)
    told = metrics_of(tmp_path / "launched")
    assert told == metrics_of(tmp_path / "hand")
    steps = [line for line in told if "loss" in line]
    (counts,) = read_counts(TrialPaths(folder))
    assert sum(one.count for one in counts.of("step")) == len(steps) == 8
    training = [one for one in counts.of("delivered") if one.grad]
    assert sum(one.samples for one in training) == 8 * 2
    assert sum(one.count for one in counts.of("saved")) >= 1
    assert not list(folder.glob("steps-*.bin"))
    assert len(list(folder.glob("counts-*.bin"))) == 1


def test_it_runs_to_its_end_when_whoever_started_it_is_killed(launches, trials, finish, living, wait_for):
    go = trials.root / "go"
    code = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\nprint('done')"
    spec, folder = launches.prepare(sys.executable, "-c", code)
    leader = start_and_be_killed(folder, trials.inject)
    time.sleep(0.3)
    assert leader in living(spec.token) and read_outcome(TrialPaths(folder)) is None
    go.touch()
    outcome = wait_for(lambda: read_outcome(TrialPaths(folder)))
    assert (outcome.ended_by, outcome.exit_code, outcome.stragglers) == ("itself", 0, 0)
    assert (folder / "stdout.log").read_text() == "done\n"
    wait_for(lambda: not living(spec.token))


def test_a_trial_still_ends_with_whoever_started_it(trials, living, wait_for):
    spec = trials.spec(sys.executable, "-c", WAIT)
    folder = trials.folder(spec)
    start_and_be_killed(folder, trials.inject)
    outcome = wait_for(lambda: read_outcome(TrialPaths(folder)))
    assert outcome.ended_by == "parent_lost"
    assert living(spec.token) == []


def test_its_ram_limit_holds_without_whoever_started_it(launches, trials, wait_for):
    go = trials.root / "go"
    code = (
        f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\n"
        "kept = []\nwhile len(kept) < 600: kept.append(bytearray(b'x' * 2**20)); time.sleep(0.005)\ntime.sleep(1000)"
    )
    _, folder = launches.prepare(sys.executable, "-c", code)
    dump_json(TrialPaths(folder).limits, ram_limits(200 * 2**20, by_user=True))
    start_and_be_killed(folder, trials.inject)
    go.touch()
    outcome = wait_for(lambda: read_outcome(TrialPaths(folder)))
    assert outcome.ended_by == "limit"
    assert outcome.over is not None


@pytest.mark.slow
def test_asked_to_end_the_bundled_training_saves_and_leaves_nothing(trials, tmp_path, finish, living, wait_for):
    config = tiny(tmp_path, "run", train_iterations_per_epoch=100_000)
    train = (sys.executable, "-m", "vtune.pipelines.unet3d.train", "--config", str(config))
    run, folder, token = Launches(trials, INJECT).start(*train)
    wait_for(lambda: "Train step" in (folder / "stdout.log").read_text(), 60.0)
    run.ask("interrupt", 60.0)
    outcome = finish(run)
    assert (outcome.ended_by, outcome.exit_code, outcome.stragglers) == ("interrupt", 143, 0)
    content = torch.load(tmp_path / "run" / "checkpoints" / "last.pt", weights_only=True)
    assert content["step"] == metrics_of(tmp_path / "run")[-1]["step"] > 0
    assert living(token) == []


@pytest.mark.slow
def test_only_the_main_process_is_asked_and_only_once(launches, trials, finish, printed, wait_for):
    told = trials.root / "told"
    code = f"""
import os, signal, sys, time
def tell(*_):
    with open({str(told)!r}, "a") as file: file.write(sys.argv[0] + str(os.getpid() == leader))
leader = os.getpid()
signal.signal(signal.SIGTERM, tell)
child = os.fork()
if child: print("ready", flush=True)
end_s = time.monotonic() + 3
while time.monotonic() < end_s: time.sleep(0.05)
if child: os.waitpid(child, 0)
"""
    run, folder, _ = launches.python(code)
    printed(folder)
    run.ask("interrupt", 60.0)
    wait_for(told.exists)  # or the two would be one
    run.ask("interrupt", 60.0)
    outcome = finish(run)
    assert (outcome.ended_by, outcome.exit_code) == ("interrupt", 0)
    assert told.read_text() == "-cTrue"


@pytest.mark.slow
def test_behind_a_shell_that_leaves_at_once_the_training_has_its_time_to_save(launches, trials, finish, printed):
    saved = trials.root / "saved"
    code = f"""
import signal, time
def save(*_):
    time.sleep(4.5)
    open({str(saved)!r}, "w").close()
    raise SystemExit(0)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True: time.sleep(0.1)
"""
    run, folder, _ = launches.start("/bin/sh", "-c", f'"{sys.executable}" -c "$0"; exit 7', code)
    printed(folder)
    run.ask("interrupt", 60.0)
    outcome = finish(run)
    assert saved.exists()
    assert (outcome.ended_by, outcome.signal, outcome.stragglers) == ("interrupt", signal.SIGTERM, 1)


@pytest.mark.slow
def test_who_does_not_listen_is_ended_with_its_tree_after_the_grace(launches, finish, printed, living):
    code = "import signal, os, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nos.fork()\n" + WAIT
    run, folder, token = launches.python(code)
    printed(folder)
    asked_s = time.monotonic()
    run.ask("hang", 0.5)
    outcome = finish(run)
    assert (outcome.ended_by, outcome.signal) == ("hang", signal.SIGKILL)
    assert 3.0 < time.monotonic() - asked_s < 20.0
    assert living(token) == []


def test_a_signal_to_its_supervisor_asks_and_a_second_one_ends_it_at_once(launches, finish, printed, living, wait_for):
    code = (
        "import signal, time\nsignal.signal(signal.SIGTERM, lambda *_: print('asked', flush=True))\n"
        "print('ready', flush=True)\nwhile True: time.sleep(0.1)"
    )
    run, folder, token = launches.python(code)
    printed(folder)
    os.kill(supervisor_of(folder), signal.SIGTERM)
    wait_for(lambda: "asked" in (folder / "stdout.log").read_text())
    assert run.poll() is None
    os.kill(supervisor_of(folder), signal.SIGTERM)
    outcome = finish(run)
    assert (outcome.ended_by, outcome.signal) == ("interrupt", signal.SIGKILL)
    assert living(token) == []


def test_of_two_runs_on_one_lock_the_second_is_refused_and_a_later_one_is_not(launches, trials, finish, printed):
    free, lock = trials.root / "results.lock", trials.root / "output.lock"
    locks = (str(free), str(lock))
    first, folder, _ = launches.python(WAIT, locks=locks[1:])
    printed(folder)
    second, second_folder, _ = launches.python(WAIT, locks=locks)
    outcome = finish(second)
    assert second.leader_pid is None
    assert outcome.start_error == f"{lock}: held by another run, process {supervisor_of(folder)}"
    assert not (second_folder / "stdout.log").exists()
    assert first.poll() is None
    first.kill("interrupt")
    finish(first)
    third, third_folder, _ = launches.python(WAIT, locks=locks)
    printed(third_folder)
    assert third.leader_pid is not None


def test_a_lock_is_free_once_its_supervisor_is_killed_whoever_it_had_started(launches, trials, printed, wait_for):
    lock = str(trials.root / "lock")
    first, folder, _ = launches.python(WAIT, locks=(lock,))
    printed(folder)
    supervisor = supervisor_of(folder)
    os.kill(supervisor, signal.SIGKILL)
    wait_for(lambda: not (told := process_of(first.leader_pid)) or not told.living)
    second, second_folder, _ = launches.python(WAIT, locks=(lock,))
    printed(second_folder)
    assert second.leader_pid is not None


def test_the_room_for_its_last_file_is_given_back_when_its_supervisor_was_killed(launches, finish, printed):
    run, folder, token = launches.python("import time; print('ready', flush=True); time.sleep(1000)")
    printed(folder)
    assert [path.name for path in folder.glob(".room.*")] == [f".room.{supervisor_of(folder)}"]
    assert proof_of(token, folder) is not None
    os.kill(supervisor_of(folder), signal.SIGKILL)
    assert finish(run).ended_by == "lost"
    assert not list(folder.glob(".room.*")) and proof_of(token, folder) is None


def test_a_lock_that_cannot_be_made_is_a_start_error(launches, trials, finish):
    lock = str(trials.root / "no" / "lock")
    run, _, _ = launches.python(WAIT, locks=(lock,))
    assert finish(run).start_error == f"{lock}: No such file or directory"


def test_it_finds_what_it_would_find_by_hand(launches, trials, finish, monkeypatch):
    code = (
        "import json, os; print(json.dumps({**os.environ, 'stdin': os.readlink('/proc/self/fd/0'),"
        " 'oom': open('/proc/self/oom_score_adj').read().strip()}))"
    )
    run, folder, _ = launches.python(code)
    finish(run)
    found = json.loads((folder / "stdout.log").read_text())
    assert found["TMPDIR"] == os.environ["TMPDIR"]
    assert found["stdin"] == os.devnull
    assert found["oom"] == Path("/proc/self/oom_score_adj").read_text().strip()
    assert found["VTUNE_LAUNCH"] == "1"
    # A trial that is started from within a full run is none.
    monkeypatch.setenv("VTUNE_LAUNCH", "1")
    trial, folder, _ = trials.python(code)
    finish(trial)
    assert "VTUNE_LAUNCH" not in json.loads((folder / "stdout.log").read_text())


def test_how_it_ended_is_known_also_when_it_filled_the_disk(launches, tmp_path, finish):
    disk = tmp_path / "trials"
    disk.mkdir(exist_ok=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "small", disk], capture_output=True).returncode:
        pytest.skip("this machine does not let us mount a small disk")
    try:
        code = f"""
import sys
with open({str(disk / "checkpoint")!r}, "wb", buffering=0) as file:
    try:
        while True: file.write(bytes(4096))
    except OSError:
        sys.exit(5)
"""
        run, _, _ = launches.python(code)
        outcome = finish(run)
        assert (disk / "checkpoint").stat().st_size > 2**19
    finally:
        subprocess.run(["umount", disk], check=True)
    assert (outcome.ended_by, outcome.exit_code, outcome.defect) == ("itself", 5, None)


def test_nothing_is_left_when_its_main_process_has_ended(launches, finish, living):
    code = """
import os, time
name = f"/dev/shm/torch_{os.getpid()}_left"
open(name, "w").close()
if os.fork() == 0:
    os.setsid()
    time.sleep(1000)
time.sleep(0.2)
"""
    run, _, token = launches.python(code)
    outcome = finish(run)
    assert (outcome.ended_by, outcome.exit_code, outcome.stragglers) == ("itself", 0, 1)
    assert outcome.shm_removed == (f"torch_{run.leader_pid}_left",)
    assert not os.path.exists(f"/dev/shm/torch_{run.leader_pid}_left")
    assert living(token) == []
