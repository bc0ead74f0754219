"""Settings → effects → a trial that can be started. Nothing here touches a disk or a process."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import assert_never

from vtune.domain.effects import (
    ConfigValue,
    Effect,
    FindCeiling,
    LimitVram,
    Scalar,
    SetArgument,
    SetConfigKey,
    SetDataLoaderOption,
    SetEnv,
)
from vtune.domain.experiment import Experiment, Workload
from vtune.domain.knob import Knob
from vtune.domain.trial import Proposal, TrialSpec
from vtune.errors import UsageError
from vtune.knobs.flags import word_with
from vtune.knobs.loader import WORKERS
from vtune.knobs.registry import knob_named
from vtune.knobs.settings import check_settings, check_value
from vtune.knobs.ways import (
    NoWay,
    ThroughCommand,
    ThroughConfig,
    ThroughEnvironment,
    ThroughHook,
    current_settings,
    current_value,
    way_of,
)
from vtune.knobs.written import written_as

YAML_SUFFIX = ".yaml"


def needs_scout(settings: Mapping[str, Scalar], experiment: Experiment) -> bool:
    """Whether some setting goes through the hook, which must know which loader is the training's."""
    return any(isinstance(way_of(knob_named(name, experiment.knobs), experiment), ThroughHook) for name in settings)


def effects_of(settings: Mapping[str, Scalar], experiment: Experiment, train_loader: str | None) -> tuple[Effect, ...]:
    check_settings(settings, workers_now=current_value(WORKERS, experiment))
    return tuple(
        _effect(knob_named(name, experiment.knobs), value, experiment, train_loader) for name, value in settings.items()
    )


def limits_of(experiment: Experiment) -> tuple[LimitVram, ...]:
    """Held inside of the training; that of RAM is held from outside."""
    limit = experiment.limits.vram
    return () if limit is None else (LimitVram(bytes=limit.bytes, fraction=limit.fraction),)


def check_reachable(knob: Knob, experiment: Experiment) -> None:
    """Refuses what has no way into this training, before anything is started."""
    way = way_of(knob, experiment)
    if isinstance(way, NoWay):
        raise UsageError(
            f"{knob.name} can only be set through the training's config or command, and "
            + (way.because or f"nothing there is known to be {knob.name}"),
            hint=f"name its key in vtune.knobs.{knob.name}.key; looked for {', '.join(knob.config_keys[:4])}, ...",
        )


def batch_factor(settings: Mapping[str, Scalar], experiment: Experiment, batch_size_before: int | None = None) -> float:
    """How much larger these settings make the effective batch. `batch_size_before` is what the script itself asked for,
    where neither its config nor its command names it."""
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


@dataclass(frozen=True, slots=True)
class Changes:
    """What effects ask of the parent before the start, each in its place."""

    config: dict[tuple[str, ...], ConfigValue] = field(default_factory=dict)
    # Position in the command → the new word.
    command: dict[int, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)


def changes_of(effects: Iterable[Effect]) -> Changes:
    changes = Changes()
    for effect in effects:
        match effect:
            case SetConfigKey():
                changes.config[effect.path] = effect.value
            case SetArgument():
                changes.command[effect.position] = effect.word
            case SetEnv():
                changes.env[effect.name] = effect.value
            case SetDataLoaderOption() | FindCeiling() | LimitVram():
                pass  # the worker's, inside the training
            case _:
                assert_never(effect)
    return changes


def turned_command(workload: Workload, effects: Sequence[Effect], command: Sequence[str] | None = None) -> list[str]:
    """With the flags that are turned, and `{config}` wherever the trial's copy goes. `command` replaces the workload's,
    word by word, where its program or its output flags were resolved."""
    words = list(workload.command if command is None else command)
    for position, word in changes_of(effects).command.items():
        words[position] = word
    named = workload.config_word
    if named is not None and gets_copy(workload, effects):
        words[named.position] = f"{named.prefix}{{config}}"
    return words


def gets_copy(workload: Workload, effects: Iterable[Effect]) -> bool:
    """A command that names its config itself runs as it is unless a key of that config is changed."""
    if workload.config is None:
        return False
    return workload.config_word is None or bool(changes_of(effects).config)


def trial_config_path(workload: Workload, effects: Iterable[Effect], folder: Path) -> Path | None:
    """Where the trial's copy of the config goes; its ending stays, because trainings choose their reader by it."""
    if not gets_copy(workload, effects):
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
    ceiling: FindCeiling | None = None,
) -> TrialSpec:
    """`command` as for turned_command; `env` (trackers off) yields to what the user set. `ceiling` is no setting."""
    workload = experiment.workload
    effects = effects_of(proposal.settings, experiment, train_loader)
    turned = turned_command(workload, effects, command)
    config = trial_config_path(workload, effects, folder)
    return TrialSpec(
        trial=number,
        origin=proposal.origin,
        reason=proposal.reason,
        settings=dict(proposal.settings),
        effects=(*effects, *([ceiling] if ceiling is not None else []), *limits_of(experiment)),
        command=fill_placeholders(turned, config=config),
        cwd=str(workload.cwd),
        env={**(env or {}), **workload.env, **changes_of(effects).env},
        token=token,
        race=proposal.race,
        predicted=proposal.predicted,
        beat=proposal.beat,
    )


def fill_placeholders(command: Sequence[str], *, config: Path | None, python: str | None = None) -> tuple[str, ...]:
    """By plain replacement: other braces in a command are the training's own."""
    filled = [argument.replace("{python}", python or sys.executable) for argument in command]
    if config is not None:
        filled = [argument.replace("{config}", str(config.absolute())) for argument in filled]
    return tuple(filled)


def _effect(knob: Knob, value: Scalar, experiment: Experiment, train_loader: str | None) -> Effect:
    value = check_value(knob, value)
    match way := way_of(knob, experiment):
        case ThroughConfig():
            return SetConfigKey(path=way.path, value=written_as(knob, value, way.raw))
        case ThroughCommand():
            flag = way.flag
            return SetArgument(
                argument=flag.typed, position=flag.position, word=word_with(flag, knob, value), value=value
            )
        case ThroughEnvironment():
            return SetEnv(name=way.name, value=str(value))
        case ThroughHook() | NoWay():
            check_reachable(knob, experiment)
            return _hooked(knob, value, train_loader)
        case _:
            assert_never(way)


def _hooked(knob: Knob, value: Scalar, train_loader: str | None) -> Effect:
    if knob.loader_option is None or train_loader is None:
        raise UsageError(
            f"{knob.name} cannot be set: no config key and no flag is known to be {knob.name}, and which "
            "loader is the training's could not be learnt",
            hint=f"name the key in vtune.knobs.{knob.name}.key, or set {knob.name} in the training itself",
        )
    return SetDataLoaderOption(loader=train_loader, option=knob.loader_option, value=value)
