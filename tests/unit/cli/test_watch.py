"""What `vtune watch` draws on a terminal, with a training that is made up."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import pytest

from support.screen import as_it_stands
from vtune.analysis.watching.picture import Known, picture_of
from vtune.cli import watch
from vtune.domain.watching import Watched
from vtune.execution.watching import LOOK_EVERY_S
from vtune.reporting.watch_rows import watch_rows


@dataclass
class MadeUp:
    """Another picture at each look."""

    pictures: list[Watched]
    at: int = -1

    def look(self) -> None:
        self.at += 1

    @property
    def lives(self) -> bool:
        return self.at < len(self.pictures) - 1

    def picture(self) -> Watched:
        return self.pictures[self.at]


def a_picture(**other: Any) -> Watched:
    known = Known(pid=7, command="python train.py " + "word " * 30, ran_s=99.0, seen_s=60.0, cores=4.0)
    return replace(picture_of((), (), known), **other)


def draw(monkeypatch: pytest.MonkeyPatch, height: int, *pictures: Watched) -> list[float]:
    """The seconds between two looks."""
    clock, slept = [100.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((50, height)))
    watch._draw(MadeUp(list(pictures)))  # type: ignore[arg-type]
    return slept


def test_each_picture_is_drawn_over_the_one_before_also_where_that_was_longer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    long, short = a_picture(errors=("one", "two", "three"), missing=("much",)), a_picture()
    slept = draw(monkeypatch, 60, long, short, long, replace(short, ended=True))
    written = capsys.readouterr().out
    assert as_it_stands(written).splitlines() == [row.rstrip() for row in watch_rows(replace(short, ended=True))]
    assert slept == [LOOK_EVERY_S] * 3 and LOOK_EVERY_S == 0.5


def test_on_a_terminal_too_small_no_row_is_too_wide_and_none_scrolls_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    draw(monkeypatch, 6, a_picture(), a_picture(), a_picture(ended=True))
    frames = capsys.readouterr().out.split("\x1b[J")
    shown = as_it_stands(frames[0] + frames[1]).splitlines()
    assert len(shown) == 5 and all(len(row) < 50 for row in shown)
    assert shown[0].startswith("process 7")
    # Up by as many rows as there were: one more, and the lines above them would be written over.
    assert "\x1b[5A" in frames[1] and "\x1b[6A" not in "".join(frames)
