"""Whether a launch now would run what a recorded trial ran. A study's command is the last one that was probed in it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from vtune.config.output import redirected_output, tracker_env
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment
from vtune.domain.trial import Proposal
from vtune.errors import UsageError
from vtune.journal.paths import StudyPaths
from vtune.journal.ran import Ran, ran, read_ran
from vtune.knobs.plan import effects_of, gets_copy, plan_trial

# Stands for the loader that a launch would learn; it is not in the command.
ANY_LOADER = "any"
# Vtune's own, set for each trial where the user did not set it.
OWN_ENV = frozenset((*tracker_env(Path("/")), "TORCHINDUCTOR_CACHE_DIR"))


def changed_since(
    trial: int, settings: Mapping[str, Scalar], experiment: Experiment, study: StudyPaths
) -> UsageError | None:
    """Why a race cannot stand for this trial, which turned these settings; None also where its folder is gone and
    nobody knows what it ran."""
    then = read_ran(study.trial(trial))
    if then is None:
        return None
    now = _planned(trial, settings, experiment, study)
    # A flag that the study has learnt to leave alone since was turned then.
    untaught = replace(experiment, ignored_flags=frozenset())
    if _same(then, now) or _same(then, _planned(trial, settings, untaught, study)):
        return None
    before, after = (_told(one, other) for one, other in ((then, now), (now, then)))
    return UsageError(
        f"trial {trial} ran another command than study {study.root.name} has now: a race would launch something else",
        hint=f"trial {trial} ran {before}; now it would be {after}. Probe each in a study of its own and compare the"
        " two without --race, or probe both anew with one command and --set",
    )


def _planned(trial: int, settings: Mapping[str, Scalar], experiment: Experiment, study: StudyPaths) -> Ran:
    place, workload = study.trial(trial).root.absolute(), experiment.workload
    effects = effects_of(settings, experiment, ANY_LOADER)
    output = redirected_output(workload if gets_copy(workload, effects) else replace(workload, config=None), place)
    spec = plan_trial(
        Proposal(settings=settings, reason="", origin="confirm"),
        experiment,
        number=trial,
        train_loader=ANY_LOADER,
        folder=place,
        token="",
        command=output.command,
    )
    return ran(spec.command, spec.cwd, spec.env, trial=place.name)


def _same(then: Ran, now: Ran) -> bool:
    return (then.command, then.cwd, _own(then)) == (now.command, now.cwd, _own(now))


def _own(one: Ran) -> dict[str, str]:
    return {name: value for name, value in one.env.items() if name not in OWN_ENV}


def _told(one: Ran, other: Ran) -> str:
    """What differs from the other, as it would be typed."""
    env = [f"{name}={value}" for name, value in sorted(_own(one).items()) if _own(other).get(name) != value]
    where = f" in {one.cwd}" if one.cwd != other.cwd else ""
    return f"`{shlex.join([*env, *one.command])}`{where}"
