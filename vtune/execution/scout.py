"""Which loader feeds the steps: learnt once by a short run without overrides, then remembered."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vtune.analysis.consumed import with_consumed
from vtune.analysis.observed import Observed
from vtune.analysis.roles import find_roles, settings_in_common
from vtune.domain.effects import SetDataLoaderOption
from vtune.domain.events import Fact
from vtune.domain.experiment import Experiment
from vtune.domain.knob import TrainLoader
from vtune.domain.progress import TrialStarted, TuningEvent
from vtune.domain.record import Measurement, TrialRecord
from vtune.domain.trial import Proposal, TrialOutcome, TrialSpec
from vtune.errors import StorageError
from vtune.execution.engines.engine import Engine
from vtune.execution.observer import Watch
from vtune.execution.prepare import prepare_trial
from vtune.execution.sweep import sweep_if_stale
from vtune.files import PRIVATE_FOLDER
from vtune.foreign.read import read_json
from vtune.journal.code import changed_code
from vtune.journal.file_facts import files_not_restored
from vtune.journal.files import dump_json
from vtune.journal.fingerprint import fingerprint_of
from vtune.journal.paths import StudyPaths, TrialPaths
from vtune.journal.step_log import StepLog

# Enough windows between steps for co-occurrence to tell the training's loader from a validation that runs first.
SCOUT_STEPS = 5
TURNED = SetDataLoaderOption.__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoutFailed:
    """The training ended before it told: its end is the answer, as that of the trial it was to serve."""

    spec: TrialSpec
    outcome: TrialOutcome


def known_loader(experiment: Experiment, study: StudyPaths) -> TrainLoader | None:
    """As far as the command, the scripts it names and the config are still those that were asked."""
    try:
        answer: Mapping[str, Any] = read_json(study.scout_result)
        if answer["question"] != fingerprint_of(experiment):
            return None
        return TrainLoader(key=answer["train_loader"], where=answer["where"], settings=dict(answer["settings"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def loader_of(record: TrialRecord, study: StudyPaths) -> TrainLoader | None:
    """The one that a trial turned: as long as the code is what it ran, whatever was written into the config since, as
    by `vtune apply`."""
    if changed_code(record, {}):
        return None
    try:
        told = read_json(study.trial(record.trial).spec)
        [key] = {str(effect["loader"]) for effect in told["effects"] if effect["kind"] == TURNED}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return TrainLoader(key=key, where="", settings={})


def forget_loader(study: StudyPaths) -> None:
    study.scout_result.unlink(missing_ok=True)


def learn_loader(
    experiment: Experiment,
    study: StudyPaths,
    proposal: Proposal,
    number: int,
    engine: Engine,
    watch: Watch,
    notify: Callable[[TuningEvent], None],
) -> TrainLoader | ScoutFailed:
    folder = study.scout
    sweep_if_stale(folder.root)
    _check_put_back(folder)
    shutil.rmtree(folder.root, ignore_errors=True)
    folder.root.mkdir(PRIVATE_FOLDER, parents=True)
    plain = replace(proposal, settings={})
    spec, _ = prepare_trial(experiment, study, plain, number=number, train_loader=None, folder=folder)
    notify(TrialStarted(spec=replace(spec, reason="which loader feeds the steps"), scout=True))
    window = replace(watch.window, steps=SCOUT_STEPS, max_steps=SCOUT_STEPS)
    outcome = engine.run(spec, folder, replace(watch, window=window, scout=True), notify)
    _check_put_back(folder)
    # Over its RAM limit, too: with fewer workers it may have room, and which loader has them was seen.
    if outcome.ended_by in ("window", "itself", "limit"):
        log = StepLog(folder)
        while log.refresh():
            pass
        loader, own = _train_loader(log), _consumed(log)
        if loader is not None:
            told = {"train_loader": loader.key, "where": loader.where, "settings": loader.settings}
            used = {"consumed": own.consumed, "effective_batch": own.effective_batch}
            dump_json(study.scout_result, {"question": fingerprint_of(experiment), **told, **used})
            return loader
    return ScoutFailed(spec=replace(spec, settings=proposal.settings), outcome=outcome)


def _check_put_back(folder: TrialPaths) -> None:
    """A scout's folder makes room for the next one, and no record tells of it."""
    failed = files_not_restored(folder)
    if failed:
        path, reason = next(iter(failed.items()))
        raise StorageError(
            f"{path} could not be put back after a trial ({reason}): its old state is in {folder.root / 'kept'}",
            hint=f"copy back what {folder.not_restored} lists, then remove {folder.root}",
        )


def keep_as_trial(study: StudyPaths, number: int) -> TrialPaths:
    """A scout run that failed is the evidence of its trial."""
    folder = study.trial(number)
    study.scout.root.rename(folder.root)
    return folder


def _train_loader(log: StepLog) -> TrainLoader | None:
    roles = find_roles(log.steps, log.delivered, log.facts)
    if roles is None:
        return _only_loader(log.facts)
    if roles.train is None:
        return None
    return TrainLoader(key=roles.train.key, where=roles.train.where, settings=roles.settings)


def _consumed(log: StepLog) -> Measurement:
    observed = Observed(
        roles=find_roles(log.steps, log.delivered, log.facts),
        loaded=log.loaded,
        delivered=log.delivered,
        steps=log.steps,
        backwards=log.backwards,
        facts=log.facts,
        telemetry=(),
        started_s=None,
    )
    return with_consumed(Measurement(), observed)


def _only_loader(facts: Sequence[Fact]) -> TrainLoader | None:
    """Before its first step a training with one loader has told which it is."""
    told = {str(fact.data.get("key")): str(fact.data.get("where") or "") for fact in facts if fact.name == "loader"}
    if len(told) != 1:
        return None
    [(key, where)] = told.items()
    return TrainLoader(key=key, where=where, settings=dict(settings_in_common(facts)))
