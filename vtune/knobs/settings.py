"""What the user typed, as values that a knob can take."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from vtune.domain.effects import Scalar
from vtune.domain.experiment import KnobBinding
from vtune.domain.knob import Knob
from vtune.errors import UsageError
from vtune.knobs.own import as_number, kind_of
from vtune.knobs.registry import knob_named, knobs_of
from vtune.knobs.spelling import nearest

TRUE = ("true", "yes", "on", "1")
FALSE = ("false", "no", "off", "0")
WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,40}")
AS_YAML_HAS_IT = "YAML takes 1e-4 for a word, and 1.0e-4 for a number"
# They only mean something to a loader that has worker processes; what they are without.
NEED_WORKERS: Mapping[str, Scalar] = {"prefetch_factor": None, "persistent_workers": False, "in_order": True}


def parse_assignment(text: str, bindings: Sequence[KnobBinding] = ()) -> tuple[str, Scalar]:
    """`workers=4` as typed after --set."""
    name, equals, value = text.partition("=")
    name = name.strip()
    if not equals or not name:
        names = ", ".join(knob.name for knob in knobs_of(bindings))
        raise UsageError(f'"{text}" is not knob=value', hint=f"for example workers=4; knobs: {names}")
    return name, parse_setting(knob_named(name, bindings), value.strip())


def parse_setting(knob: Knob, text: str) -> Scalar:
    if knob.kind == "bool":
        word = text.lower()
        if word in TRUE or word in FALSE:
            return word in TRUE
        raise UsageError(f'{knob.name} must be true or false, got "{text}"', hint=takes(knob))
    if knob.kind == "text":
        return check_value(knob, text)
    if knob.kind == "float":
        try:
            return check_value(knob, float(text))
        except ValueError:
            raise UsageError(f'{knob.name} must be a number, got "{text}"', hint=takes(knob)) from None
    if not WHOLE_NUMBER.fullmatch(text):
        raise UsageError(f'{knob.name} must be a whole number, got "{text}"', hint=takes(knob))
    return check_value(knob, int(text))


def check_value(knob: Knob, value: object) -> Scalar:
    """A value that already has a type, as files give it."""
    if knob.kind == "bool":
        if isinstance(value, bool):
            return value
        raise UsageError(f"{knob.name} must be true or false, got {shown(value)}", hint=takes(knob))
    if knob.kind == "text":
        return _word(knob, value)
    if knob.kind == "float":
        number = as_number(value)
        if number is None:
            hint = AS_YAML_HAS_IT if isinstance(value, str) else takes(knob)
            raise UsageError(f"{knob.name} must be a number, got {shown(value)}", hint=hint)
        return number
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"{knob.name} must be a whole number, got {shown(value)}", hint=takes(knob))
    if knob.minimum is not None and value < knob.minimum:
        raise UsageError(f"{knob.name} must be at least {knob.minimum}, got {shown(value)}", hint=takes(knob))
    if knob.maximum is not None and value > knob.maximum:
        raise UsageError(f"{knob.name} must be at most {knob.maximum}, got {shown(value)}", hint=takes(knob))
    return value


def takes(knob: Knob) -> str:
    """The hint of a wrong value."""
    match knob.kind:
        case "bool":
            return f"{knob.name} takes true or false"
        case "text":
            return f"{knob.name} takes {' or '.join(knob.words) or 'a word of at most 400 printable characters'}"
        case "float":
            return f"{knob.name} takes a number, such as 0.5"
    least = f" from {knob.minimum}" if knob.minimum is not None else ""
    return f"{knob.name} takes whole numbers{least}" + (f" to {knob.maximum}" if knob.maximum is not None else "")


def spelling_of(knob: Knob, value: object) -> tuple[Scalar, ...] | None:
    """The family of spellings that it is from; None where no family has it."""
    for family in (knob.words, *knob.spellings):
        if any(_same_word(value, spelt) for spelt in family):
            return family
    return None


def check_settings(settings: Mapping[str, Scalar], *, workers_now: Scalar = None) -> None:
    """Rules between knobs. `workers_now` is what the training has when the settings do not name workers."""
    workers = settings.get("workers", workers_now)
    if workers != 0 or isinstance(workers, bool):
        return
    idle = [name for name, without in NEED_WORKERS.items() if settings.get(name) not in (None, without)]
    if idle:
        why = "workers=0 was asked" if "workers" in settings else "its config or command says 0 workers"
        raise UsageError(
            f"{' and '.join(idle)} {'needs' if len(idle) == 1 else 'need'} at least one worker, but {why}",
            hint="set workers=1 or more, or leave " + " and ".join(idle) + " out",
        )


def _word(knob: Knob, value: object) -> str:
    """In vtune's own spelling: in settings and journals the same thing has one name."""
    if not knob.words and isinstance(value, str) and kind_of([value]) == "text":
        return value
    family = spelling_of(knob, value)
    if family is not None:
        return knob.words[next(at for at, spelt in enumerate(family) if _same_word(value, spelt))]
    if not knob.words:
        raise UsageError(f"{knob.name} must be a word, got {shown(value)}", hint=takes(knob))
    meant = nearest(value, knob.words) if isinstance(value, str) else None
    raise UsageError(
        f"{knob.name} must be one of {', '.join(knob.words)}, got {shown(value)}"
        + (f'; did you mean "{meant}"?' if meant else ""),
        hint=takes(knob),
    )


def _same_word(value: object, spelt: Scalar) -> bool:
    if isinstance(value, str) and isinstance(spelt, str):
        return value.strip().lower() == spelt
    return type(value) is type(spelt) and value == spelt


def shown(value: object) -> str:
    """A value as its author would write it."""
    if isinstance(value, str):
        return f'"{value if len(value) <= 80 else value[:77] + "..."}"'
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
