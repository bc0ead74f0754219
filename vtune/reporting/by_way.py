"""Settings by the way that each goes into the training: keys of its config, flags of its command, and what only its
own code can set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vtune.domain.effects import ConfigValue, Scalar
from vtune.domain.experiment import Experiment
from vtune.domain.knob import Knob
from vtune.errors import UsageError
from vtune.knobs.registry import knob_named
from vtune.knobs.ways import ThroughCommand, ThroughConfig, ThroughEnvironment, Way, way_of
from vtune.knobs.written import written_as


@dataclass(frozen=True, slots=True, kw_only=True)
class ByWay:
    keys: Mapping[tuple[str, ...], ConfigValue] = field(default_factory=dict)
    # With the settings that they carry.
    flags: Mapping[str, ThroughCommand] = field(default_factory=dict)
    flagged: Mapping[str, Scalar] = field(default_factory=dict)
    env: Mapping[str, Scalar] = field(default_factory=dict)
    # Arguments of the training's loader, by torch's names.
    options: Mapping[str, Scalar] = field(default_factory=dict)
    # Known to nobody but the training.
    others: Mapping[str, Scalar] = field(default_factory=dict)


def by_way(settings: Mapping[str, Scalar], experiment: Experiment | None) -> ByWay:
    """All of them have to be settings that vtune turns."""
    keys: dict[tuple[str, ...], ConfigValue] = {}
    flags: dict[str, ThroughCommand] = {}
    flagged: dict[str, Scalar] = {}
    env: dict[str, Scalar] = {}
    options: dict[str, Scalar] = {}
    others: dict[str, Scalar] = {}
    for name, value in settings.items():
        knob = knob_named(name, experiment.knobs if experiment is not None else ())
        match _way(knob, experiment):
            case ThroughConfig(path=path, raw=raw):
                keys[path] = written_as(knob, value, raw)
            case ThroughCommand() as way:
                flags[name], flagged[name] = way, value
            case ThroughEnvironment(name=variable):
                env[variable] = value
            case _ if knob.loader_option is not None:
                options[knob.loader_option] = value
            case _:
                others[name] = value
    return ByWay(keys=keys, flags=flags, flagged=flagged, env=env, options=options, others=others)


def _way(knob: Knob, experiment: Experiment | None) -> Way | None:
    try:
        return None if experiment is None else way_of(knob, experiment)
    except UsageError:
        return None
