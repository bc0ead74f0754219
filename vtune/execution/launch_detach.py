"""A process of its own session that outlives the terminal, and tells its beginning to whoever made it."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

Told = Mapping[str, Any]


def detached(log: Path, run: Callable[[Callable[[Told], None]], int]) -> Told:
    """What `run` tells first, once it has; its own words go to the log. Empty where it died before."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _become_a_stranger(log, run, writing)
    os.close(writing)
    os.waitpid(child, 0)
    with open(reading, encoding="utf-8") as told:
        line = told.readline()
    found: Told = json.loads(line) if line else {}
    return found


def _become_a_stranger(log: Path, run: Callable[[Callable[[Told], None]], int], writing: int) -> NoReturn:
    code = 70
    try:
        os.setsid()
        # The parent of the next one is gone at once: nobody has to wait for it, and it never gets a terminal again.
        if os.fork() != 0:
            os._exit(0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        words = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
        os.dup2(words, 1)
        os.dup2(words, 2)
        told = False

        def tell(first: Told) -> None:
            nonlocal told
            if told:
                return
            told = True
            with contextlib.suppress(OSError):  # whoever made us was killed meanwhile
                os.write(writing, json.dumps(dict(first)).encode() + b"\n")
            os.close(writing)

        code = run(tell)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
