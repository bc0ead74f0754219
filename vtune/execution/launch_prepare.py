"""What one attempt of a full run gets before it starts: its spec, and its copy of the config."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from vtune.config.launch_config import write_launch_config
from vtune.config.output import output_folders
from vtune.domain.effects import ConfigValue, Effect, Scalar, SetConfigKey
from vtune.domain.experiment import Experiment, Workload
from vtune.domain.trial import TrialSpec
from vtune.journal.paths import StudyPaths, TrialPaths
from vtune.knobs.plan import changes_of, effects_of, fill_placeholders, limits_of, trial_config_path, turned_command

Keys = Mapping[tuple[str, ...], ConfigValue]


def launch_spec(
    experiment: Experiment,
    settings: Mapping[str, Scalar],
    *,
    trial: int,
    folder: Path,
    train_loader: str | None,
    keys: Keys,
    resume: Sequence[str] = (),
    locks: Sequence[Path] = (),
) -> TrialSpec:
    """`keys`: of the training's config, beside those of the settings. Touches no disk."""
    workload = experiment.workload
    effects = _effects(experiment, settings, train_loader, keys)
    config = trial_config_path(workload, effects, folder)
    return TrialSpec(
        trial=trial,
        origin="launch",
        reason=f"the full run with the settings of trial {trial}",
        settings=dict(settings),
        effects=(*effects, *limits_of(experiment)),
        command=(*fill_placeholders(turned_command(workload, effects), config=config), *resume),
        cwd=str(workload.cwd),
        env={**workload.env, **changes_of(effects).env},
        token=uuid.uuid4().hex,
        outlives=True,
        locks=tuple(map(str, locks)),
    )


def config_of(
    experiment: Experiment, settings: Mapping[str, Scalar], folder: Path, train_loader: str | None, keys: Keys
) -> Path | None:
    return trial_config_path(experiment.workload, _effects(experiment, settings, train_loader, keys), folder)


def config_changes(
    experiment: Experiment, settings: Mapping[str, Scalar], train_loader: str | None, keys: Keys
) -> Keys:
    """What is written into the training's config."""
    return changes_of(_effects(experiment, settings, train_loader, keys)).config


def write_config(experiment: Experiment, spec: TrialSpec, folder: TrialPaths) -> None:
    target = trial_config_path(experiment.workload, spec.effects, folder.root)
    if target is not None:
        write_launch_config(experiment.workload, changes_of(spec.effects).config, target)


def locks_of(workload: Workload, study: StudyPaths) -> list[Path]:
    """One training a study, and one a folder that it writes to, whichever study or config names it."""
    folders = study.root.parent.absolute() / ".run-folders"
    names = (hashlib.sha256(str(folder).encode(errors="surrogateescape")).hexdigest() for folder in _outer(workload))
    return [study.launches_lock.absolute(), *(folders / f"{name[:16]}.lock" for name in names)]


def _outer(workload: Workload) -> list[Path]:
    """What lies inside another output folder is held with it."""
    found = output_folders(workload)
    return sorted(one for one in found if not any(one != other and one.is_relative_to(other) for other in found))


def _effects(
    experiment: Experiment, settings: Mapping[str, Scalar], train_loader: str | None, keys: Keys
) -> tuple[Effect, ...]:
    own = (SetConfigKey(path=path, value=value) for path, value in keys.items())
    return (*effects_of(settings, experiment, train_loader), *own)
