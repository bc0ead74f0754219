"""Settings → effects → a trial that can be started. Nothing here touches a disk or a process."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from vtune.domain.effects import Effect, Scalar, SetConfigKey, SetDataLoaderOption, SetEnv
from vtune.domain.experiment import Experiment, Workload
from vtune.domain.knob import Knob
from vtune.domain.trial import Proposal, TrialSpec
from vtune.errors import UsageError
from vtune.knobs.keys import current_settings, find_key
from vtune.knobs.registry import knob_named
from vtune.knobs.settings import check_settings, check_value

YAML_SUFFIX = ".yaml"


def needs_scout(settings: Mapping[str, Scalar], experiment: Experiment) -> bool:
    """Whether some setting goes through the hook, which must know which loader is the training's."""
    return any(find_key(knob_named(name), experiment) is None for name in settings)


def effects_of(settings: Mapping[str, Scalar], experiment: Experiment, train_loader: str | None) -> tuple[Effect, ...]:
    check_settings(settings, workers_now=current_settings(experiment).get("workers"))
    return tuple(_effect(knob_named(name), value, experiment, train_loader) for name, value in settings.items())


def check_reachable(knob: Knob, experiment: Experiment) -> None:
    """Refuses what has no way into this training, before anything is started."""
    if knob.loader_option is None and find_key(knob, experiment) is None:
        raise UsageError(
            f"{knob.name} can only be set through the training's config, and no key of it is known to be {knob.name}",
            hint=f"name it in vtune.knobs.{knob.name}.key; looked for {', '.join(knob.config_keys[:4])}, ...",
        )


def batch_factor(settings: Mapping[str, Scalar], experiment: Experiment, batch_size_before: int | None = None) -> float:
    """How much larger these settings make the effective batch. `batch_size_before` is what the script itself asked for,
    where no config names it."""
    now = current_settings(experiment)
    factor = 1.0
    for name, before in (
        ("batch_size", now.get("batch_size", batch_size_before)),
        ("accumulate_steps", now.get("accumulate_steps")),
    ):
        asked = settings.get(name)
        if isinstance(asked, int) and isinstance(before, int) and before > 0:
            factor *= asked / before
    return factor


def config_changes(effects: Iterable[Effect]) -> dict[tuple[str, ...], Scalar]:
    return {effect.path: effect.value for effect in effects if isinstance(effect, SetConfigKey)}


def trial_config_path(workload: Workload, folder: Path) -> Path | None:
    """Where the trial's copy of the config goes; its ending stays, because trainings choose their reader by it."""
    if workload.config is None:
        return None
    suffix = workload.config_path.suffix if workload.config_path is not None else ""
    return folder / f"config{suffix or YAML_SUFFIX}"


def plan_trial(
    proposal: Proposal,
    experiment: Experiment,
    *,
    number: int,
    train_loader: str | None,
    folder: Path,
    token: str,
    command: Sequence[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> TrialSpec:
    """`command` replaces the workload's where its program or its output flags were resolved; `env` (trackers off)
    yields to what the user set."""
    workload = experiment.workload
    effects = effects_of(proposal.settings, experiment, train_loader)
    set_by_effects = {effect.name: effect.value for effect in effects if isinstance(effect, SetEnv)}
    config = trial_config_path(workload, folder)
    return TrialSpec(
        trial=number,
        origin=proposal.origin,
        reason=proposal.reason,
        settings=dict(proposal.settings),
        effects=effects,
        command=fill_placeholders(workload.command if command is None else command, config=config),
        cwd=str(workload.cwd),
        env={**(env or {}), **workload.env, **set_by_effects},
        token=token,
    )


def fill_placeholders(command: Sequence[str], *, config: Path | None, python: str | None = None) -> tuple[str, ...]:
    """By plain replacement: other braces in a command are the training's own."""
    filled = [argument.replace("{python}", python or sys.executable) for argument in command]
    if config is not None:
        filled = [argument.replace("{config}", str(config.absolute())) for argument in filled]
    return tuple(filled)


def _effect(knob: Knob, value: Scalar, experiment: Experiment, train_loader: str | None) -> Effect:
    value = check_value(knob, value)
    path = find_key(knob, experiment)
    if path is not None:
        return SetConfigKey(path=path, value=value)
    check_reachable(knob, experiment)
    if knob.loader_option is None or train_loader is None:
        raise UsageError(
            f"{knob.name} cannot be set: no config key is known to be {knob.name}, and which loader is the training's "
            "could not be learnt",
            hint=f"name the key in vtune.knobs.{knob.name}.key, or set {knob.name} in the training itself",
        )
    return SetDataLoaderOption(loader=train_loader, option=knob.loader_option, value=value)
