"""What a trial gets before it starts: its spec, and its own copy of the training's config."""

from __future__ import annotations

import os
import uuid
from dataclasses import replace

from vtune.config.output import redirected_output, tracker_env
from vtune.config.trial_config import write_trial_config
from vtune.domain.effects import FindCeiling
from vtune.domain.experiment import Experiment
from vtune.domain.trial import Proposal, TrialSpec
from vtune.execution.protection import protect_trial
from vtune.journal.paths import StudyPaths, TrialPaths
from vtune.knobs.plan import changes_of, effects_of, gets_copy, plan_trial, trial_config_path


def prepare_trial(
    experiment: Experiment,
    study: StudyPaths,
    proposal: Proposal,
    *,
    number: int,
    train_loader: str | None,
    folder: TrialPaths,
    ceiling: FindCeiling | None = None,
) -> tuple[TrialSpec, tuple[str, ...]]:
    """The spec, and what the user must know: where the training's output goes instead."""
    place, workload = folder.root.absolute(), experiment.workload
    effects = effects_of(proposal.settings, experiment, train_loader)
    # Output keys of a config that is not copied stay what they are.
    output = redirected_output(workload if gets_copy(workload, effects) else replace(workload, config=None), place)
    for created in output.create:
        created.mkdir(parents=True, exist_ok=True)
    spec = plan_trial(
        proposal,
        experiment,
        number=number,
        train_loader=train_loader,
        folder=place,
        token=uuid.uuid4().hex,
        command=output.command,
        env={**tracker_env(place), **_compile_cache(study)},
        ceiling=ceiling,
    )
    protect_trial(experiment, study, folder)
    target = trial_config_path(workload, effects, folder.root)
    if target is not None:
        write_trial_config(workload, {**output.changes, **changes_of(effects).config}, target)
    return spec, output.notes


def _compile_cache(study: StudyPaths) -> dict[str, str]:
    """Its default is inside TMPDIR, which is each trial's own: every trial would compile from the start."""
    name = "TORCHINDUCTOR_CACHE_DIR"
    return {} if name in os.environ else {name: str(study.compile_cache.absolute())}
