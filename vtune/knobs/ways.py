"""By which way a knob goes into this training: a key of its config, a flag of its command, or the hook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment
from vtune.domain.knob import Knob
from vtune.knobs.flags import Flag, UnclearFlag, find_flag
from vtune.knobs.keys import KeyPath, find_key, value_of_key
from vtune.knobs.registry import KNOBS


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughConfig:
    path: KeyPath
    # None where the config leaves it to torch (null) or to the training ("auto").
    value: Scalar
    # The user named it in vtune.knobs.
    bound: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughCommand:
    flag: Flag


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughHook:
    """`because` is why not by a flag or a key that is there."""

    value: Scalar = None
    because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoWay:
    because: str | None = None
    value: Scalar = None


Way = ThroughConfig | ThroughCommand | ThroughHook | NoWay


def way_of(knob: Knob, experiment: Experiment) -> Way:
    """The user's binding first; then the command, which overrides a config; then the config; then the hook."""
    otherwise = ThroughHook if knob.loader_option is not None else NoWay
    path = find_key(knob, experiment)
    bound = any(binding.name == knob.name and binding.key is not None for binding in experiment.knobs)
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
        return otherwise()
    value, file = value_of_key(knob, experiment), experiment.workload.config_path
    if file is not None and file.suffix.lower() == ".toml":
        return otherwise(
            value=value, because=f"its key {'.'.join(path)} is in {file.name}, and vtune cannot write TOML yet"
        )
    return ThroughConfig(path=path, value=value, bound=bound)


def current_settings(experiment: Experiment) -> dict[str, Scalar]:
    """The knobs that the training's command or config names, with the values they have now."""
    settings: dict[str, Scalar] = {}
    for knob in KNOBS:
        way = way_of(knob, experiment)
        value = way.flag.value if isinstance(way, ThroughCommand) else way.value
        if value is not None:
            settings[knob.name] = value
    return settings
