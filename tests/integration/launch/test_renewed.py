"""A full run whose checkpoints come more seldom than its trial's window was long: the next promise knows them."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from support.cli import vtune_in_process
from support.launches import Study, measured
from vtune.domain.record import TrialRecord
from vtune.domain.renewal import RarePause
from vtune.journal.renewals import renewals_of

Make = Callable[..., Study]
STEPS, EVERY, SAVE_S = 540, 120, 1.5


def a_trial(trial: int, **asked: int) -> TrialRecord:
    """Of 40 steps, none of which was a checkpoint; its neighbours were as many as there may ever be."""
    record = measured(trial, 60.0, **asked)
    numbers = {"steps_measured": 40, "samples_per_epoch": STEPS * 2, "others_cores": 64.0}
    return replace(record, measurement=replace(record.measurement, **numbers))


@pytest.mark.slow
def test_checkpoints_that_the_trial_was_too_short_for_renew_the_promise_and_the_next_one_has_them(
    a_study: Make,
) -> None:
    study = a_study(
        a_trial(1), a_trial(2, workers=2),
        steps=STEPS, save_every=EVERY, save_s=SAVE_S, run={"epochs": 1, "iterations_per_epoch": STEPS},
    )  # fmt: skip
    before = study.launch("--dry-run", "--json").json
    said = study.launch("--json")
    assert said.code == 0, said.stderr
    told = said.json
    [renewed] = told["renewed"]
    because = renewed["because"]
    assert (because["kind"], because["what"], because["seen"], renewed["trial"]) == ("RarePause", "checkpoint", 3, 1)
    # Counted, and looked at once a second: a look holds some forty steps, and a busy machine makes saves no shorter.
    assert because["every_steps"] == pytest.approx(EVERY, rel=0.5) and because["seconds"] >= 0.8 * SAVE_S
    assert 3 * EVERY <= renewed["after_steps"] < STEPS
    assert renewed["samples_per_s"] < renewed["samples_per_s_before"] == told["promised_samples_per_s"] == 60.0
    assert "promise renewed after" in said.stderr
    [event] = [one for one in map(json.loads, study.of_launch().events.read_text().splitlines())
               if one["kind"] == "renewed"]  # fmt: skip
    assert event["data"]["renewal"] == renewed
    assert json.loads(study.of_launch().state.read_text())["renewed"] == renewed
    # The next promise of the same settings has them, and so has that of others of the same training; each once.
    after = study.launch("--dry-run", "--json", "--force").json
    for trial, plan in ((1, after), (2, study.launch("--trial", "2", "--dry-run", "--json", "--force").json)):
        longer_s = plan["promised_run_s"] - before["promised_run_s"]
        assert longer_s == pytest.approx(int(STEPS / because["every_steps"]) * because["seconds"], rel=0.35), trial
        assert plan["promised_samples_per_s"] == 60.0
    assert any("promise renewed" in note for note in after["notes"])
    report = vtune_in_process("report", "--study", "demo", "--json", cwd=study.folder).json
    assert any("promise renewed" in note for note in report["notes"])
    for record in report["trials"][:2]:
        [pause] = record["pauses"]
        assert (pause["what"], pause["launch"]) == ("checkpoint", 1)


@pytest.mark.slow
def test_a_renewed_promise_outlives_a_guard_that_is_killed(a_study: Make) -> None:
    study = a_study(a_trial(1), steps=4000, save_every=EVERY, save_s=SAVE_S)
    started = study.start()
    until = time.monotonic() + 60
    while not renewals_of(study.of_launch()) and time.monotonic() < until:
        time.sleep(0.1)
    os.kill(started.pid, signal.SIGKILL)
    started.communicate(timeout=30)
    os.kill(study.supervisor_pid(), signal.SIGKILL)
    [renewal] = renewals_of(study.of_launch())
    assert isinstance(renewal.because, RarePause) and renewal.because.what == "checkpoint"
    # No line of it is in the journal.
    assert study.records() == []
