"""What was typed beside the config: raw texts in, checked values out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from vtune.config.problems import Problem
from vtune.config.quantities import (
    parse_allow,
    parse_duration,
    parse_limit,
    parse_price,
    parse_steps,
    parse_study,
)
from vtune.domain.effects import Scalar
from vtune.domain.experiment import KnobBinding, Limit, Numerics, Price
from vtune.errors import UsageError
from vtune.knobs.settings import parse_assignment

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """As typed; None is not typed."""

    study: str | None = None
    sets: tuple[str, ...] = ()
    steps: int | str | None = None
    precise: bool = False
    validation: bool = False
    trial_time: str | None = None
    startup_time: str | None = None
    vram_limit: str | None = None
    ram_limit: str | None = None
    trial_disk: str | None = None
    allow_writes: bool = False
    allow: str | None = None
    price: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    study: str | None
    settings: dict[str, Scalar] = field(default_factory=dict)
    steps: int | None
    precise: bool
    validation: bool
    trial_time_s: float | None
    startup_time_s: float | None
    vram: Limit | None
    ram: Limit | None
    disk: Limit | None
    allow_writes: bool
    allow: Numerics | None
    price: Price | None


def read_command_line(typed: CommandLine, problems: list[Problem], bindings: Sequence[KnobBinding] = ()) -> Overrides:
    """`bindings`: those of the experiment, in which knobs of the user's own are known."""

    def read(option: str, text: object, parse: Callable[[object], T]) -> T | None:
        if text is None:
            return None
        try:
            return parse(text)
        except ValueError as error:
            hint = getattr(error, "hint", None) or _example(option, str(text))
            problems.append(Problem(message=f"{option} {error}", hint=hint))
            return None

    return Overrides(
        study=read("--study", typed.study, parse_study),
        settings=_settings(typed.sets, problems, bindings),
        steps=read("--steps", typed.steps, parse_steps),
        precise=typed.precise,
        validation=typed.validation,
        trial_time_s=read("--trial-time", typed.trial_time, parse_duration),
        startup_time_s=read("--startup-time", typed.startup_time, parse_duration),
        vram=read("--vram-limit", typed.vram_limit, parse_limit),
        ram=read("--ram-limit", typed.ram_limit, parse_limit),
        disk=read("--trial-disk", typed.trial_disk, parse_limit),
        allow_writes=typed.allow_writes,
        allow=read("--allow", typed.allow, parse_allow),
        price=read("--price", typed.price, parse_price),
    )


# Of one amount of each kind, as its option or key takes it.
EXAMPLES: Mapping[str, str] = {
    "--steps": "50",
    "--trial-time": "3m",
    "--startup-time": "10m",
    "--allow": "close",
    "--price": "3.67/h",
}


def _example(option: str, text: str) -> str:
    match option:
        case "--ram-limit" | "--vram-limit" | "--trial-disk":
            typed = f"{text}MiB or {text}GiB" if text.isdecimal() and len(text) < 10 and int(text) else "76GiB"
            return f"for example {option} {typed}"
        case "--study":
            return f"for example --study {re.sub(r'[^A-Za-z0-9._-]+', '-', text).strip('-.')[:64] or 'first'}"
        case _:
            return f"for example {option} {EXAMPLES[option]}"


def _settings(sets: tuple[str, ...], problems: list[Problem], bindings: Sequence[KnobBinding]) -> dict[str, Scalar]:
    settings: dict[str, Scalar] = {}
    for text in sets:
        try:
            name, value = parse_assignment(text, bindings)
        except UsageError as error:
            problems.append(Problem(message=f"--set {text}: {error.message}", hint=error.hint))
            continue
        if name in settings:
            problems.append(Problem(message=f"--set {text}: {name} is set twice", hint="give one of them"))
        settings[name] = value
    return settings
