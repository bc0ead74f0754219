"""Names in `vtune.knobs` that vtune does not know: knobs of the user's own, or misspellings. Private to config."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vtune.config.document import Document
from vtune.config.problems import Problem
from vtune.config.quantities import parse_allow
from vtune.config.trial_config import SECTION
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment, KnobBinding
from vtune.knobs.keys import KeyPath, find_key
from vtune.knobs.own import kind_of
from vtune.knobs.registry import KNOB_NAMES, KNOBS, SURELY_MEANT, knob_named, meant_by
from vtune.knobs.settings import AS_YAML_HAS_IT, shown
from vtune.knobs.spelling import LIKENESS
from vtune.knobs.ways import NoWay, ThroughCommand, ThroughConfig, Way, way_of

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_FLAG = re.compile(r"-{1,2}[A-Za-z][\w.-]*|[A-Za-z_][\w.]*")
_WORDS = {"int": "a number", "float": "a number", "bool": "true or false", "text": "a word"}
_KNOWN = f"known knobs: {', '.join(KNOB_NAMES)}"
_HOW = (
    "a knob of your own has a key of the training's config, or a flag of its command, and its values:\n"
    "flip: {key: path.in.config, values: [0.1, 0.5]}"
)


@dataclass(slots=True)
class OwnKnobs:
    bindings: dict[str, KnobBinding] = field(default_factory=dict)
    # Names that something is wrong with: what names them elsewhere cannot be judged.
    wrong: set[str] = field(default_factory=set)

    @property
    def known(self) -> tuple[KnobBinding, ...]:
        return tuple(self.bindings.values())


def read_own_knobs(document: Document, entries: object, problems: list[Problem]) -> OwnKnobs:
    """From the raw values, so that they are found even where another part was refused. What pydantic says of an entry
    is not said again."""
    found = OwnKnobs()
    for raw, entry in entries.items() if isinstance(entries, Mapping) else ():
        name = str(raw)
        if name in KNOB_NAMES:
            continue
        said, binding = list[Problem](), None
        parts = entry.items() if isinstance(entry, Mapping) else ()
        given = {key: value for key, value in parts if value is not None and value != []}
        wrong = _name_problem(document, name, given)
        if wrong is not None:
            said.append(wrong)
        else:
            binding = _binding(document, name, given, said)
        problems += said
        if binding is not None and not said:
            found.bindings[name] = binding
        else:
            found.wrong.add(name)
    return found


def _name_problem(document: Document, name: str, given: Mapping[str, Any]) -> Problem | None:
    missing = [] if "key" in given or "flag" in given else ["no key or flag"]
    missing += [] if "values" in given else ["no values"]
    meant = meant_by(name, likeness=LIKENESS if missing else SURELY_MEANT)
    hint = _HOW
    if meant is not None:
        message = f'unknown knob "{name}"; did you mean "{meant}"?'
        hint = f"{_KNOWN}\n{_HOW if missing else f'a knob of your own needs a name that is less like {meant}'}"
    elif _NAME.fullmatch(name) is None:
        message = f'a knob of your own is named in a-z, 0-9 and _, got "{name}"'
    elif missing:
        are = "are" if missing[-1] == "no values" else "is"
        message = f'unknown knob "{name}", and {" and ".join(missing)} {are} named'
    else:
        return None
    where = document.where([SECTION, "knobs", name], at_key=True)
    return Problem(where=where, message=f"vtune.knobs: {message}", hint=hint)


def _binding(document: Document, name: str, given: Mapping[str, Any], problems: list[Problem]) -> KnobBinding | None:
    """None where pydantic has said why."""

    def say(at: Sequence[str | int], message: str, hint: str = _HOW) -> None:
        where = document.where([SECTION, "knobs", name, *at])
        problems.append(Problem(where=where, message=f"vtune.knobs: {name} {message}", hint=hint))

    key, flag, values, numerics = (given.get(part) for part in ("key", "flag", "values", "numerics"))
    if not all(isinstance(part, str | None) for part in (key, flag)) or "" in (key, flag):
        return None
    if key is not None and flag is not None:
        say(["flag"], "has a key and a flag", "it goes into the training in one way: name one of the two")
    elif flag is not None and _FLAG.fullmatch(flag) is None:
        say(["flag"], f"must have a flag like --name, as the command has it, got {shown(flag)}")
    if not isinstance(values, list):
        return None
    if len(values) < 2:
        say(["values"], f"needs two values or more, got {shown(values)}")
    for at, message, hint in _wrong_values(values):
        say(["values", at], message, hint)
    try:
        known = None if numerics is None else parse_allow(numerics)
    except ValueError:
        return None
    return KnobBinding(
        name=name,
        key=None if key is None else tuple(key.split(".")),
        values=_of_one_type(values),
        flag=flag,
        numerics=known,
    )


def _wrong_values(values: Sequence[Any]) -> Iterator[tuple[int, str, str]]:
    first = kind_of(values[:1])
    if first is None:
        yield 0, f"must be numbers, words or true and false, got {shown(values[0])}", _HOW
        return
    for at, value in enumerate(values):
        if kind_of([values[0], value]) is None:
            hint = "values of a knob are of one type"
            if first != "bool" and "text" in (first, kind_of([value])):
                hint += f"; {AS_YAML_HAS_IT}"
            yield at, f"must be {_WORDS[first]} as its first value is, got {shown(value)}", hint
        elif value in values[:at]:
            yield at, f"has the value {shown(value)} twice", "name each value once"


def _of_one_type(values: Sequence[Any]) -> tuple[Scalar, ...]:
    return tuple(float(value) for value in values) if kind_of(values) == "float" else tuple(values)


def check_own_ways(experiment: Experiment, document: Document, problems: list[Problem]) -> None:
    """Each has a way of its own into the training: two knobs of one key would overrule each other."""
    taken: dict[KeyPath | int | None, str] = {}
    for knob in KNOBS:
        way = way_of(knob, experiment)
        taken.update(dict.fromkeys([find_key(knob, experiment), _place(way)], knob.name))
    for binding in experiment.knobs:
        if binding.name in KNOB_NAMES:
            continue
        way = way_of(knob_named(binding.name, experiment.knobs), experiment)
        at = "key" if binding.flag is None else "flag"
        where, place = document.where([SECTION, "knobs", binding.name, at]), _place(way)
        if binding.flag is not None and not isinstance(way, ThroughCommand):
            why = (way.because if isinstance(way, NoWay) else None) or f"the command has no {binding.flag}"
            hint = "vtune replaces the value of a flag that is there, and adds none"
            problems.append(Problem(where=where, message=f"vtune.knobs.{binding.name}.flag: {why}", hint=hint))
        elif place in taken:
            word = binding.flag or ".".join(binding.key or ())
            message = f"vtune.knobs.{binding.name}: {word} is turned by the knob {taken[place]} already"
            problems.append(Problem(where=where, message=message, hint=f"turn it by that name: {taken[place]}"))
        else:
            taken[place] = binding.name


def _place(way: Way) -> KeyPath | int | None:
    """The key, or which word of the command."""
    match way:
        case ThroughConfig():
            return way.path
        case ThroughCommand():
            return way.flag.position
    return None
