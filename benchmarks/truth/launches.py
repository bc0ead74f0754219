"""Starting what is measured, as a user would: `vtune …`, or the training by itself. Nothing is left running."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TRAINING = HERE / "training.py"
# vtune ends its trial within ten seconds of Ctrl-C and then leaves.
INTERRUPT_S = 20.0
# No launch takes longer than a few minutes, not even beside busy neighbours.
PATIENCE_S = 900.0
# Others that keep more than this much of a core busy are in the figures of steps as short as these.
DISTURBED_CORES = 0.3


class Failed(Exception):
    """A launch that gave no figure; one sentence that says what it said."""


@dataclass(frozen=True)
class Said:
    code: int
    stdout: str
    stderr: str
    seconds: float
    # Kept busy meanwhile by programs that this launch did not start, where it was a training by itself.
    others_cores: float | None = None

    @property
    def json(self) -> dict[str, Any]:
        try:
            told = json.loads(self.stdout)
        except ValueError:
            raise Failed(f"exit code {self.code}, no JSON: {last_words(self.stderr)}") from None
        if not isinstance(told, dict):
            raise Failed(f"exit code {self.code}, not a JSON object")
        return told

    @property
    def why(self) -> str:
        """Of a vtune that did not succeed, in its own words."""
        try:
            told = self.json
        except Failed as failure:
            return str(failure)
        trial = told.get("trial") or {}
        words = told.get("error") or trial.get("detail") or trial.get("status") or last_words(self.stderr)
        return f"exit code {self.code}: {words}"[:400]


class Bench:
    """What a part is given: a scratch folder, the launches, and somebody to tell how far it is."""

    def __init__(self, scratch: Path, *, quick: bool, tell: Callable[[str], None], keep: Callable[[Any], None]) -> None:
        self.scratch, self.quick = scratch, quick
        # For people, on stderr; and the figures so far, in case the part does not come to its end.
        self.tell, self.keep = tell, keep
        # By launch, the cores that other programs kept busy meanwhile.
        self.others_cores: list[float] = []

    def note_others(self, cores: float | None) -> None:
        if cores is not None:
            self.others_cores.append(cores)

    def vtune(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> Said:
        # What is launched beside others is measured again by a stricter rule of this benchmark's own.
        ignored = {"VTUNE_OTHER_PROGRAMS": "ignore"}
        return launch([sys.executable, "-m", "vtune", *map(str, arguments)], env={**ignored, **(env or {})})

    def probe(
        self, study: str, command: Sequence[str | Path], *options: str, env: Mapping[str, str] | None = None
    ) -> Probe:
        """One trial of the command, in a study of its own."""
        arguments = ["probe", "--json", "--quiet", *options, "--study", study, "--results", str(self.scratch)]
        said = self.vtune(*arguments, "--", *map(str, command), env=env)
        if said.code != 0:
            raise Failed(f"probe: {said.why}")
        told = said.json
        folder = self.scratch / study / "trials" / f"{told['trial']['trial']:04d}"
        self.note_others(told["trial"].get("others_cores"))
        return Probe(said=told, trial=told["trial"], folder=folder, seconds=said.seconds)

    def plain(self, command: Sequence[str | Path]) -> Said:
        """The training by itself, no vtune anywhere."""
        said = launch([str(word) for word in command], env={})
        if said.code != 0:
            raise Failed(f"the training ended with exit code {said.code}: {last_words(said.stderr)}")
        self.note_others(said.others_cores)
        return said


@dataclass(frozen=True)
class Probe:
    said: dict[str, Any]
    trial: dict[str, Any]
    folder: Path
    seconds: float


def launch(command: list[str], *, env: Mapping[str, str]) -> Said:
    """In a session of its own, so that Ctrl-C is passed on once and the whole group can be ended."""
    # One thread a process, no colour; where output is a pipe, lines as they are written.
    full = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1", **env}
    begun, busy_before = time.monotonic(), _busy_cpu_s()
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        process = subprocess.Popen(
            command, env=full, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
        )
        try:
            code = process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise Failed(f"not done after {PATIENCE_S:.0f} s: {' '.join(command)[:200]}") from None
        finally:
            _end(process)
        seconds, busy_after = time.monotonic() - begun, _busy_cpu_s()
        others = None if busy_before is None or busy_after is None else (busy_after - busy_before) / seconds
        stdout.seek(0)
        stderr.seek(0)
        return Said(code, stdout.read(), stderr.read(), seconds, others if others is None else max(0.0, others))


def _busy_cpu_s() -> float | None:
    """Processor time of the whole machine but for what was started here and has ended. A trial's tree hangs on its
    supervisor, which is no child of ours: of a probe, its own `others_cores` is the one to ask."""
    try:
        user, nice, system, _, _, irq, soft_irq, stolen = map(
            int, Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
        )
    except (OSError, ValueError):
        return None
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    here = resource.getrusage(resource.RUSAGE_SELF)
    ticks = user + nice + system + irq + soft_irq + stolen
    return ticks / os.sysconf("SC_CLK_TCK") - sum(use.ru_utime + use.ru_stime for use in (own, here))


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        # vtune owns a tree that only it can end whole; a training by itself ends its workers on Ctrl-C too.
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(INTERRUPT_S)
    # The group is left where a crashed leader leaves its loader workers behind.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def last_words(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it said nothing"


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="vtune-truth-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
