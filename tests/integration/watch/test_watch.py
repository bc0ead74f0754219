"""`vtune watch` on trainings that it did not start: real processes, real loader workers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from emulated.fake_nvml import GIB, FakeDriver
from support.cli import quiet_env, vtune
from support.trainings import Training, watching
from vtune.execution.watch_find import find_training


@pytest.mark.parametrize(
    ("slow", "by", "kind"),
    [
        pytest.param("sleep", "fork", "starved", marks=pytest.mark.timing),
        pytest.param("load", "spawn", "starved", marks=pytest.mark.slow),
        pytest.param("model", "forkserver", "cpu", marks=[pytest.mark.slow, pytest.mark.timing]),
        pytest.param("hang", "fork", "still", marks=pytest.mark.slow),
    ],
)
def test_a_training_it_did_not_start_shows_its_workers_its_memory_and_what_it_waits_for_within_ten_seconds(
    start: Callable[..., Training], request: pytest.FixtureRequest, slow: str, by: str, kind: str
) -> None:
    training = start(slow, by)
    training.wait_for_steps()
    begun_s = time.monotonic()
    said = vtune("watch", str(training.pid), "--json")
    took_s = time.monotonic() - begun_s
    assert said.code == 0, said.stderr
    seen = said.json
    if request.node.get_closest_marker("timing"):
        assert took_s < 12, "ten seconds, and what a loaded machine takes to start a program"
    assert seen["verdict"]["kind"] == kind, seen["verdict"]
    assert sorted(seen["workers"]) == training.workers() and len(seen["workers"]) == 2
    assert [row["pid"] for row in seen["processes"] if row["role"] == "training"] == [training.pid]
    held = sum(_anonymous_bytes(pid) for pid in (training.pid, *training.workers()))
    # Forked processes share what they hold: the sum over all counts some pages twice.
    assert 0.3 * held < seen["ram_bytes"] < 1.2 * held
    assert all(row["ram_bytes"] > 2**20 for row in seen["processes"] if row["role"] == "worker")
    assert (seen["verdict"]["wait_share"] or 0) > 0.5 if kind == "starved" else True
    assert training.process.poll() is None


@pytest.mark.slow
def test_steps_and_what_is_left_of_the_run_are_read_from_its_log(start: Callable[..., Training]) -> None:
    training = start("sleep", "fork")
    training.wait_for_steps()
    seen = vtune("watch", str(training.pid), "--json", "--price", "3.60/h").json
    progress = seen["progress"]
    assert (progress["steps"], progress["epoch"], progress["epochs"]) == (5000, 1, 3)
    # Two workers, a batch of two in 0.2 s each.
    assert 5 < progress["steps_per_s"] < 11
    assert progress["left_s"] == pytest.approx((15000 - progress["step"]) / progress["steps_per_s"], rel=0.01)
    assert seen["costs"].startswith("3.60 an hour, of which about 3.")
    assert seen["tuning"].startswith(("it may pay", "it would hardly pay"))


def test_a_worker_that_is_named_stands_for_its_training(start: Callable[..., Training], tmp_path: Path) -> None:
    training = start("sleep", "forkserver")
    training.wait_for_steps()
    assert find_training(str(training.workers()[0]), tmp_path).pid == training.pid


@pytest.mark.slow
def test_several_trainings_are_listed_and_none_is_chosen(start: Callable[..., Training]) -> None:
    holds_torch = "import torch; print('here', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", holds_torch], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as idle:
        pair = [start("sleep", "fork"), start("sleep", "spawn")]
        for training in pair:
            training.wait_for_steps()
        assert idle.stdout is not None and idle.stdout.readline() == b"here\n"
        said = vtune("watch", "--json")
        idle.kill()
    assert said.code == 2
    # It holds torch as well, and feeds nothing: the last to be named, whoever else runs here.
    named = [int(pid) for pid in re.findall(r"vtune watch (\d+) ", said.json["hint"])]
    assert all(named.index(training.pid) < named.index(idle.pid) for training in pair)
    assert all(f"vtune watch {training.pid} " in said.json["hint"] for training in pair)
    # A spawned worker is no training of its own.
    assert not any(f"vtune watch {pid} " in said.json["hint"] for pid in pair[1].workers())


@pytest.mark.slow
def test_a_study_names_its_own_training(start: Callable[..., Training], tmp_path: Path) -> None:
    results = tmp_path / "results"
    attempt = results / "mine" / "launches" / "0001" / "attempts" / "01"
    attempt.mkdir(parents=True)
    (results / "mine" / "journal.jsonl").write_text("")
    ours, other = start("sleep", "fork", VTUNE_TRIAL=str(attempt)), start("sleep", "fork", "hold")
    for training in (ours, other):
        training.wait_for_steps()
    said = vtune("watch", "mine", "--results", results, "--json")
    assert said.code == 0 and said.json["pid"] == ours.pid
    ours.end()
    said = vtune("watch", "mine", "--results", results, "--json")
    assert said.code == 2 and "nothing of study mine runs" in said.json["error"]


def test_piped_it_says_a_line_each_five_seconds_and_the_end_with_the_error_of_the_log(
    start: Callable[..., Training],
) -> None:
    training = start("sleep", "fork")
    training.wait_for_steps()
    watched = watching(training)
    assert watched.stdout is not None
    line = watched.stdout.readline()
    with training.log.open("a") as log:
        log.write("Traceback (most recent call last):\nValueError: the mask has another shape\n")
    time.sleep(1.0)
    training.end()
    out, err = watched.communicate(timeout=20)
    assert watched.returncode == 0, err
    assert "starved for data" in line and "2 workers" in line and "\x1b" not in out
    assert f"process {training.pid} · ended, ran for" in out
    assert "error     ValueError: the mask has another shape" in out


@pytest.mark.slow
def test_it_ends_when_nobody_reads_its_lines_any_more(start: Callable[..., Training]) -> None:
    training = start("sleep", "fork")
    training.wait_for_steps()
    watched = watching(training)
    assert watched.stdout is not None
    watched.stdout.readline()
    watched.stdout.close()
    assert watched.wait(timeout=3) == 0
    assert training.process.poll() is None


@pytest.mark.slow
def test_leaving_is_no_interruption_and_leaves_the_training_alone(start: Callable[..., Training]) -> None:
    training = start("sleep", "fork")
    training.wait_for_steps()
    for left_by in (signal.SIGINT, signal.SIGKILL):
        watched = watching(training)
        assert watched.stdout is not None
        watched.stdout.readline()
        watched.send_signal(left_by)
        watched.communicate(timeout=20)
        assert watched.returncode == (0 if left_by == signal.SIGINT else -signal.SIGKILL)
        before = training.log.read_text().count("step")
        time.sleep(1.0)
        assert training.process.poll() is None and training.log.read_text().count("step") > before


def test_a_process_that_is_not_there_is_a_wrong_number() -> None:
    gone = subprocess.Popen([sys.executable, "-c", "pass"])
    gone.wait()
    said = vtune("watch", str(gone.pid), "--json")
    assert said.code == 2 and said.json["error"] == f"there is no process {gone.pid}"


AS_ANOTHER = """
import json, os, pwd, resource, sys, time
from vtune.execution.watching import Asked, Watching
from vtune.reporting.watch_json import watched_to_json
os.setgroups([]), os.setgid(65534), os.setuid(65534)
with Watching(int(sys.argv[1]), Asked()) as watching:
    for _ in range(9):
        watching.look()
        time.sleep(0.5)
    print(json.dumps(watched_to_json(watching.picture())))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_what_another_users_training_keeps_to_itself_is_said(start: Callable[..., Training]) -> None:
    training = start("sleep", "fork")
    training.wait_for_steps()
    done = subprocess.run(
        [sys.executable, "-c", AS_ANOTHER, str(training.pid)], env=quiet_env(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert "watch as that user or as root" in seen["missing"][0]
    assert seen["ram_bytes"] is None and sorted(seen["workers"]) == training.workers()
    assert seen["no_log_because"] == "its output is not ours to read"


def _anonymous_bytes(pid: int) -> int:
    found = re.search(r"^RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.parametrize(("util", "kind"), [(96, "gpu"), pytest.param(13, "starved", marks=pytest.mark.slow)])
def test_with_a_gpu_its_utilization_is_part_of_the_verdict(
    start: Callable[..., Training], fake_driver: FakeDriver, util: int, kind: str
) -> None:
    training = start("sleep", "fork")
    training.wait_for_steps()
    fake_driver.set(
        count=1, gpu0__util=util, gpu0__used=7 * GIB, gpu0__procs=f"{training.pid}:{5 * GIB}:10,1:{2 * GIB}:0",
        gpu0__throttle=4,
    )  # fmt: skip
    said = vtune("watch", str(training.pid), "--json", "--vram-limit", "50%", **fake_driver.env)
    assert said.code == 0, said.stderr
    seen = said.json
    [gpu] = seen["gpus"]
    assert (gpu["used_bytes"], gpu["others_bytes"], gpu["throttled_by"]) == (7 * GIB, 2 * GIB, ["sw_power_cap"])
    assert gpu["util_percent"] == util and seen["verdict"]["kind"] == kind
    if kind == "starved":
        assert seen["verdict"]["wait_share"] == pytest.approx(0.87, abs=0.01)
