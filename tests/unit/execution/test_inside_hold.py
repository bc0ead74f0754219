"""Of studies that keep the same files from inside, one works at a time; the kernel gives its hold back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vtune.errors import UsageError
from vtune.execution import inside_hold
from vtune.execution.inside_hold import held, hold_of
from vtune.execution.locks import Locks
from vtune.journal.paths import StudyPaths

HOLDER = """
import sys, time
from pathlib import Path
from vtune.execution.inside_hold import held
from vtune.journal.paths import StudyPaths
with held((sys.argv[1],), StudyPaths(Path(sys.argv[2])), wait=False):
    print("held", flush=True)
    time.sleep(1000)
"""


def study(name: str) -> StudyPaths:
    return StudyPaths(Path("results", name).absolute())


@pytest.mark.parametrize(
    ("first", "second", "is_refused"),
    [("/a/b", "/a/b", True), ("/a/b", "/a", True), ("/a", "/a/b/c", True), ("/a/b", "/a/bc", False), ("/", "/a", True)],
)
def test_the_same_folder_and_those_in_it_and_around_it_are_held(first: str, second: str, is_refused: bool) -> None:
    with held((first, "/x"), study("one"), wait=False):
        if not is_refused:
            with held((second,), study("two"), wait=False):
                return
        with pytest.raises(UsageError) as caught, held((second,), study("two"), wait=False):
            pass
        assert f"study one (vtune with pid {os.getpid()})" in caught.value.message
    with held((second,), study("two"), wait=False):
        pass


def test_who_waits_comes_next(monkeypatch: pytest.MonkeyPatch) -> None:
    first = held(("/a",), study("one"), wait=False)
    first.__enter__()
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            first.__exit__(None, None, None)

    monkeypatch.setattr(inside_hold.time, "sleep", pause)
    with held(("/a",), study("two"), wait=True):
        assert len(pauses) == 3


def test_a_killed_vtune_holds_nothing_unless_its_supervisor_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside_hold, "SUPERVISOR_PATIENCE_S", 0.0)
    process = subprocess.Popen([sys.executable, "-c", HOLDER, "/a", study("one").root], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"held\n"
    with pytest.raises(UsageError), held(("/a",), study("two"), wait=False):
        pass
    hold = hold_of(study("one"))
    assert hold is not None
    supervisor = Locks(())
    assert supervisor.join(hold) is None
    process.kill()
    process.communicate()
    # Its own study is kept out by it as well.
    for name in ("one", "two"):
        with pytest.raises(UsageError), held(("/a",), study(name), wait=False):
            pass
    for descriptor in supervisor._descriptors:
        os.close(descriptor)
    with held(("/a",), study("two"), wait=False):
        assert hold_of(study("one")) is None
        # One that comes late starts nothing.
        assert Locks(()).join(hold) is not None


def test_the_supervisor_of_a_killed_vtune_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    monkeypatch.setattr(inside_hold.os, "getpid", lambda: ended.pid)
    first = held(("/a",), study("one"), wait=False)
    first.__enter__()
    monkeypatch.setattr(inside_hold.time, "sleep", lambda seconds: first.__exit__(None, None, None))
    with held(("/a",), study("two"), wait=False):
        pass


def test_without_a_hold_there_is_nothing_to_join() -> None:
    assert hold_of(study("one")) is None
    assert Locks(()).join(None) is None
