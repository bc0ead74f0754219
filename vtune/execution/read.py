"""A finished trial's record, measured and diagnosed from its folder alone: what a crash left reads the same way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from vtune.analysis.judge import judge
from vtune.analysis.measure import Observed
from vtune.analysis.roles import find_roles
from vtune.domain.experiment import Experiment
from vtune.domain.machine import Machine
from vtune.domain.record import CODE, TrialRecord
from vtune.domain.secrets import masked
from vtune.domain.trial import TrialOutcome, TrialSpec
from vtune.execution.given_secrets import given_secrets, without_secrets
from vtune.journal.code import code_of
from vtune.journal.paths import StudyPaths, TrialPaths
from vtune.journal.scouted import scouted_measurement
from vtune.journal.step_log import StepLog
from vtune.journal.trial_files import read_trial_files
from vtune.journal.validated import is_validated
from vtune.knobs.plan import batch_factor
from vtune.knobs.ways import current_settings

# Enough for a traceback with its message.
LAST_WORDS_CHARS = 8000


def read_trial(
    experiment: Experiment,
    machine: Machine,
    spec: TrialSpec,
    outcome: TrialOutcome,
    folder: TrialPaths,
    *,
    earlier: Sequence[TrialRecord] = (),
) -> TrialRecord:
    """`earlier`: the study's other trials, for what is too rare for one window."""
    files, known = read_trial_files(folder), given_secrets(experiment.workload)
    stdout_words, stderr_words = (
        masked(tail, known)[-LAST_WORDS_CHARS:] for tail in (files.stdout_tail, files.stderr_tail)
    )
    log = files.log
    roles = find_roles(log.steps, log.delivered, log.facts)
    train = roles.train if roles is not None else None
    record = judge(
        spec,
        outcome,
        Observed(
            roles=roles,
            loaded=log.loaded,
            delivered=log.delivered,
            steps=log.steps,
            backwards=log.backwards,
            facts=log.facts,
            telemetry=files.telemetry,
            device_steps=log.device_steps,
            stages=log.stages,
            gpus=files.gpus,
            started_s=files.started_s,
        ),
        pythons=files.pythons,
        backwards=len(log.backwards),
        last_words=stderr_words or stdout_words,
        stdout_words=stdout_words,
        stacks=files.stacks,
        window=experiment.window,
        planned=experiment.planned_run,
        price=experiment.price,
        machine=machine,
        current=current_settings(experiment),
        study=experiment.study,
        results=_results(folder),
        earlier=earlier,
        gpu_validated=is_validated(machine.gpus, machine.gpu_driver, torch=_torch_of(log)),
        batch_factor=batch_factor(spec.settings, experiment, train.asked_batch_size if train else None),
        scouted=scouted_measurement(experiment, StudyPaths(folder.root.absolute().parents[1])),
        ram_limit_bytes=experiment.limits.ram.resolve(machine.ram_bytes) if experiment.limits.ram else None,
        vram_limit=experiment.limits.vram,
    )
    record = without_secrets(record, known)
    code = code_of(log.facts)
    return replace(record, evidence={**record.evidence, CODE: code}) if code else record


def _results(folder: TrialPaths) -> str | None:
    """As it was typed; None where a command looks into it by itself."""
    results = folder.root.parents[2] if len(folder.root.parents) > 2 else Path("results")
    return None if results == Path("results") else str(results)


def _torch_of(log: StepLog) -> str | None:
    return next((str(fact.data.get("torch")) for fact in log.facts_named("hello")), None)
