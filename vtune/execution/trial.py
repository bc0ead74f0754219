"""One bounded trial: start it, watch it, end it when enough was seen, leave nothing behind."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import replace

from vtune.domain.progress import TuningEvent
from vtune.domain.trial import TrialOutcome, TrialSpec
from vtune.execution.evidence import KernelWitness
from vtune.execution.observer import Observer, Watch
from vtune.execution.ram_limits import ram_limits
from vtune.execution.running import RunningTrial, Starter
from vtune.execution.sampling import Sampling
from vtune.journal.files import dump_json
from vtune.journal.paths import TrialPaths
from vtune.journal.records import spec_to_json
from vtune.telemetry.gpus import GpuSampler

# Ctrl-C is answered within ten seconds, the supervisor's own three for SIGTERM included.
INTERRUPT_GRACE_S = 5.0
# Of several that are told to end, the training may be heard to have ended before vtune hears that it shall: job
# schedulers and terminals signal all at once. A shell or a launcher in between tells a signal as a code of its own.
OUR_TURN_S = 0.5


def run_trial(
    starter: Starter, spec: TrialSpec, folder: TrialPaths, watch: Watch, notify: Callable[[TuningEvent], None]
) -> TrialOutcome:
    """The folder holds spec.json's siblings already (config.yaml); everything else is written here or by the trial."""
    folder.output.mkdir(exist_ok=True)
    dump_json(folder.spec, spec_to_json(spec))
    dump_json(folder.limits, ram_limits(watch.ram_limit_bytes, by_user=watch.limit_by_user))
    with (
        KernelWitness() as kernel,
        GpuSampler() as devices,  # first: what the devices hold now is not the trial's
        starter.start(spec, folder.root) as trial,
        open(folder.telemetry, "ab", buffering=0) as telemetry,
    ):
        started_s = time.monotonic()
        sampling = Sampling(folder, trial, devices, telemetry, started_s)
        observer = Observer(spec, folder, watch, trial, sampling, started_s)
        try:
            outcome = _follow(trial, observer, notify)
            if outcome.ended_by == "itself" and outcome.exit_code != 0:
                time.sleep(OUR_TURN_S)
        except KeyboardInterrupt:
            # The first Ctrl-C keeps what was measured; a second one leaves through the engine's own cleaning up.
            observer.ask_to_end("interrupt", grace_s=INTERRUPT_GRACE_S)
            # Also when the window was full and the training was ending already: whoever pressed it wants all to end.
            outcome = replace(_follow(trial, observer, notify), ended_by="interrupt")
        removed = not os.path.exists(folder.spec)
        outcome = replace(outcome, disk_was_full=sampling.disk_was_full, folder_removed=removed)
        return _with_kernels_words(outcome, kernel, observer.pids_seen(), folder)


def _with_kernels_words(
    outcome: TrialOutcome, kernel: KernelWitness, pids: set[int], folder: TrialPaths
) -> TrialOutcome:
    killed, anywhere = kernel.kills_of(pids), kernel.kills_of_machine()
    if not killed and not anywhere:
        return outcome
    outcome = replace(outcome, kernel_killed=killed, machine_oom_kills=anywhere)
    with contextlib.suppress(OSError):
        dump_json(folder.outcome, outcome)
    return outcome


def _follow(trial: RunningTrial, observer: Observer, notify: Callable[[TuningEvent], None]) -> TrialOutcome:
    while True:
        begun_s, now = time.thread_time(), time.monotonic()
        outcome = trial.poll()
        observer.look(now)
        if outcome is None and observer.overdue(now):
            # The supervisor itself is stopped or stuck: it is ended with the tree, and the window is still read.
            trial.close(observer.ending)
            outcome = trial.poll()
            outcome = outcome and replace(outcome, ended_by=observer.ending)
        if outcome is not None:
            observer.look_once_more()
            return outcome
        reason = observer.reason_to_end(now)
        if reason is not None:
            observer.ask_to_end(reason)
        if now >= observer.progress_due:
            notify(observer.progress(now))
        time.sleep(observer.pause_s(time.thread_time() - begun_s))
