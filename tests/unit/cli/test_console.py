import os
import pty
import subprocess
import sys
from pathlib import Path

ARGUMENTS = ("-m", "vtune", "knobs", "--results", "nothing")


def without(name: str) -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key != name}


def on_a_terminal(folder: Path, **env: str) -> bytes:
    """What is written to a real terminal."""
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, *ARGUMENTS], stdout=theirs, stderr=theirs, stdin=theirs, cwd=folder,
        env={**without("NO_COLOR"), "TERM": "xterm-256color", **env},
    )  # fmt: skip
    os.close(theirs)
    written = b""
    try:
        while piece := os.read(ours, 65536):
            written += piece
    except OSError:  # the other end was closed
        pass
    os.close(ours)
    assert done.wait(timeout=60) == 0
    return written


def test_no_color_keeps_every_escape_code_away(tmp_path: Path) -> None:
    assert b"\x1b" in on_a_terminal(tmp_path)
    assert b"\x1b" not in on_a_terminal(tmp_path, NO_COLOR="1")


def test_off_a_terminal_no_line_is_wrapped_or_padded(tmp_path: Path) -> None:
    env = without("COLUMNS")
    done = subprocess.run([sys.executable, *ARGUMENTS], capture_output=True, text=True, cwd=tmp_path, env=env)
    lines = done.stdout.splitlines()
    assert lines and all(line == line.rstrip() for line in lines)
    assert max(map(len, lines)) > 80


def test_an_output_that_knows_no_dots_gets_others(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, *ARGUMENTS], capture_output=True, text=True, cwd=tmp_path, env=env)
    assert done.returncode == 0 and "?" in done.stdout
