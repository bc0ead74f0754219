"""Signals end a walk like Ctrl-C, and say so; what was started to ignore them goes on."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from vtune.cli.interrupts import terminations_as_interrupts
from vtune.cli.main import interrupted, run

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.mark.parametrize("number", STOPPING)
def test_it_is_told_before_anything_is_ended(number: signal.Signals) -> None:
    told: list[str] = []
    # The suite itself may run below nohup.
    before = signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), terminations_as_interrupts(lambda: told.append("ending")):
            os.kill(os.getpid(), number)
        assert told == ["ending"] and signal.getsignal(number) == signal.default_int_handler
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", STOPPING)
def test_what_nohup_or_a_shell_in_the_background_ignores_stays_ignored(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with terminations_as_interrupts():
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_whatever_is_interrupted_before_it_starts_anything_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow.yaml").write_text("a: 1\n")
    monkeypatch.setattr("vtune.config.document.read_text", lambda path: signal.pause())
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        assert run(["phase", "--config", str(tmp_path / "slow.yaml")]) == 130
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert capsys.readouterr() == ("", "interrupted: nothing was started\n")


def test_with_json_that_is_said_in_an_object_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert interrupted(as_json=True) == 130
    out, err = capsys.readouterr()
    assert json.loads(out) == {"error": err.strip(), "hint": "start it again", "exit_code": 130}
