"""Where the known trainings are run: through the loop, the engine and the hooks of any training."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from vtune.domain.experiment import Experiment, Window, Workload, Writes
from vtune.domain.machine import Machine
from vtune.domain.record import TrialRecord
from vtune.domain.trial import Proposal, TrialSpec, TrialStatus
from vtune.errors import MachineError
from vtune.execution.engines.local import LocalEngine
from vtune.execution.prepare import prepare_trial
from vtune.journal.files import dump_json
from vtune.journal.paths import TrialPaths
from vtune.journal.study import Study
from vtune.telemetry.host import HostSampler
from vtune.tuner import Tuning, measure_one

SCRIPTS = Path(__file__).resolve().parent.parent / "pipelines" / "selftest"
TRAINING, MEMORY_TREE = SCRIPTS / "training.py", SCRIPTS / "memory_tree.py"
# The pace of a small step must not hang on how many threads a library starts for it.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
# A training that imports torch from a cold network disk is slow to start, not broken.
STARTUP_S = 120.0
TRIAL_S = 60.0
# An error and a path fit; a training that prints a tensor does not fill the table.
LONGEST_WORDS = 300
# Clocks that the parent compares with the boot clock; names as `time` has them.
CLOCKS = {
    "the parent's clock": "CLOCK_MONOTONIC",
    "the raw counter": "CLOCK_MONOTONIC_RAW",
    "wall time": "CLOCK_REALTIME",
}
# Wall time may be set meanwhile; a service that slews it does so slowly.
BOOT = "CLOCK_BOOTTIME"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    python: str
    inject: Path
    machine: Machine
    study: Study
    # Folder of all that the cells are judged by: one folder below it for each run.
    records: Path
    # What reads the memory of the known trees; a test puts a sampler that counts wrongly here.
    sampler: Callable[..., HostSampler] = HostSampler

    def folder(self, run: str) -> Path:
        """Empty: a run that is repeated replaces the first."""
        folder = self.records / run
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def trial(
        self, run: str, arguments: Sequence[str], *, steps: int, command: Sequence[str] = (), warm: bool = True
    ) -> TrialRecord:
        """One bounded trial of the known training. Its folder becomes records/<run>/trial."""
        folder = self.folder(run)
        experiment = self.experiment(folder, arguments, steps=steps, command=command)
        tuning = Tuning(
            study=self.study,
            experiment=experiment,
            engine=LocalEngine(self.inject),
            machine=self.machine,
            notify=lambda event: None,
        )
        before = read_clocks()
        record = measure_one(tuning, Proposal(settings={}, reason=run, origin="probe"))
        if record.status is TrialStatus.INTERRUPTED:
            raise KeyboardInterrupt
        self.study.paths.trial(record.trial).root.rename(folder / "trial")
        self.note(
            folder,
            others_cores=record.measurement.others_cores,
            window_steps=steps,
            clocks_before=before,
            clocks_after=read_clocks(),
        )
        return record

    def experiment(
        self, folder: Path, arguments: Sequence[str], *, steps: int, command: Sequence[str] = ()
    ) -> Experiment:
        program = (self.python, *command, str(TRAINING), *arguments, "--truth", str(folder / "truth.jsonl"))
        return Experiment(
            study="selftest",
            workload=Workload(command=program, cwd=folder, env=ONE_THREAD),
            window=Window(steps=steps, max_steps=steps, trial_time_s=TRIAL_S, startup_time_s=STARTUP_S),
            # Its own count lies in its working folder, and is read while it runs.
            writes=Writes(real=True),
        )

    def prepared(self, run: str, arguments: Sequence[str]) -> tuple[TrialSpec, TrialPaths]:
        """A trial that is ready to be started by hand, in records/<run>/trial."""
        folder = self.folder(run)
        paths = TrialPaths(folder / "trial")
        paths.root.mkdir()
        experiment = self.experiment(folder, arguments, steps=1000)
        proposal = Proposal(settings={}, reason=run, origin="probe")
        spec, _ = prepare_trial(experiment, self.study.paths, proposal, number=1, train_loader=None, folder=paths)
        return spec, paths

    def note(self, folder: Path, **values: Any) -> None:
        dump_json(folder / "run.json", values)

    @contextlib.contextmanager
    def script(self, script: Path, *arguments: str, env: dict[str, str] | None = None) -> Iterator[Script]:
        """A script that is spoken to line by line, outside of any trial. It ends with its stdin: with vtune."""
        # An interrupt between the start of the process and the `try` would leave it behind. It inherits the mask, which
        # changes nothing: it ends with its stdin or by SIGKILL.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
        try:
            # In memory: its last words may be that the disk is full.
            with open(os.memfd_create("last words"), "w+b") as words:
                process = subprocess.Popen(
                    [self.python, str(script), *arguments],
                    env={**os.environ, **ONE_THREAD, **(env or {})},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=words,
                    text=True,
                    start_new_session=True,
                )
                try:
                    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                    yield Script(process=process, words=words)
                finally:
                    # The whole session: a killed parent leaves its children.
                    with contextlib.suppress(OSError):
                        os.killpg(process.pid, 9)
                    process.communicate()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One that runs, and what it has written to its stderr so far."""

    process: subprocess.Popen[str]
    words: IO[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise MachineError(
                f"a known training of the self-test ended by itself with exit code {self.process.wait()}; its last"
                f" words: {self._last_words()}",
                hint="see whether the training's Python can import torch: vtune doctor",
            )
        return line

    def answer(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.line())
        return told

    def tell(self, text: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(text + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.line()

    def _last_words(self) -> str:
        self.words.seek(0)
        lines = self.words.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip()[:LONGEST_WORDS] if lines else "none"


def read_clocks() -> dict[str, float]:
    named = {BOOT: BOOT, **CLOCKS}
    return {name: time.clock_gettime(getattr(time, clock)) for name, clock in named.items() if hasattr(time, clock)}
