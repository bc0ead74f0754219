"""A plan of phases before it is walked: what it would turn, in which order, at what risk."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from vtune.domain.effects import Scalar
from vtune.domain.phases import Option, Phase, Plan, RungValue, Times
from vtune.reporting.phase_words import ladder_text, option_values, risk_text


def outline(
    plan: Plan,
    phases: Sequence[Phase],
    *,
    extend: bool,
    options: bool,
    own: Mapping[str, Scalar],
    no_way: Collection[str] = (),
) -> Iterator[str]:
    """In lines: the phases that were asked for, and the plan's options. `own` are the user's settings, `no_way` knobs
    that have none into this training."""
    for phase in phases:
        missing = [name for name in turned_by(phase) if name in no_way]
        phase = _without(phase, missing)
        if missing and not turned_by(phase):
            what = f"{phase.name}: " if missing != [phase.name] else ""
            yield f"{phase.number}  {what}{', '.join(missing)}: no way into this training"
            yield from (f"   by hand: {line}" for line in phase.by_hand)
            continue
        turned = ladder_text(phase, extend=extend, own=own)
        # "workers: workers 1 → 2" says it twice.
        turned = turned.removeprefix(phase.name).lstrip(": ") if phase.name == phase.knob else turned
        yield f"{phase.number}  {phase.name}{f': {turned}' if turned else ''}"
        more = [risk_text(phase), "only what is allowed" if phase.needs_allow else "", _steps(phase)]
        if missing:
            yield f"   no way into this training: {', '.join(missing)}"
        if any(more):
            yield f"   {'; '.join(part for part in more if part)}"
        yield from (f"   by hand: {line}" for line in phase.by_hand)
    if plan.options:
        yield f"options of the plan, {'measured' if options else 'predicted only (--options measures them)'}"
        yield from (f"   {one.name}: {option_values(one.settings, own)}" for one in plan.options)


def turned_by(phase: Phase) -> list[str]:
    names = [name for rung in (*phase.rungs, *phase.beyond) for name in rung]
    return list(dict.fromkeys([*names, *([phase.knob] if phase.by_model and phase.knob else [])]))


def _without(phase: Phase, missing: Collection[str]) -> Phase:
    """A rung that turns one of these is never tried."""
    rungs, beyond = (
        tuple(rung for rung in ladder if not any(name in missing for name in rung))
        for ladder in (phase.rungs, phase.beyond)
    )
    return replace(phase, rungs=rungs, beyond=beyond, by_model=phase.by_model and phase.knob not in missing)


def outline_json(phases: Sequence[Phase], options: Sequence[Option]) -> dict[str, Any]:
    return {
        "outline": [
            {
                "phase": phase.number,
                "name": phase.name,
                "knob": phase.knob,
                "rungs": [_plain(rung) for rung in phase.rungs],
                "beyond": [_plain(rung) for rung in phase.beyond],
                "by_model": phase.by_model,
                "if_allowed": phase.needs_allow,
                "steps": list(phase.steps) if phase.steps is not None else None,
                "risk": phase.risk,
                "risk_words": phase.risk_words,
                "by_hand": list(phase.by_hand),
            }
            for phase in phases
        ],
        "outline_options": {option.name: _plain(option.settings) for option in options},
    }


def _plain(settings: Any) -> dict[str, Any]:
    return {name: _word(value) for name, value in settings.items()}


def _word(value: RungValue) -> Any:
    """As a plan's file writes it."""
    return f"x{value.factor:g}" if isinstance(value, Times) else value


def _steps(phase: Phase) -> str:
    return "" if phase.steps is None else f"{phase.steps[0]} to {phase.steps[1]} steps each"
