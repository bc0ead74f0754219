"""Each knob: what it does to the mathematics, its values on this machine, and the way it takes into this training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal, assert_never

from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment, Workload
from vtune.domain.knob import Knob, TrainLoader
from vtune.domain.machine import Machine
from vtune.knobs.batch import ACCUMULATE_STEPS, BATCH_SIZE
from vtune.knobs.registry import knobs_of
from vtune.knobs.values import values_of
from vtune.knobs.ways import (
    NoWay,
    ThroughCommand,
    ThroughConfig,
    ThroughEnvironment,
    ThroughHook,
    current_settings,
    way_of,
)

# As many as fit on a line beside the words around them.
KEYS_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobWay:
    """The way into one training, or why there is none. Field names are those of `vtune knobs --json`."""

    way: Literal["config_key", "flag", "hook", "environment"] | None
    # The key, the flag, the variable, or file:line of the loader as far as it is known.
    through: str | None = None
    # In a sentence.
    how: str | None = None
    why_not: str | None = None
    current: Scalar = None
    # The key, the flag, the variable or the loader that the current value was read from.
    current_from: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobView:
    knob: Knob
    values: tuple[Scalar, ...]
    # Why there are none, or that they are the user's own.
    values_note: str | None
    # None without a workload.
    way: KnobWay | None


def describe_all(
    machine: Machine, experiment: Experiment | None, loader: TrainLoader | None = None
) -> tuple[KnobView, ...]:
    """`loader` is what a scout run has learnt; without it, what neither a key nor a flag names has no known value."""
    knobs = knobs_of(experiment.knobs if experiment is not None else ())
    named = current_settings(experiment) if experiment is not None else {}
    return tuple(describe(knob, machine, experiment, loader, named=named) for knob in knobs)


def describe(
    knob: Knob,
    machine: Machine,
    experiment: Experiment | None,
    loader: TrainLoader | None = None,
    *,
    named: Mapping[str, Scalar] | None = None,
) -> KnobView:
    """`named`: the experiment's current settings, where they have been worked out already."""
    now = loader.settings if loader is not None else None
    values = values_of(knob, machine, experiment, now=now, named=named)
    return KnobView(
        knob=knob,
        values=values,
        values_note=_values_note(knob, experiment, values),
        way=_way(knob, experiment, loader) if experiment is not None else None,
    )


def _values_note(knob: Knob, experiment: Experiment | None, values: tuple[Scalar, ...]) -> str | None:
    binding = experiment.binding_of(knob.name) if experiment is not None else None
    if binding is not None and binding.values:
        return f"from vtune.knobs.{knob.name}.values"
    if values:
        return None
    if knob is ACCUMULATE_STEPS:
        return "what keeps the effective batch, which is not known yet"
    if knob is BATCH_SIZE:
        return "halves and doubles of the current value, which is not known yet"
    return "by the current value, which is not known"


def _way(knob: Knob, experiment: Experiment, loader: TrainLoader | None) -> KnobWay:
    match way := way_of(knob, experiment):
        case ThroughConfig():
            key, file = ".".join(way.path), experiment.workload.config_path
            of_file = f" of {file.name}" if file is not None else ""
            return KnobWay(
                way="config_key",
                through=key,
                how=f"config key {key}{of_file}" + (", as vtune.knobs says" if way.bound else ""),
                current=way.value,
                current_from=key if way.value is not None else None,
            )
        case ThroughCommand():
            flag = way.flag
            return KnobWay(
                way="flag",
                through=flag.typed,
                how=f"{flag.typed} of the command",
                current=flag.value,
                current_from=flag.typed,
            )
        case ThroughHook():
            return _inside(knob, way, experiment.workload, loader)
        case ThroughEnvironment():
            return KnobWay(
                way="environment",
                through=way.name,
                how=f"{way.name} in the environment, which a script may overrule",
                current=way.value,
                current_from=way.name if way.value is not None else None,
            )
        case NoWay():
            looked = ", ".join(knob.config_keys[:KEYS_SHOWN])
            return KnobWay(
                way=None,
                why_not=(
                    (way.because or f"no key of its config and no flag of its command is known to be {knob.name}")
                    + f" (looked for {looked}, ...); name the key in vtune.knobs.{knob.name}.key of an experiment file"
                ),
                current=way.value,
            )
        case _:
            assert_never(way)


def _inside(knob: Knob, way: ThroughHook, workload: Workload, loader: TrainLoader | None) -> KnobWay:
    where = _from_cwd(loader.where, workload) if loader is not None else None
    how = (
        f"from inside, in the loader made at {where}"
        if where
        else "from inside the loader, learnt by a scout run first"
    )
    current = way.value
    if current is None and loader is not None:
        current = loader.settings.get(knob.name)
    return KnobWay(
        way="hook",
        through=where,
        how=how + (f"; {way.because}" if way.because else ""),
        current=current,
        current_from=("the command" if way.value is not None else where) if current is not None else None,
    )


def _from_cwd(where: str, workload: Workload) -> str:
    """As short as the user would write it."""
    place = PurePath(where)
    return str(place.relative_to(workload.cwd)) if place.is_relative_to(workload.cwd) else where
