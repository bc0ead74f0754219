"""What one attempt of a full run gets before it starts: its spec, and its copy of the config."""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vtune.config.launch_config import write_launch_config
from vtune.config.output import output_folders
from vtune.domain.effects import ConfigValue, Effect, Scalar, SetConfigKey
from vtune.domain.experiment import Experiment, Workload
from vtune.domain.trial import TrialSpec
from vtune.files import write_atomically
from vtune.journal.paths import LaunchPaths, StudyPaths
from vtune.knobs.plan import changes_of, effects_of, fill_placeholders, limits_of, trial_config_path, turned_command

Keys = Mapping[tuple[str, ...], ConfigValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAttempt:
    spec: TrialSpec
    # The copy of the training's config that it gets; None where its command names its own and no key of it is changed.
    config: Path | None


def plan_attempt(
    experiment: Experiment,
    settings: Mapping[str, Scalar],
    *,
    trial: int,
    folder: Path,
    train_loader: str | None,
    keys: Keys,
    resume: Sequence[str] = (),
    locks: Sequence[Path] = (),
) -> PlannedAttempt:
    """`keys`: of the training's config, beside those of the settings. Touches no disk."""
    workload = experiment.workload
    effects = _effects(experiment, settings, train_loader, keys)
    config = trial_config_path(workload, effects, folder)
    spec = TrialSpec(
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
    return PlannedAttempt(spec=spec, config=config)


def write_config(experiment: Experiment, attempt: PlannedAttempt) -> None:
    if attempt.config is not None:
        write_launch_config(experiment.workload, changes_of(attempt.spec.effects).config, attempt.config)


def locks_of(workload: Workload, study: StudyPaths) -> list[Path]:
    """One training a study, and one a folder that it writes to, whichever study, config or results folder names it."""
    folders = _where_all_meet() or study.root.parent.absolute() / ".run-folders"
    return [study.launches_lock.absolute(), *(folders / f"{name}.lock" for name in _names(workload))]


def note_launch(workload: Workload, launch: LaunchPaths) -> None:
    """Beside the locks: whose run writes to these folders last. Other results folders know nothing of it."""
    for note in _notes(workload):
        with contextlib.suppress(OSError):
            write_atomically(note, f"{launch.root.absolute()}\n")


def last_launches(workload: Workload) -> list[LaunchPaths]:
    """In whichever results folder, as far as they are still there."""
    found = []
    for note in _notes(workload):
        with contextlib.suppress(OSError, UnicodeError):
            found.append(LaunchPaths(Path(note.read_text(encoding="utf-8").rstrip("\n"))))
    return [one for one in found if os.path.isfile(one.launch)]


def _notes(workload: Workload) -> list[Path]:
    folders = _where_all_meet()
    return [] if folders is None else [folders / f"{name}.launch" for name in _names(workload)]


def _names(workload: Workload) -> list[str]:
    """Of the folders that it writes to."""
    return [
        hashlib.sha256(str(folder).encode(errors="surrogateescape")).hexdigest()[:16] for folder in _outer(workload)
    ]


def _where_all_meet() -> Path | None:
    """One folder for all results folders of an account; None where it has none to write to, as in some containers."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    if not cache.is_absolute():
        return None
    folders = cache / "vtune" / "run-folders"
    nearest = next(one for one in (folders, *folders.parents) if os.path.exists(one))
    return folders if os.path.isdir(nearest) and os.access(nearest, os.W_OK | os.X_OK) else None


def _outer(workload: Workload) -> list[Path]:
    """What lies inside another output folder is held with it."""
    found = output_folders(workload)
    return sorted(one for one in found if not any(one != other and one.is_relative_to(other) for other in found))


def _effects(
    experiment: Experiment, settings: Mapping[str, Scalar], train_loader: str | None, keys: Keys
) -> tuple[Effect, ...]:
    own = (SetConfigKey(path=path, value=value) for path, value in keys.items())
    return (*effects_of(settings, experiment, train_loader), *own)
