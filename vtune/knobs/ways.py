"""By which way a knob goes into this training: a key of its config, a flag of its command, or the hook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_never

from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment
from vtune.domain.knob import Knob
from vtune.errors import UsageError
from vtune.knobs.flags import Flag, UnclearFlag, find_flag
from vtune.knobs.keys import KeyPath, find_key, strange_value, value_at, value_of_key
from vtune.knobs.registry import knobs_of
from vtune.knobs.settings import parse_setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughConfig:
    path: KeyPath
    # None where the config leaves it to torch (null) or to the training ("auto").
    value: Scalar
    # The user named it in vtune.knobs.
    bound: bool
    # As it stands in the config, for whoever writes another one in the same manner.
    raw: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughCommand:
    flag: Flag


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughHook:
    """`because` is why not by a flag or a key that is there."""

    value: Scalar = None
    because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughEnvironment:
    """A variable, where neither the config nor the command says anything of the knob: they would overrule it."""

    name: str
    # As the experiment sets it; what the shell has is not looked at.
    value: Scalar = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoWay:
    because: str | None = None
    value: Scalar = None


Way = ThroughConfig | ThroughCommand | ThroughHook | ThroughEnvironment | NoWay


def way_of(knob: Knob, experiment: Experiment) -> Way:
    """The user's binding first; then the command, which overrides a config; then the config; then the hook, or the
    environment."""
    otherwise = ThroughHook if knob.loader_option is not None else NoWay
    path = find_key(knob, experiment)
    binding = experiment.binding_of(knob.name)
    bound = binding is not None and binding.key is not None
    flag = None if bound else find_flag(knob, experiment.workload.command)
    match flag:
        case Flag() if flag.typed in experiment.ignored_flags:
            return otherwise(because=f"{flag.typed} of the command did not reach the loader in an earlier trial")
        case Flag():
            return ThroughCommand(flag=flag)
        case UnclearFlag():
            # A key of the config would lose against it.
            return otherwise(value=flag.value, because=flag.why)
        case None:
            pass
        case _:
            assert_never(flag)
    if path is None:
        return otherwise() if knob.loader_option is not None else _without_key(knob, experiment)
    value = value_of_key(knob, experiment)
    raw = value_at(experiment.workload.config or {}, path)
    return ThroughConfig(path=path, value=value, bound=bound, raw=raw)


def _without_key(knob: Knob, experiment: Experiment) -> ThroughEnvironment | NoWay:
    strange = strange_value(knob, experiment)
    if strange is not None or knob.env is None:
        return NoWay(because=strange)
    text = experiment.workload.env.get(knob.env)
    try:
        return ThroughEnvironment(name=knob.env, value=None if text is None else parse_setting(knob, text))
    except UsageError:
        return ThroughEnvironment(name=knob.env)


def current_settings(experiment: Experiment) -> dict[str, Scalar]:
    """The knobs that the training's command or config names, with the values they have now."""
    knobs = knobs_of(experiment.knobs)
    return {knob.name: value for knob in knobs if (value := current_value(knob, experiment)) is not None}


def current_value(knob: Knob, experiment: Experiment) -> Scalar:
    way = way_of(knob, experiment)
    return way.flag.value if isinstance(way, ThroughCommand) else way.value
