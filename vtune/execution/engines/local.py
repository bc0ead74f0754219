"""Trials as processes of this machine, each below a supervisor of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from vtune.domain.progress import TuningEvent
from vtune.domain.trial import EndedBy, TrialOutcome, TrialSpec
from vtune.execution import supervisor
from vtune.execution.observer import Watch
from vtune.execution.process_tree import Process, process_of, tree_below
from vtune.execution.sweep import sweep
from vtune.execution.trial import run_trial
from vtune.journal.paths import TrialPaths
from vtune.journal.trial_files import outcome_from, read_outcome

# Each thread of the tree costs some 10 µs.
PIDS_MAX_AGE_S = 1.0
# A kill takes milliseconds. A supervisor that is not done by then is itself stuck or stopped.
CLOSE_PATIENCE_S = 10.0


class LocalEngine:
    """`inject` is the folder that goes first on the PYTHONPATH of the training."""

    def __init__(self, inject: Path) -> None:
        self._inject = inject.absolute()

    def run(
        self, spec: TrialSpec, folder: TrialPaths, watch: Watch, notify: Callable[[TuningEvent], None]
    ) -> TrialOutcome:
        return run_trial(self, spec, folder, watch, notify)

    def start(self, spec: TrialSpec, folder: Path) -> LocalTrial:
        trial = LocalTrial(spec.token, folder.absolute(), self._inject)
        try:
            trial.wait_for_start()
        except BaseException:
            trial.close("interrupt")
            raise
        return trial


class LocalTrial:
    def __init__(self, token: str, folder: Path, inject: Path) -> None:
        self._token = token
        self._folder = folder
        self._outcome: TrialOutcome | None = None
        self._tree: list[Process] = []
        self._tree_due_s = 0.0
        # The process of the training's command; None when it could not be started.
        self.leader_pid: int | None = None
        # A session of its own: Ctrl-C in the terminal is for vtune, which then ends the trial in order.
        self._supervisor = subprocess.Popen(
            supervisor.command(folder, inject),
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def own_pids(self) -> Sequence[int]:
        return (self._supervisor.pid,)

    def wait_for_start(self) -> None:
        assert self._supervisor.stdout is not None
        # End of file: it could not be started, which the outcome tells, or the supervisor is gone.
        words = self._supervisor.stdout.readline().decode(errors="surrogateescape").strip().split(" ", 2)
        if words[0] == "refused":
            raise OSError(int(words[1]), os.strerror(int(words[1])), words[2])
        self.leader_pid = int(words[1]) if words[0] == "started" else None

    def pids(self) -> Sequence[int]:
        if time.monotonic() >= self._tree_due_s and self._outcome is None:
            # Zombies too: their processor time is nowhere else until they are reaped.
            tree = tree_below(self._supervisor.pid)
            if tree or process_of(self._supervisor.pid) is not None:
                self._tree = list(tree.values())
            self._tree_due_s = time.monotonic() + PIDS_MAX_AGE_S
        return [process.pid for process in self._tree]

    def poll(self) -> TrialOutcome | None:
        if self._outcome is None and self._supervisor.poll() is not None:
            self._outcome = read_outcome(TrialPaths(self._folder)) or self._outcome_told()
            if self._outcome is None:
                self._outcome = sweep(self._token, self._folder, last_seen=self._tree)
            self._tree = []
        return self._outcome

    def _outcome_told(self) -> TrialOutcome | None:
        """By the supervisor itself, whose disk was full."""
        if self._supervisor.stdout is None or self._supervisor.stdout.closed:
            return None
        os.set_blocking(self._supervisor.stdout.fileno(), False)
        said = (self._supervisor.stdout.read() or b"").decode(errors="replace")
        told = [line.removeprefix("outcome ") for line in said.splitlines() if line.startswith("outcome ")]
        return outcome_from(told[-1]) if told else None

    def end(self, reason: EndedBy, grace_s: float) -> None:
        self._order(f"grace {reason} {grace_s:.3f}" if grace_s > 0 else f"term {reason}")

    def ask(self, reason: EndedBy, grace_s: float) -> None:
        """SIGTERM to the main process alone, which may save; after so long the whole tree is ended."""
        self._order(f"ask {reason} {grace_s:.3f}")

    def kill(self, reason: EndedBy) -> None:
        self._order(f"kill {reason}")

    def close(self, reason: EndedBy) -> None:
        """End it if it still runs, and return when nothing is left of it: a Ctrl-C meanwhile has to wait."""
        interrupted: KeyboardInterrupt | None = None
        give_up_s = time.monotonic() + CLOSE_PATIENCE_S
        while True:
            try:
                if self.poll() is not None:
                    break
                self.kill(reason)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._supervisor.wait(max(0.0, give_up_s - time.monotonic()))
                    continue
                self._supervisor.kill()
                self._supervisor.wait()
            except KeyboardInterrupt as again:
                interrupted = again
        for pipe in (self._supervisor.stdin, self._supervisor.stdout):
            if pipe is not None:
                pipe.close()
        if interrupted is not None:
            raise interrupted

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close("interrupt")

    def _order(self, line: str) -> None:
        assert self._supervisor.stdin is not None
        # It ended by itself meanwhile: the outcome tells.
        with contextlib.suppress(BrokenPipeError):
            self._supervisor.stdin.write(line.encode() + b"\n")
