"""A training that is not vtune's: a real process with real loader workers."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from support.cli import ROOT, quiet_env

TRAIN = ROOT / "tests" / "integration" / "watch" / "train.py"
PATIENCE_S = 40.0


class Training:
    """Started the way a user does, its output into a file; its workers as itself would name them."""

    def __init__(self, folder: Path, *arguments: str, **env: str) -> None:
        self.log = folder / f"{'-'.join(arguments)}.log"
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, str(TRAIN), *arguments],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=quiet_env(**env), start_new_session=True,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_for_steps(self, steps: int = 3) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while self.log.read_text().count("step") < steps:
            assert self.process.poll() is None and time.monotonic() < end_s, self.log.read_text()
            time.sleep(0.1)

    def workers(self) -> list[int]:
        """Loaded by torch's own worker loop: told by what they were named, of whatever parent in the session."""
        found = []
        for name in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if name.isdigit() and os.getsid(int(name)) == self.pid:
                    comm = Path(f"/proc/{name}/comm").read_text().strip()
                    found += [int(name)] if comm == "pt_data_worker" else []
        return sorted(found)

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()


def watching(training: Training) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "vtune", "watch", str(training.pid)],
        env=quiet_env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
