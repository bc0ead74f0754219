"""A study that is launched once more: what an earlier launch saved is not overwritten unasked."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable

import pytest

from support.launches import Study

Make = Callable[..., Study]


@pytest.mark.slow
def test_what_a_stopped_launch_saved_is_overwritten_only_when_asked(a_study: Make) -> None:
    study = a_study(steps=2000)
    started = study.start()
    study.wait_for_steps(15)
    started.send_signal(signal.SIGINT)
    _, stderr = started.communicate(timeout=30)
    assert started.returncode == 130, stderr
    said = study.launch()
    assert said.code == 2 and "launch 1 stopped after" in said.stderr and "left a checkpoint in out" in said.stderr
    assert "--resume goes on from it; --force begins again" in said.stderr
    assert not study.of_launch(2).root.exists()
    assert study.launch("--resume", "--dry-run").code == 0
    forced = study.launch("--force", "--dry-run")
    assert forced.code == 0 and "launched all the same: launch 1 stopped after" in forced.stderr
    shutil.rmtree(study.folder / "out")
    assert study.launch("--dry-run").code == 0


@pytest.mark.slow
def test_over_one_that_completed_it_begins_again_and_says_so(a_study: Make) -> None:
    study = a_study(resume=False, steps=12)
    assert study.launch().code == 0
    said = study.launch()
    assert said.code == 0 and "launch 1 completed and left a checkpoint in out: this one begins" in said.stderr


@pytest.mark.slow
def test_where_nothing_was_saved_the_command_that_goes_on_begins_again(a_study: Make) -> None:
    study = a_study(steps=2000, deaf=True, save_every=10_000)
    started = study.start("--grace", "1s", "--json")
    study.wait_for_steps(5)
    started.send_signal(signal.SIGINT)
    stdout, stderr = started.communicate(timeout=30)
    told = json.loads(stdout)
    assert told["go_on"] == "vtune launch --study demo --grace 1s --trial 1", stderr
    assert told["go_on_note"] == "from its beginning: no checkpoint was seen"
    assert f"to go on, {told['go_on_note']}: {told['go_on']}" in stderr
    killed = "it did not end within 1 s: killed; what came after its last checkpoint is lost"
    assert killed in told["detail"]
    events = map(json.loads, study.of_launch().events.read_text().splitlines())
    kinds = {event["kind"]: event["text"] for event in events}
    assert kinds["killed"] == killed and killed in kinds["ended"] and stderr.count(killed) >= 2
    # Nor is there anything to overwrite.
    assert study.launch("--dry-run").code == 0
