"""Which key of the training's own config a knob is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import Any

from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment
from vtune.domain.knob import Knob
from vtune.errors import UsageError
from vtune.knobs.other_loaders import of_another_loader
from vtune.knobs.registry import KNOBS
from vtune.knobs.settings import shown
from vtune.knobs.spelling import nearest
from vtune.knobs.written import read_as

KeyPath = tuple[str, ...]

# So many names are looked through for the one that was meant: each of thousands of knobs may be misspelt.
MOST_NAMES = 300
# Words by which trainings ask for a choice of their own; not a mistake.
CHOOSES_ITSELF = frozenset(("", "auto", "max", "default", "none", "null"))


def find_key(knob: Knob, experiment: Experiment) -> KeyPath | None:
    """The user's binding, else a well-known name, else the only key of that name anywhere in the tree, unless the name
    is a common word."""
    config = experiment.workload.config
    binding = experiment.binding_of(knob.name)
    if binding is not None and binding.key is not None:
        return _bound_key(knob, binding.key, config)
    return None if config is None else key_named_as(knob, config, lambda value: _fits(knob, value))


def key_named_as(knob: Knob, config: Mapping[str, Any], is_it: Callable[[object], bool]) -> KeyPath | None:
    """By its name, where its value is such a one."""
    for dotted in knob.config_keys:
        path = path_of(config, dotted)
        if path is not None and is_it(value_at(config, path)):
            return path
    names = {dotted.rpartition(".")[2] for dotted in knob.config_keys} - knob.common_words
    deeper = [
        path
        for path, value in leaves(config)
        if path[-1] in names and is_it(value) and not any(map(of_another_loader, path[:-1]))
    ]
    return deeper[0] if len(deeper) == 1 else None


def value_of_key(knob: Knob, experiment: Experiment) -> Scalar:
    """What the training's config says, where it says a value that the knob can take."""
    config, path = experiment.workload.config, find_key(knob, experiment)
    if config is None or path is None:
        return None
    raw = value_at(config, path)
    return read_as(knob, raw) if raw is not None and _fits(knob, raw) else None


def strange_value(knob: Knob, experiment: Experiment) -> str | None:
    """Why a well-known key of the config is not this knob although it has its name: a value that is none of its own."""
    config = experiment.workload.config or {}
    path = next(filter(None, (path_of(config, dotted) for dotted in knob.config_keys)), None)
    if path is None or _fits(knob, value_at(config, path)):
        return None
    return f"its key {'.'.join(path)} is {shown(value_at(config, path))}, which vtune cannot read as {knob.name}"


def wrong_values(config: Mapping[str, Any], *, bound: Collection[str] = ()) -> list[tuple[KeyPath, str]]:
    """Keys of the training that a knob maps to and whose value cannot be right; all its other keys are its own.
    Knobs in `bound` have a key of the user's choice, which find_key checks."""
    wrong: list[tuple[KeyPath, str]] = []
    for knob in KNOBS:
        path = next(filter(None, (path_of(config, dotted) for dotted in knob.config_keys)), None)
        if path is None or knob.name in bound or not knob.checked:
            continue
        problem = _mistake(knob, path, value_at(config, path))
        if problem is not None:
            wrong.append((path, problem))
    return wrong


def path_of(config: Mapping[Any, Any], dotted: str) -> KeyPath | None:
    """`training.workers` as keys; a config may also hold the dotted name itself as one flat key."""
    if dotted in config:
        return (dotted,)
    at = dotted.find(".")
    while at >= 0:
        inner = config.get(dotted[:at])
        if isinstance(inner, Mapping):
            rest = path_of(inner, dotted[at + 1 :])
            if rest is not None:
                return (dotted[:at], *rest)
        at = dotted.find(".", at + 1)
    return None


def value_at(config: Mapping[str, Any], path: KeyPath) -> Any:
    value: Any = config
    for key in path:
        value = value[key]
    return value


def leaves(config: Mapping[Any, Any]) -> Iterator[tuple[KeyPath, Any]]:
    """Every value that is not a mapping, with its keys. A mapping shared by YAML anchors is walked once."""
    walked: set[int] = set()

    def walk(mapping: Mapping[Any, Any], above: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
        if id(mapping) in walked:
            return
        walked.add(id(mapping))
        for key, value in mapping.items():
            if not isinstance(key, str):
                continue
            if isinstance(value, Mapping):
                yield from walk(value, (*above, key))
            else:
                yield (*above, key), value

    yield from walk(config, ())


def _bound_key(knob: Knob, key: KeyPath, config: Mapping[str, Any] | None) -> KeyPath:
    dotted = ".".join(key)
    path = None if config is None else path_of(config, dotted)
    if path is None or config is None:
        names = [".".join(found) for found, _ in islice(leaves(config or {}), MOST_NAMES)]
        meant = nearest(dotted, names)
        raise UsageError(
            f'the training\'s config has no key "{dotted}"' + (f'; did you mean "{meant}"?' if meant else ""),
            hint=f"vtune.knobs.{knob.name}.key names the key of the training that {knob.name} stands for",
        )
    value = value_at(config, path)
    # The user named this key, so a word in it is a choice that a number may replace.
    if value is not None and not (isinstance(value, str) and _is_a_choice(value)):
        try:
            read_as(knob, value)
        except UsageError as error:
            raise UsageError(f"{dotted}, named for a knob: {error.message}", hint=error.hint) from None
    return path


def _fits(knob: Knob, value: object) -> bool:
    if value is None:
        return knob.nullable
    try:
        read_as(knob, value)
    except UsageError:
        return False
    return True


def _mistake(knob: Knob, path: KeyPath, value: object) -> str | None:
    dotted = ".".join(path)
    if knob.kind == "bool" or value is None or isinstance(value, list | Mapping):
        return None  # trainings have uses of their own for these: pairs for train and val, tables by phase
    if isinstance(value, str):
        if "." not in dotted or _is_a_choice(value):
            return None  # a bare `workers` may name hosts
        return f'{dotted} must be a whole number, got "{value}"'
    try:
        read_as(knob, value)
    except UsageError as error:
        return error.message.replace(knob.name, dotted, 1)
    return None


def _is_a_choice(text: str) -> bool:
    """ "auto" and ${interpolation} are the training's business."""
    return text.strip().lower() in CHOOSES_ITSELF or "$" in text or "{" in text
