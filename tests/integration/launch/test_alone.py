"""A launch whose terminal or guard is gone, and whoever comes after: never two trainings, and nobody is lied to."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Callable

import pytest

from support.cli import vtune
from support.launches import Study, without_accident

Make = Callable[..., Study]


def wait_until(holds: Callable[[], bool], timeout: float = 30.0) -> None:
    until = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < until, "it never came to pass"
        time.sleep(0.05)


@pytest.mark.slow
def test_detached_it_returns_at_once_and_the_run_goes_on_to_its_end(a_study: Make) -> None:
    study = a_study(steps=150)
    said = study.launch("--detach", "--json")
    assert said.code == 0, said.stderr
    told = said.json
    assert (
        (told["status"], told["trial"]) == ("running", 1)
        and told["pid"] in study.living()
        and told["guard_pid"] != told["pid"]
    )
    assert os.getsid(told["guard_pid"]) != os.getsid(0)
    wait_until(lambda: not study.living() and bool(study.records()))
    assert dict(study.losses()) == dict(without_accident(study))
    assert json.loads(study.of_launch().state.read_text())["status"] == "completed"
    assert "launch 1 completed" in study.of_launch().log.read_text()


@pytest.mark.slow
def test_a_signal_to_a_detached_guard_lets_the_training_save(a_study: Make) -> None:
    study = a_study(steps=2000)
    told = study.launch("--detach", "--json").json
    study.wait_for_steps(15)
    second = study.launch("--force")
    assert second.code == 2 and f"process {told['pid']}, guarded by vtune with pid {told['guard_pid']}" in second.stderr
    os.kill(told["guard_pid"], signal.SIGTERM)
    wait_until(lambda: not study.living())
    assert "saved after step" in study.of_launch().attempt(1).stdout.read_text()
    wait_until(lambda: json.loads(study.of_launch().state.read_text())["status"] == "stopped")


@pytest.mark.slow
def test_without_its_killed_guard_it_goes_on_and_a_second_launch_names_it_until_it_ends(a_study: Make) -> None:
    study = a_study(steps=500)
    started = study.start()
    study.wait_for_steps(5)
    started.kill()
    started.communicate(timeout=10)
    said = study.launch("--force")
    [training] = [pid for pid, name in study.living().items() if "python" in name and is_main(pid)]
    assert said.code == 2 and f"process {training}, unguarded" in said.stderr
    # It was held to its limits to its end, by its supervisor.
    wait_until(study.of_launch().attempt(1).outcome.exists)
    assert not study.living()
    assert json.loads(study.of_launch().attempt(1).outcome.read_text())["exit_code"] == 0
    assert dict(study.losses()) == dict(without_accident(study))
    again = study.launch("--dry-run")
    assert "launch 1 went on after its guard was killed: it ended with exit code 0" in again.stderr
    # It is told until a launch has written it down; a look writes nothing.
    assert json.loads(study.of_launch().state.read_text())["status"] == "running"
    second = study.launch("--resume")
    assert second.code == 0 and "launch 1 went on after its guard was killed" in second.stderr
    assert json.loads(study.of_launch().state.read_text())["status"] == "completed"
    assert json.loads(study.of_launch().events.read_text().splitlines()[-1])["kind"] == "ended"
    assert "launch 1 went on" not in study.launch("--dry-run").stderr


@pytest.mark.slow
def test_a_training_that_is_told_to_save_after_its_guard_was_killed_has_not_completed(a_study: Make) -> None:
    study = a_study(steps=2000, leaves_with=0, run={"epochs": 1, "iterations_per_epoch": 2000})
    started = study.start()
    study.wait_for_steps(15)
    started.kill()
    started.communicate(timeout=10)
    os.kill(study.main_pid(), signal.SIGTERM)
    wait_until(study.of_launch().attempt(1).outcome.exists)
    checkpoint = (study.folder / "out" / "last.pt").read_bytes()
    said = study.launch()
    assert said.code == 2 and "launch 1 stopped after" in said.stderr
    assert (study.folder / "out" / "last.pt").read_bytes() == checkpoint


@pytest.mark.slow
def test_a_killed_supervisor_takes_the_training_along_and_the_guard_says_so(a_study: Make) -> None:
    study = a_study(steps=2000)
    started = study.start("--json")
    study.wait_for_steps(5)
    state = json.loads(study.of_launch().attempt(1).supervisor.read_text())
    os.kill(state["supervisor_pid"], signal.SIGKILL)
    stdout, stderr = started.communicate(timeout=30)
    assert started.returncode == 5, stderr
    told = json.loads(stdout)
    assert told["status"] == "failed" and "supervisor was lost" in told["detail"] and told["go_on"] is None
    assert study.living() == {}


@pytest.mark.slow
def test_a_second_signal_ends_it_at_once(a_study: Make) -> None:
    study = a_study(steps=2000, deaf=True)
    started = study.start("--json")
    study.wait_for_steps(5)
    started.send_signal(signal.SIGTERM)
    time.sleep(1.0)
    assert started.poll() is None
    # Under nohup a SIGHUP would be none.
    started.send_signal(signal.SIGINT)
    stdout, stderr = started.communicate(timeout=15)
    assert started.returncode == 130, stderr
    assert json.loads(stdout)["status"] == "stopped"
    assert study.living() == {}


def is_main(pid: int) -> bool:
    """Not a loader worker: its parent is the supervisor."""
    with open(f"/proc/{pid}/stat") as file:
        parent = int(file.read().rpartition(")")[2].split()[1])
    with open(f"/proc/{parent}/cmdline", "rb") as file:
        return b"supervisor" in file.read()


@pytest.mark.slow
@pytest.mark.parametrize("results", ["results", "elsewhere/results"])
def test_two_studies_that_write_to_one_folder_never_run_at_once(a_study: Make, results: str) -> None:
    study = a_study(steps=2000)
    told = study.launch("--detach", "--json").json
    other = study.folder / results / "other"
    other.mkdir(parents=True)
    for name in ("journal.jsonl", "machine.json"):
        (other / name).write_bytes((study.paths.root / name).read_bytes())
    experiment = study.paths.experiment.read_text().replace("study: demo", "study: other")
    (other / "experiment.yaml").write_text(experiment)
    asked = ("launch", "--study", "other", "--results", study.folder / results)
    for _ in range(3):
        for words in ((), ("--detach",)):
            said = vtune(*asked, *words, "--force", cwd=study.folder)
            assert said.code == 2 and "held by another run" in said.stderr, said.stderr
            assert "runs as process" not in said.stderr
    assert not list((other / "launches").glob("*/attempts/01/stdout.log"))
    study.wait_for_steps(15)
    os.kill(told["guard_pid"], signal.SIGTERM)
    wait_until(lambda: not study.living())
    # What those that never ran did not leave is not blamed on them.
    said = vtune(*asked, cwd=study.folder)
    assert said.code == 2 and "demo" in said.stderr and "/launches/0001 stopped after" in said.stderr, said.stderr


@pytest.mark.slow
def test_trials_and_a_full_run_of_one_training_keep_out_of_each_others_way(a_study: Make) -> None:
    study = a_study(steps=2000)
    lock = os.open(study.paths.lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.pwrite(lock, b"4711\n", 0)
    said = study.launch()
    assert said.code == 2 and "are measured at this moment, by vtune with pid 4711" in said.stderr
    assert study.launch("--force", "--dry-run").code == 0
    os.close(lock)
    told = study.launch("--detach", "--json").json
    said = vtune("probe", "--study", "demo", "--config", "demo.yaml", cwd=study.folder)
    assert said.code == 2 and f"launch 1 of study demo runs as process {told['pid']}" in said.stderr
    assert study.paths.trial_numbers() == []
    os.kill(told["guard_pid"], signal.SIGTERM)
    wait_until(lambda: not study.living())
