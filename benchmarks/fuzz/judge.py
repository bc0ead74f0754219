"""One call, made and judged."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from fuzz.calls import call
from fuzz.world import build, state_of

LONGEST_S = 10.0
# Of wall-clock time, where a call waits and computes nothing: it hangs.
PATIENCE_S = 60
REFUSALS = (2, 3)
FAULTS = ("traceback", "exit 70", "over 10 s", "wrote on refusal", "no hint", "not the JSON")


@dataclass(frozen=True, slots=True)
class Judged:
    kind: str
    seed: int
    words: tuple[str, ...]
    code: int
    seconds: float
    faults: tuple[str, ...]
    said: str


class Hangs(BaseException):
    """No code of vtune catches it."""


class Started(BaseException):
    """A program would have been started: everything before was accepted."""


def judge(kind: str, seed: int, *, as_process: bool = False) -> Judged:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name, contextlib.chdir(name):
        folder = Path(name)
        build(folder)
        words = call(kind, seed, folder)
        before, begun_s = state_of(folder), _processor_s()
        code, out, said = _in_a_process(words) if as_process else _here(words)
        seconds = PATIENCE_S if code is None else _processor_s() - begun_s
        changed = state_of(folder) != before
        # What a FIFO or a folder without permission leaves behind is no business of the next call.
        shutil.rmtree(folder / "results", ignore_errors=True)
    faults = tuple(_faults(words, code, out, said, seconds, changed=changed))
    return Judged(kind, seed, tuple(words), -1 if code is None else code, seconds, faults, said[-2000:])


def _processor_s() -> float:
    """Of this process and those that it has waited for."""
    return sum(os.times()[:4])


def _faults(words: list[str], code: int | None, out: str, said: str, seconds: float, *, changed: bool) -> Iterator[str]:
    own = words[: words.index("--")] if "--" in words else words
    as_json = any(word.partition("=")[0] == "--json" for word in own)
    if "Traceback (most recent call last)" in out + said:
        yield "traceback"
    if code == 70:
        yield "exit 70"
    if seconds > LONGEST_S:
        yield "over 10 s"
    if code in REFUSALS and changed and not ("apply" in own and "--write" in own):
        yield "wrote on refusal"
    told = _json(out) if as_json and code in (0, *REFUSALS, 70) and "--help" not in own else None
    if as_json and told is None and code in (0, *REFUSALS, 70) and "--help" not in own:
        yield "not the JSON"
    if code in REFUSALS or code == 70:
        if as_json and told is not None:
            if sorted(told) != ["error", "exit_code", "hint"] or told["exit_code"] != code:
                yield "not the JSON"
            elif not (isinstance(told["hint"], str) and told["hint"].strip()):
                yield "no hint"
        elif not as_json and not ("error: " in said and "\nhint: " in said):
            yield "no hint"


def _json(out: str) -> dict[str, Any] | None:
    try:
        told = json.loads(out)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def _here(words: list[str]) -> tuple[int | None, str, str]:
    """In this process: a hundred times as fast as a new one. Programs are not started but noted."""
    from vtune.cli.main import run

    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="replace", write_through=True)
    said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="replace", write_through=True)
    code: int | None
    with (
        mock.patch("subprocess.Popen", side_effect=FileNotFoundError(2, "not started")),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(said),
        _patience(),
    ):
        try:
            code = run(words)
        except Hangs:
            code = None
    return code, _text(out), _text(said)


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    raw = stream.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue().decode("utf-8", "replace")


@contextlib.contextmanager
def _patience() -> Iterator[None]:
    def hangs(number: int, frame: object) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(PATIENCE_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _in_a_process(words: list[str]) -> tuple[int | None, str, str]:
    """As a user starts it."""
    python = [sys.executable, "-m", "vtune"]
    env = {**os.environ, "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            [*python, *words], env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S
        )
    except subprocess.TimeoutExpired:
        return None, "", ""
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
