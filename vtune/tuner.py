"""The loop: propose → run → measure → diagnose → record."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from vtune.analysis.judge import judge
from vtune.analysis.measure import Observed
from vtune.analysis.roles import Roles, find_roles
from vtune.config.output import redirected_output, tracker_env
from vtune.config.trial_config import write_trial_config
from vtune.domain.experiment import Experiment, Window
from vtune.domain.machine import Machine
from vtune.domain.progress import TrialFinished, TrialStarted, TuningEvent
from vtune.domain.record import TrialRecord
from vtune.domain.trial import Proposal, TrialOutcome, TrialSpec, TrialStatus
from vtune.execution.engines.engine import Engine
from vtune.execution.trial import Watch, run_trial
from vtune.journal.files import dump_json
from vtune.journal.paths import TrialPaths
from vtune.journal.study import Study
from vtune.journal.trial_files import TrialFiles, read_trial_files
from vtune.knobs.plan import config_changes, needs_scout, plan_trial, trial_config_path

# Enough windows between steps for co-occurrence to tell the training's loader from a validation that runs first.
SCOUT_STEPS = 5
# What is known from the trial's log: enough for a traceback with its message.
LAST_WORDS_CHARS = 8000


class Strategy(Protocol):
    def propose(self, history: Sequence[TrialRecord]) -> Proposal | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What every trial of a study shares."""

    study: Study
    experiment: Experiment
    engine: Engine
    machine: Machine
    notify: Callable[[TuningEvent], None]


def tune(tuning: Tuning, strategy: Strategy) -> list[TrialRecord]:
    """Returns the whole history, the new records last."""
    history = tuning.study.journal.read()
    while True:
        proposal = strategy.propose(history)  # None when there is nothing worth measuring
        if proposal is None:
            return history
        record = measure_one(tuning, proposal)
        tuning.study.journal.append(record)
        history.append(record)
        tuning.notify(TrialFinished(record=record))
        if record.status is TrialStatus.INTERRUPTED:
            return history


def measure_one(tuning: Tuning, proposal: Proposal) -> TrialRecord:
    number = tuning.study.next_trial()
    train_loader = None
    if needs_scout(proposal.settings, tuning.experiment):
        learnt = learn_roles(tuning, proposal, number)
        if isinstance(learnt, TrialRecord):
            return learnt
        train_loader = learnt
    folder = tuning.study.new_trial_folder(number)
    spec, notes = write_trial(tuning, proposal, number, train_loader, folder)
    tuning.notify(TrialStarted(spec=spec))
    there_before = _names_in(spec.cwd)
    outcome = run_trial(tuning.engine, spec, folder, _watch(tuning, tuning.experiment.window), tuning.notify)
    record = read_trial(tuning, spec, outcome, folder)
    appeared = sorted(_names_in(spec.cwd) - there_before - {"__pycache__"})
    if appeared:
        notes = (*notes, f"appeared in {spec.cwd} during the trial: {', '.join(appeared[:8])}")
    if tuning.experiment.limits.vram is not None:
        notes = (*notes, "the VRAM limit was not judged: no GPU is measured yet")
    return replace(record, notes=(*record.notes, *notes))


def write_trial(
    tuning: Tuning, proposal: Proposal, number: int, train_loader: str | None, folder: TrialPaths
) -> tuple[TrialSpec, tuple[str, ...]]:
    """Writes the training's config with what the spec changes in it; returns the spec, and what the user must know."""
    workload = tuning.experiment.workload
    output = redirected_output(workload, folder.root.absolute())
    for place in output.create:
        place.mkdir(parents=True, exist_ok=True)
    spec = plan_trial(
        proposal,
        tuning.experiment,
        number=number,
        train_loader=train_loader,
        folder=folder.root.absolute(),
        token=uuid.uuid4().hex,
        command=output.command,
        env={**tracker_env(folder.root.absolute()), **_compile_cache(tuning.study)},
    )
    target = trial_config_path(workload, folder.root)
    if target is not None:
        write_trial_config(workload, {**output.changes, **config_changes(spec.effects)}, target)
    return spec, output.notes


def read_trial(tuning: Tuning, spec: TrialSpec, outcome: TrialOutcome, folder: TrialPaths) -> TrialRecord:
    """Measured and diagnosed from the folder alone: what a crash left can be read the same way."""
    files = read_trial_files(folder)
    return judge(
        spec,
        outcome,
        Observed(
            roles=_roles(files),
            loaded=files.log.loaded,
            delivered=files.log.delivered,
            facts=files.log.facts,
            telemetry=files.telemetry,
            started_s=files.started_s,
        ),
        pythons=files.pythons,
        backwards=len(files.log.backwards),
        last_words=files.stderr_tail[-LAST_WORDS_CHARS:] or files.stdout_tail[-LAST_WORDS_CHARS:],
        window=tuning.experiment.window,
        planned=tuning.experiment.planned_run,
        price=tuning.experiment.price,
        machine=tuning.machine,
    )


def learn_roles(tuning: Tuning, proposal: Proposal, number: int) -> str | TrialRecord:
    """Which loader is the training's: learnt once by a short scout run without overrides, then remembered.

    A training that fails already there gives the record of a failed trial instead: its words are the answer.
    """
    known = tuning.study.paths.scout_result
    question = _scout_question(tuning.experiment)
    try:
        answer = json.loads(known.read_text(encoding="utf-8"))
        if answer["question"] == question:
            return str(answer["train_loader"])
    except (OSError, ValueError, KeyError):
        pass
    folder = tuning.study.paths.scout
    shutil.rmtree(folder.root, ignore_errors=True)
    folder.root.mkdir(parents=True)
    spec, _ = write_trial(tuning, replace(proposal, settings={}), number, None, folder)
    tuning.notify(TrialStarted(spec=replace(spec, reason="which loader feeds the steps"), scout=True))
    window = replace(tuning.experiment.window, steps=SCOUT_STEPS, max_steps=SCOUT_STEPS)
    outcome = run_trial(tuning.engine, spec, folder, replace(_watch(tuning, window), scout=True), tuning.notify)
    roles = _roles(read_trial_files(folder))
    if roles is not None and roles.train is not None:
        dump_json(known, {"question": question, "train_loader": roles.train.key, "where": roles.train.where})
        return roles.train.key
    record = read_trial(tuning, replace(spec, settings=proposal.settings), outcome, folder)
    if record.status is not TrialStatus.COMPLETED:
        return record
    unknown = "no loader was seen to feed the steps, so its options cannot be turned"
    return replace(record, status=TrialStatus.INVALID, detail=unknown)


def _compile_cache(study: Study) -> dict[str, str]:
    """Its default is inside TMPDIR, which is each trial's own: every trial would compile from the start."""
    name = "TORCHINDUCTOR_CACHE_DIR"
    return {} if name in os.environ else {name: str(study.paths.compile_cache.absolute())}


def _scout_question(experiment: Experiment) -> str:
    """The command, the scripts it names and the config: another of these may build other loaders."""
    digest = hashlib.sha256()
    for argument in experiment.workload.command:
        digest.update(argument.encode() + b"\0")
        path = Path(experiment.workload.cwd, argument)
        if path.suffix == ".py" and path.is_file():
            digest.update(path.read_bytes())
    digest.update(json.dumps(experiment.workload.config, default=str, sort_keys=True).encode())
    return digest.hexdigest()


def _names_in(folder: str) -> set[str]:
    try:
        return set(os.listdir(folder))
    except OSError:
        return set()


def _watch(tuning: Tuning, window: Window) -> Watch:
    ram = tuning.experiment.limits.ram
    return Watch(
        window=window,
        planned=tuning.experiment.planned_run,
        price=tuning.experiment.price,
        ram_limit_bytes=ram.resolve(tuning.machine.ram_bytes) if ram is not None else None,
    )


def _roles(files: TrialFiles) -> Roles | None:
    return find_roles(files.log.steps, files.log.delivered, files.log.facts)
