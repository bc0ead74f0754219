"""The `vtune:` section as pydantic sees it, and what pydantic finds wrong in words of our own. Private to config."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError
from pydantic_core import ErrorDetails

from vtune.config.commands import PYTHON, parse_command, parse_resume
from vtune.config.document import Document
from vtune.config.own_knobs import OwnKnobs, read_own_knobs
from vtune.config.problems import Problem
from vtune.config.quantities import (
    parse_allow,
    parse_count,
    parse_duration,
    parse_limit,
    parse_price,
    parse_steps,
    parse_study,
)
from vtune.domain.effects import Scalar
from vtune.domain.experiment import KnobBinding, Limit, Numerics, Price
from vtune.errors import UsageError
from vtune.knobs.registry import KNOB_NAMES, knob_named
from vtune.knobs.settings import check_value, shown
from vtune.knobs.spelling import nearest

SECTION = "vtune"
MINIMAL = 'vtune:\n  command: "{python} train.py --config {config}"'
SAY_HOW = f"say how the training is started:\n{MINIMAL}"


def _variables(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError(f"must be lines of `NAME: value`, got {shown(value)}")
    for name, content in value.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise ValueError(f"cannot name a variable {shown(name)}")
        # YAML has turned `yes` and 0.10 into something else by now; a whole number is what it looks like.
        if isinstance(content, bool) or not isinstance(content, str | int):
            raise ValueError(f"{name} must be text, got {shown(content)}; put it in quotes")
        if isinstance(content, str) and "\0" in content:
            raise ValueError(f"{name} holds a NUL character")
    return {name: str(content) for name, content in value.items()}


def _optional(parse: Callable[[object], Any]) -> PlainValidator:
    # An empty `price:` is as if the line were not there.
    return PlainValidator(lambda value: None if value is None else parse(value))


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class LimitsSection(_Strict):
    vram: Annotated[Limit | None, _optional(parse_limit)] = None
    ram: Annotated[Limit | None, _optional(parse_limit)] = None
    # What one trial may write.
    disk: Annotated[Limit | None, _optional(parse_limit)] = None


class WindowSection(_Strict):
    steps: Annotated[int | None, _optional(parse_steps)] = None
    max_steps: Annotated[int | None, _optional(parse_steps)] = None
    trial_time: Annotated[float | None, _optional(parse_duration)] = None
    startup_time: Annotated[float | None, _optional(parse_duration)] = None
    hang_time: Annotated[float | None, _optional(parse_duration)] = None
    validation: bool | None = None
    keep_cold: bool | None = None


class RunSection(_Strict):
    epochs: Annotated[int | None, _optional(parse_count)] = None
    iterations_per_epoch: Annotated[int | None, _optional(parse_count)] = None
    samples_per_epoch: Annotated[int | None, _optional(parse_count)] = None


class LaunchSection(_Strict):
    grace: Annotated[float | None, _optional(parse_duration)] = None


class MachineSection(_Strict):
    cores: Annotated[int | None, _optional(parse_count)] = None


class KnobSection(_Strict):
    key: str | None = Field(default=None, min_length=1)
    values: list[Any] | None = None
    flag: str | None = Field(default=None, min_length=1)
    numerics: Annotated[Numerics | None, _optional(parse_allow)] = None


# Only the user can say them of a knob of their own, and nobody has to of vtune's.
OF_OWN_KNOBS = ("flag", "numerics")
# One right line of each key, for the hint of a wrong one.
_EXAMPLES: dict[str, str] = {
    "command": 'command: "{python} train.py --config {config}"',
    "config": "config: train.yaml",
    "cwd": "cwd: ..",
    "study": "study: first",
    "env": 'env: {OMP_NUM_THREADS: "1"}',
    "limits": "limits: {ram: 85%, vram: 76GiB}",
    "protect": "protect: [../runs, /data/checkpoints]",
    "window": "window: {steps: 50, max_steps: 100, trial_time: 3m, startup_time: 10m, hang_time: 2m}",
    "run": "run: {epochs: 30, iterations_per_epoch: 1000}",
    "machine": "machine: {cores: 12}",
    "launch": "launch: {grace: 2m}",
    "resume": 'resume: "--resume"',
    "price": "price: 3.67/h",
    "allow": "allow: close",
    "knobs": "knobs: {workers: {key: data.loaders, values: [0, 2, 4]}}",
    "settings": "settings: {workers: 4}",
}
OWN_KEYS_HINT = "a knob that vtune knows takes key and values; it finds the flag in the command by itself"


class VtuneSection(_Strict):
    command: Annotated[tuple[str, ...], PlainValidator(parse_command)]
    config: str | None = Field(default=None, min_length=1)
    cwd: str | None = Field(default=None, min_length=1)
    study: Annotated[str | None, _optional(parse_study)] = None
    env: Annotated[dict[str, str] | None, _optional(_variables)] = None
    limits: LimitsSection | None = None
    # Folders that trials leave as they are, beside the working folder and the outputs.
    protect: list[str] | None = None
    window: WindowSection | None = None
    run: RunSection | None = None
    machine: MachineSection | None = None
    launch: LaunchSection | None = None
    # As a command is: one text, or a list of words.
    resume: Annotated[tuple[str, ...] | None, _optional(parse_resume)] = None
    price: Annotated[Price | None, _optional(parse_price)] = None
    allow: Annotated[Numerics | None, _optional(parse_allow)] = None
    knobs: dict[str, KnobSection | None] | None = None
    settings: dict[str, Any] | None = None


_MODELS: dict[str, type[BaseModel]] = {
    "limits": LimitsSection,
    "window": WindowSection,
    "run": RunSection,
    "machine": MachineSection,
    "launch": LaunchSection,
}


@dataclass(frozen=True, slots=True)
class ReadSection:
    section: VtuneSection
    # Keys left out because they were wrong: what depends on them cannot be judged any more.
    failed: frozenset[str]
    bindings: tuple[KnobBinding, ...] = ()
    # Names in `vtune.knobs` that are no knobs: the same holds for them.
    wrong_knobs: frozenset[str] = frozenset()


def read_section(document: Document, problems: list[Problem]) -> ReadSection | None:
    """What is right in the section, so that the rest of the file can be checked too; what is wrong is in `problems`."""
    if nuls := document.nul_problems():
        problems += nuls
        return None
    raw = document.section(problems)
    if not isinstance(raw, Mapping):
        what = "is empty" if raw is None else f"must be a mapping, got {shown(raw)}"
        where = document.where([SECTION], at_key=True)
        problems.append(Problem(where=where, message=f"vtune {what}", hint=SAY_HOW))
        return None
    failed: set[str] = set()
    try:
        VtuneSection.model_validate(raw)
    except ValidationError as error:
        for item in error.errors(include_url=False):
            problems.append(_problem(document, item))
            failed.add(str(item["loc"][0]) if item["loc"] else "command")
    own = read_own_knobs(document, raw.get("knobs"), problems)
    failed |= {"knobs"} if own.wrong else set()
    for part in ("knobs", "settings"):
        found = _knob_problems(document, part, raw.get(part), own)
        problems += found
        failed |= {part} if found else set()
    right = {key: value for key, value in raw.items() if str(key) not in failed}
    if "knobs" in failed:
        right["knobs"] = _keys_of_knobs(raw["knobs"])
    elif right.get("knobs"):
        right["knobs"] = {name: _in_our_words(name, entry) for name, entry in right["knobs"].items()}
    if right.get("settings"):
        right["settings"] = _checked(right["settings"], own)
    section = VtuneSection.model_validate({**right, **({"command": [PYTHON]} if "command" in failed else {})})
    problems += _window_problems(document, section)
    return ReadSection(section, frozenset(failed), _bindings(section, own), frozenset(own.wrong))


def _checked(settings: Mapping[str, Any], own: OwnKnobs) -> dict[str, Scalar]:
    known = {name: value for name, value in settings.items() if name not in own.wrong}
    return {name: check_value(knob_named(name, own.known), value) for name, value in known.items()}


def _bindings(section: VtuneSection, own: OwnKnobs) -> tuple[KnobBinding, ...]:
    vtunes = (
        KnobBinding(
            name=name,
            key=tuple(knob.key.split(".")) if knob is not None and knob.key is not None else None,
            values=tuple(knob.values or ()) if knob is not None else (),
        )
        for name, knob in (section.knobs or {}).items()
        if name in KNOB_NAMES
    )
    return (*vtunes, *own.known)


def _problem(document: Document, error: ErrorDetails) -> Problem:
    keys = [SECTION, *(part for part in error["loc"] if part != "[key]")]
    name = ".".join(str(key) for key in keys)
    kind, value, hint = error["type"], error["input"], None
    match kind:
        case "extra_forbidden" | "invalid_key":
            known = _known_keys(keys[1:-1])
            meant = nearest(str(keys[-1]), known)
            where = document.where(keys, at_key=True)
            message = f'unknown key "{name}"' + (f'; did you mean "{meant}"?' if meant else "")
            return Problem(where=where, message=message, hint=f"keys of {name.rpartition('.')[0]}: {', '.join(known)}")
        case "missing":
            where = document.where([SECTION], at_key=True)
            return Problem(where=where, message=f"{name} is missing", hint=SAY_HOW)
        case "value_error":
            message = f"{name} {error['ctx']['error']}"
            hint = getattr(error["ctx"]["error"], "hint", None)
        case "string_type":
            message = f"{name} must be text, got {shown(value)}"
        case "string_too_short":
            message = f"{name} is empty"
        case "list_type":
            like = "[../runs]" if str(keys[1]) == "protect" else "[1, 2, 4]"
            message = f"{name} must be a list like {like}, got {shown(value)}"
        case "model_type" | "model_attributes_type" | "dict_type":
            message = f"{name} must be a mapping (lines of `key: value`), got {shown(value)}"
        case _:
            message = f"{name}: {error['msg']}, got {shown(value)}"
    if hint is None:
        hint = f"for example {_EXAMPLES[str(keys[1])]}"
    return Problem(where=document.where(keys), message=message, hint=hint)


def _known_keys(loc: Sequence[str | int]) -> list[str]:
    if not loc:
        return list(VtuneSection.model_fields)
    if loc[0] == "knobs":
        return list(KnobSection.model_fields)
    return list(_MODELS[str(loc[0])].model_fields)


def _knob_problems(document: Document, part: str, entries: object, own: OwnKnobs) -> list[Problem]:
    """From the raw values, so that they are found even where pydantic has refused another part."""
    found: list[Problem] = []
    for name, entry in entries.items() if isinstance(entries, Mapping) else ():
        keys = [SECTION, part, name]
        if str(name) in own.wrong or (part == "knobs" and str(name) in own.bindings):
            continue
        try:
            knob = knob_named(str(name), own.known)
        except UsageError as error:
            where = document.where(keys, at_key=True)
            found.append(Problem(where=where, message=f"vtune.{part}: {error.message}", hint=error.hint))
            continue
        for key in OF_OWN_KNOBS if part == "knobs" and isinstance(entry, Mapping) else ():
            if entry.get(key) is not None:
                message = f"vtune.knobs: {name} is vtune's own, and takes no {key}"
                found.append(Problem(where=document.where([*keys, key]), message=message, hint=OWN_KEYS_HINT))
        for deeper, value in [((), entry)] if part == "settings" else _values(entry):
            try:
                check_value(knob, value)
            except UsageError as error:
                where = document.where([*keys, *deeper])
                found.append(Problem(where=where, message=f"vtune.{part}: {error.message}", hint=error.hint))
    return found


def _keys_of_knobs(entries: object) -> dict[str, dict[str, str]]:
    """The names that can still be checked against the training's config."""
    return {
        name: {"key": entry["key"]}
        for name, entry in (entries.items() if isinstance(entries, Mapping) else ())
        if name in KNOB_NAMES and isinstance(entry, Mapping) and isinstance(entry.get("key"), str) and entry["key"]
    }


def _in_our_words(name: str, entry: Any) -> Any:
    """bf16 for bf16-mixed: in settings and journals the same thing has one name."""
    if name not in KNOB_NAMES or not isinstance(entry, Mapping) or not entry.get("values"):
        return entry
    return {**entry, "values": [check_value(knob_named(name), value) for value in entry["values"]]}


def _values(entry: object) -> list[tuple[tuple[str | int, ...], Any]]:
    values = entry.get("values") if isinstance(entry, Mapping) else None
    return [(("values", at), value) for at, value in enumerate(values)] if isinstance(values, list) else []


def _window_problems(document: Document, section: VtuneSection) -> list[Problem]:
    window = section.window
    if window is None or window.steps is None or window.max_steps is None or window.max_steps >= window.steps:
        return []
    return [
        Problem(
            where=document.where([SECTION, "window", "max_steps"]),
            message=f"vtune.window.max_steps must be at least window.steps, {window.steps}, got {window.max_steps}",
            hint=f"for example {_EXAMPLES['window']}",
        )
    ]
