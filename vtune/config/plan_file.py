"""A plan of phases from its file: one of vtune's own, or the user's. docs/plans.md documents every key."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from vtune.config.document import Document, read_document
from vtune.config.find import missing_file
from vtune.config.problems import ConfigErrors, Problem
from vtune.config.quantities import parse_share, parse_steps
from vtune.domain.experiment import KnobBinding
from vtune.domain.knob import Knob
from vtune.domain.phases import Option, Phase, Plan, Risk, RungValue, Success, Times
from vtune.errors import UsageError
from vtune.knobs.registry import knob_named
from vtune.knobs.settings import check_settings, check_value, shown
from vtune.knobs.spelling import nearest

BUNDLED = Path(__file__).parent / "plans"
# The default first, then from the cautious to the clever.
BUNDLED_NAMES = ("ladder", "safe", "progressive", "guided")
ENDINGS = (".yaml", ".yml")
PLAN_KEYS = ("about", "phases", "options")
PHASE_KEYS = (
    "name", "turn", "rungs", "by_model", "extend", "accumulate_instead", "if_allowed", "steps", "success", "risk",
    "watch_for", "by_hand",
)  # fmt: skip
# What a phase does: exactly one of them.
TURNING = ("turn", "rungs", "by_model")
SUCCESS_KEYS = ("gpu_util",)
RISKS: tuple[Risk, ...] = get_args(Risk)
# The user's own × 2, as `x2`.
_TIMES = re.compile(r"[x×]\s*(?P<factor>[0-9]{1,6}(?:\.[0-9]{1,6})?)")
# A launch takes half a minute at least: so many are a night.
MOST_RUNGS = 300
MOST_TIMES = 1024
_RUNGS = "for example rungs: [{workers: 4}, {workers: 6, prefetch_factor: 4}]"
_OPTIONS = "for example:\noptions:\n  A: {workers: 4, prefetch_factor: 4}"
_SUCCESS = "for example success: {gpu_util: 50%}"
_STEPS = "for example steps: 100, or steps: [50, 200]"
_EXAMPLE = "for example:\nphases:\n  - turn: {workers: [2, 4, 8]}"

Keys = tuple[str | int, ...]
Rung = dict[str, RungValue]


def bundled_plans() -> tuple[str, ...]:
    return BUNDLED_NAMES


def load_plan(name_or_path: str, bindings: Sequence[KnobBinding] = ()) -> Plan:
    """A bundled name goes before a file of that name: `./ladder` is the file. `bindings`: those of the experiment, in
    which knobs of the user's own are known."""
    if name_or_path in BUNDLED_NAMES:
        return _read(BUNDLED / f"{name_or_path}.yaml")
    path = Path(os.path.expanduser(name_or_path))
    if os.path.isfile(path):
        return _read(path, bindings)
    if path.name.endswith(ENDINGS):
        bundled = f"vtune's own: {', '.join(BUNDLED_NAMES)}"
        if path.stem in BUNDLED_NAMES:
            bundled = f"vtune's own plan has no ending: --plan {path.stem}"
        missing = missing_file(path)
        near = missing.hint if (missing.hint or "").startswith("did you mean") else None
        raise ConfigErrors([replace(missing, hint="; ".join(filter(None, (near, bundled))))])
    meant = nearest(name_or_path, BUNDLED_NAMES)
    raise UsageError(
        f'unknown plan "{name_or_path}"' + (f'; did you mean "{meant}"?' if meant else ""),
        hint=f"plans: {', '.join(BUNDLED_NAMES)}, or a file of your own that ends in .yaml",
    )


def _read(path: Path, bindings: Sequence[KnobBinding] = ()) -> Plan:
    problems: list[Problem] = []
    document = read_document(path, problems)
    plan = _Reading(document, problems, bindings).plan(path.stem) if document is not None else None
    if plan is None or problems:
        raise ConfigErrors(problems)
    return plan


class _Reading:
    """Goes on after each mistake, so that all of them are told."""

    def __init__(self, document: Document, problems: list[Problem], bindings: Sequence[KnobBinding]) -> None:
        self._document = document
        self._bindings = bindings
        self._problems = problems

    def plan(self, name: str) -> Plan:
        data = self._document.data
        self._known((), data, PLAN_KEYS)
        listed = data.get("phases")
        if not isinstance(listed, list) or not listed:
            self._say(("phases",), f"phases must be a list of phases, got {shown(listed)}", hint=_EXAMPLE)
            listed = []
        phases = [self._phase(number, one) for number, one in enumerate(listed, 1)]
        options = self._options(data.get("options"))
        self._too_many([phase for phase in phases if phase is not None], options)
        return Plan(
            name=name,
            about=self._text(("about",), data.get("about")) or "",
            phases=tuple(phase for phase in phases if phase is not None),
            options=tuple(options),
        )

    def _too_many(self, phases: Sequence[Phase], options: Sequence[Option]) -> None:
        hint = f"each rung is a launch of the training: a plan has at most {MOST_RUNGS} of them, and its options"
        counts = {phase.number: len(phase.rungs) + len(phase.beyond) for phase in phases}
        large = {number: count for number, count in counts.items() if count > MOST_RUNGS}
        for number, count in large.items():
            self._say(("phases", number - 1), f"phase {number} lists {count} rungs, more than {MOST_RUNGS}", hint=hint)
        total = sum(counts.values()) + len(options)
        if total > MOST_RUNGS and not large:
            words = f"the plan lists {total} rungs and options, more than {MOST_RUNGS}"
            self._say(("phases",), words, hint=hint, at_key=True)

    def _phase(self, number: int, entry: object) -> Phase | None:
        at: Keys = ("phases", number - 1)
        if not isinstance(entry, Mapping):
            self._say(at, f"a phase must be lines of `key: value`, got {shown(entry)}", hint=_EXAMPLE)
            return None
        before = len(self._problems)
        self._known(at, entry, PHASE_KEYS)
        by_hand = self._lines((*at, "by_hand"), entry.get("by_hand"))
        named = [key for key in TURNING if entry.get(key) is not None]
        if len(named) > 1 or not (named or by_hand or len(self._problems) > before):
            got = " and ".join(named) or "none of them"
            self._say(at, f"phase {number} must have one of turn, rungs and by_model, got {got}", hint=_EXAMPLE)
        rungs, beyond, model_knob = self._turning(at, entry)
        self._repeated(at, [*rungs, *beyond])
        turned = [name for rung in rungs for name in rung]
        knob = model_knob or (turned[0] if turned else None)
        name = self._text((*at, "name"), entry.get("name")) or knob or f"phase {number}"
        accumulate = self._switch((*at, "accumulate_instead"), entry.get("accumulate_instead"))
        if accumulate and "batch_size" not in (model_knob, *turned) and len(self._problems) == before:
            self._say(
                (*at, "accumulate_instead"),
                "accumulate_instead is for phases that turn batch_size",
                hint="leave it out",
            )
        return Phase(
            number=number,
            name=name,
            knob=knob or name,
            rungs=tuple(rungs),
            beyond=tuple(beyond),
            by_model=model_knob is not None,
            accumulate_instead=accumulate,
            risk=self._risk((*at, "risk"), entry.get("risk")),
            risk_words=self._text((*at, "watch_for"), entry.get("watch_for")),
            success=self._success((*at, "success"), entry.get("success")),
            needs_allow=self._switch((*at, "if_allowed"), entry.get("if_allowed")),
            steps=self._steps((*at, "steps"), entry.get("steps")),
            by_hand=by_hand,
        )

    def _turning(self, at: Keys, entry: Mapping[Any, Any]) -> tuple[list[Rung], list[Rung], str | None]:
        """Rungs, those past the end, or the knob that is left to the model."""
        extend, further = entry.get("extend"), (*at, "extend")
        if entry.get("turn") is not None:
            where, turn = (*at, "turn"), entry["turn"]
            if not isinstance(turn, Mapping) or len(turn) != 1:
                hint = "several knobs in one rung are listed as rungs: [{workers: 6, persistent_workers: true}]"
                self._say(where, f"turn must name one knob, like {{workers: [1, 2, 4]}}, got {shown(turn)}", hint=hint)
                return [], [], None
            ((name, values),) = turn.items()
            knob = self._knob((*where, name), name)
            if knob is None:
                return [], [], None
            if extend is not None and not isinstance(extend, list):
                self._say(
                    further,
                    f"extend must be a list like [8, 12], got {shown(extend)}",
                    hint="leave extend out to end with the rungs",
                )
                extend = None
            if values == []:
                self._say(where, f"turn names no value of {knob.name}", hint=_EXAMPLE)
            return self._each((*where, name), knob, values), self._each(further, knob, extend or []), None
        if entry.get("rungs") is not None:
            beyond = [] if extend is None else self._rungs(further, extend)
            return self._rungs((*at, "rungs"), entry["rungs"]), beyond, None
        if extend is not None:
            self._say((*at, "extend"), "extend continues turn or rungs, and there are none", hint=_EXAMPLE)
        if entry.get("by_model") is not None:
            knob = self._knob((*at, "by_model"), entry["by_model"], at_key=False)
            return [], [], None if knob is None else knob.name
        return [], [], None

    def _each(self, at: Keys, knob: Knob, values: object) -> list[Rung]:
        """One rung for each value of one knob."""
        listed = values if isinstance(values, list) else [values]
        found = [
            self._value((*at, position) if isinstance(values, list) else at, knob, one)
            for position, one in enumerate(listed)
        ]
        return [{knob.name: value} for value in found if value is not None]

    def _rungs(self, at: Keys, entries: object) -> list[Rung]:
        if not isinstance(entries, list) or not entries or not all(isinstance(one, Mapping) and one for one in entries):
            self._say(
                at, f"{at[-1]} must be a list like [{{workers: 4}}, {{workers: 6}}], got {shown(entries)}", hint=_RUNGS
            )
            return []
        return [self._rung((*at, position), one) for position, one in enumerate(entries)]

    def _rung(self, at: Keys, entry: Mapping[Any, Any]) -> Rung:
        rung: Rung = {}
        for name, raw in entry.items():
            knob = self._knob((*at, name), name)
            value = None if knob is None else self._value((*at, name), knob, raw)
            if knob is not None and value is not None:
                rung[knob.name] = value
        try:
            check_settings({name: value for name, value in rung.items() if not isinstance(value, Times)})
        except UsageError as error:
            self._say(at, error.message, hint=error.hint)
        return rung

    def _value(self, at: Keys, knob: Knob, raw: object) -> RungValue:
        """None where it is wrong, which is said."""
        times = _TIMES.fullmatch(raw.strip()) if isinstance(raw, str) else None
        if times is not None and knob.kind == "int":
            factor = float(times["factor"])
            if 0 < factor <= MOST_TIMES:
                return Times(factor=factor)
            bound = "more than x0" if factor == 0 else f"at most x{MOST_TIMES}"
            hint = f"relative values are more than x0 and at most x{MOST_TIMES} of the training's own"
            self._say(at, f"{knob.name} must be {bound}, got {shown(raw)}", hint=hint)
            return None
        try:
            return check_value(knob, raw)
        except UsageError as error:
            relative = ", or x2 for twice the training's own" if knob.kind == "int" and isinstance(raw, str) else ""
            self._say(at, error.message + relative, hint=error.hint)
            return None

    def _options(self, entries: object) -> list[Option]:
        if entries is None:
            return []
        if not isinstance(entries, Mapping):
            self._say(
                ("options",), f"options must be lines like `A: {{workers: 4}}`, got {shown(entries)}", hint=_OPTIONS
            )
            return []
        options = []
        for name, entry in entries.items():
            at: Keys = ("options", name)
            if isinstance(entry, Mapping) and entry:
                options.append(Option(name=str(name), settings=self._rung(at, entry)))
            else:
                self._say(at, f"option {name} must be settings like {{workers: 4}}, got {shown(entry)}", hint=_OPTIONS)
        return options

    def _knob(self, at: Keys, name: object, *, at_key: bool = True) -> Knob | None:
        try:
            return knob_named(str(name), self._bindings)
        except UsageError as error:
            self._say(at, error.message, hint=error.hint, at_key=at_key)
            return None

    def _repeated(self, at: Keys, rungs: Sequence[Rung]) -> None:
        for position, rung in enumerate(rungs):
            if rung and rung in rungs[:position]:
                words = ", ".join(f"{name}: {_typed(value)}" for name, value in rung.items())
                self._say(at, f"phase {int(at[1]) + 1} lists {{{words}}} twice", hint="list each rung once")

    def _success(self, at: Keys, entry: object) -> Success:
        if entry is None:
            return Success()
        if not isinstance(entry, Mapping):
            self._say(at, f"success must be like {{gpu_util: 50%}}, got {shown(entry)}", hint=_SUCCESS)
            return Success()
        self._known(at, entry, SUCCESS_KEYS)
        share = entry.get("gpu_util")
        if isinstance(share, int | float) and not isinstance(share, bool):
            share = f"{share}%"  # of a device's time nothing but percents is ever said
        try:
            return Success() if share is None else Success(gpu_util_percent=round(100 * parse_share(share), 6))
        except ValueError:
            self._say((*at, "gpu_util"), f"gpu_util must be like 50%, got {shown(share)}", hint=_SUCCESS)
            return Success()

    def _steps(self, at: Keys, entry: object) -> tuple[int, int] | None:
        if entry is None:
            return None
        try:
            counts = [parse_steps(one) for one in (entry if isinstance(entry, list) else [entry])]
        except ValueError as error:
            self._say(at, f"steps {error}", hint=getattr(error, "hint", None) or _STEPS)
            return None
        if len(counts) not in (1, 2) or counts[0] > counts[-1]:
            self._say(
                at, f"steps must be like 100, or [100, 200] for at least and at most, got {shown(entry)}", hint=_STEPS
            )
            return None
        return counts[0], counts[-1]

    def _risk(self, at: Keys, entry: object) -> Risk:
        for risk in RISKS:
            if entry == risk:
                return risk
        if entry is not None:
            self._say(at, f"risk must be one of {', '.join(RISKS)}, got {shown(entry)}", hint="leave risk out for low")
        return "low"

    def _switch(self, at: Keys, entry: object) -> bool:
        if entry is not None and not isinstance(entry, bool):
            self._say(at, f"{at[-1]} must be true or false, got {shown(entry)}", hint="leave it out for false")
        return entry is True

    def _text(self, at: Keys, entry: object) -> str | None:
        if entry is None:
            return None
        if isinstance(entry, str) and entry.strip() and "\n" not in entry.strip():
            return entry.strip()
        self._say(at, f"{at[-1]} must be a line of text, got {shown(entry)}", hint="put it in quotes, on one line")
        return None

    def _lines(self, at: Keys, entry: object) -> tuple[str, ...]:
        listed = entry if isinstance(entry, list) else [] if entry is None else [entry]
        found = [self._text((*at, position), one) for position, one in enumerate(listed)]
        return tuple(line for line in found if line is not None)

    def _known(self, at: Keys, entry: Mapping[Any, Any], known: Sequence[str]) -> None:
        for key in entry:
            if key in known:
                continue
            meant = nearest(str(key), known)
            of = "a plan" if not at else "a phase" if len(at) == 2 else str(at[-1])
            self._say(
                (*at, key),
                f'unknown key "{key}"' + (f'; did you mean "{meant}"?' if meant else ""),
                hint=f"keys of {of}: {', '.join(known)}",
                at_key=True,
            )

    def _say(self, at: Keys, message: str, *, hint: str, at_key: bool = False) -> None:
        # YAML keys may be numbers or truths; their place is found by their text.
        keys = [key if isinstance(key, int) and not isinstance(key, bool) else str(key) for key in at]
        where = self._document.where(keys, at_key=at_key)
        self._problems.append(Problem(where=where, message=message, hint=hint))


def _typed(value: RungValue) -> str:
    return f"x{value.factor:g}" if isinstance(value, Times) else shown(value)
