"""`vtune watch` on a terminal: what stands there, how often it is drawn, and what that costs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from support.cli import quiet_env
from support.screen import as_it_stands
from support.trainings import Training

WIDTH, HEIGHT = 72, 24
PATIENCE_S = 40.0


@dataclass
class Terminal:
    process: subprocess.Popen[bytes]
    side: int
    written: str = ""

    def read(self, seconds: float) -> str:
        """What comes within this time."""
        until, text = time.monotonic() + seconds, b""
        while (left := until - time.monotonic()) > 0:
            if select.select([self.side], [], [], left)[0]:
                try:
                    new = os.read(self.side, 65536)
                except OSError:  # the last one that had it open has left
                    break
                text += new
        self.written += text.decode()
        return text.decode()

    def read_until(self, is_so: Callable[[], bool]) -> None:
        give_up_s = time.monotonic() + PATIENCE_S
        while not is_so() and time.monotonic() < give_up_s:
            self.read(0.5)
        # A picture that was cut is whole by then.
        self.read(1.0)


@contextlib.contextmanager
def watched_on_a_terminal(training: Training) -> Iterator[Terminal]:
    side, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    env = {
        name: value for name, value in quiet_env(TERM="xterm").items() if name not in ("NO_COLOR", "COLUMNS", "LINES")
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "vtune", "watch", str(training.pid)],
        env=env, stdin=other, stdout=other, stderr=other, start_new_session=True,
    )  # fmt: skip
    os.close(other)
    try:
        yield Terminal(process, side)
    finally:
        process.kill()
        process.wait()
        os.close(side)


def cpu_s(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
@pytest.mark.timing
def test_two_refreshes_a_second_take_less_than_a_fiftieth_of_a_core(start: Callable[..., Training]) -> None:
    training = start("sleep", "fork")
    training.wait_for_steps()
    with watched_on_a_terminal(training) as terminal:
        terminal.read(4.0)
        begun_s, before_s = time.monotonic(), cpu_s(terminal.process.pid)
        drawn = terminal.read(8.0).count("\x1b[J")
        seconds = time.monotonic() - begun_s
        share = (cpu_s(terminal.process.pid) - before_s) / seconds
    assert 0.8 * 2 * seconds <= drawn <= 2 * seconds + 1
    assert share < 0.02


@pytest.mark.slow
def test_what_stands_on_the_terminal_is_the_last_picture_alone_within_its_width_and_stays_when_left(
    start: Callable[..., Training],
) -> None:
    training = start("sleep", "fork")
    training.wait_for_steps()
    with watched_on_a_terminal(training) as terminal:
        terminal.read_until(lambda: "starved for data" in as_it_stands(terminal.written))
        rows = as_it_stands(terminal.written).splitlines()
        assert len(rows) < HEIGHT and max(map(len, rows)) < WIDTH
        # Drawn over, not below: each row once.
        assert [row.split()[0] for row in rows if row.startswith(("process", "verdict", "RAM", "cores"))] == [
            "process", "verdict", "RAM", "cores",
        ]  # fmt: skip
        assert "starved for data" in " ".join(rows)
        terminal.process.send_signal(signal.SIGINT)
        terminal.read_until(lambda: terminal.process.poll() is not None)
        assert terminal.process.returncode == 0
        left = as_it_stands(terminal.written)
        assert left.count("verdict   starved") == 1 and left.splitlines()[0].startswith(f"process {training.pid} ")
