"""All that a search may set: which knobs are turned here, to which values, and every combination of them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

from vtune.analysis.model.setup import PHYSICAL
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment
from vtune.domain.knob import Knob
from vtune.domain.machine import Machine
from vtune.domain.record import TrialRecord
from vtune.domain.search import Dimension, Space
from vtune.knobs.batch import ACCUMULATE_STEPS, BATCH_SIZE
from vtune.knobs.loader import PIN_MEMORY, WORKERS
from vtune.knobs.registry import knobs_of
from vtune.knobs.settings import NEED_WORKERS, shown
from vtune.knobs.values import accumulate_for, values_of
from vtune.knobs.ways import NoWay, way_of
from vtune.strategies.walk_candidates import ORDER, never_tried, why_not

# What torch does where neither a config nor a trial says it.
USUAL: Mapping[str, Scalar] = {
    "prefetch_factor": 2, "persistent_workers": False, "pin_memory": False, "in_order": True
}  # fmt: skip
# Past this many, combinations that change the most of what no model tells apart (precision, filters) are left out.
MOST_SETTINGS = 20_000


def space_of(
    experiment: Experiment,
    machine: Machine,
    *,
    own: Mapping[str, Scalar],
    baseline: TrialRecord | None = None,
    ran: Mapping[str, Collection[Scalar]] | None = None,
) -> Space:
    """`own`: what the training runs with, by its config and by what its first trial, the `baseline`, showed. `ran`:
    further values, of trials that ran with them or that are worth one."""
    own = {**USUAL, **{name: value for name, value in own.items() if value is not None}}
    found: list[Dimension] = []
    left_out: list[str] = []
    for knob in knobs_of(experiment.knobs):
        one: Dimension | str | None
        if knob is PIN_MEMORY and (useless := nowhere_to_copy_to(experiment, machine, baseline)) is not None:
            one = useless
        else:
            one = _dimension(knob, experiment, machine, own, (ran or {}).get(knob.name, ()))
        if isinstance(one, Dimension):
            found.append(one)
        elif one is not None:
            left_out.append(one)
    return Space(dimensions=tuple(found), settings=_combined(found, own, experiment), left_out=tuple(left_out))


def comes_to(settings: Mapping[str, Scalar], own: Mapping[str, Scalar]) -> frozenset[tuple[str, Scalar]]:
    """Asked for or not, what a training with these settings runs with: what says the same is the same."""
    full = {**USUAL, **own, **settings}
    if full.get("workers") == 0:
        full = {name: value for name, value in full.items() if name not in NEED_WORKERS}
    return frozenset((name, value) for name, value in full.items() if value is not None)


def frees_batch(experiment: Experiment) -> bool:
    """The effective batch may change."""
    named = any(binding.name == BATCH_SIZE.name for binding in experiment.knobs)
    return named or ORDER.index(experiment.allow) >= ORDER.index(BATCH_SIZE.numerics)


def may_launch(
    asked: Mapping[str, Scalar],
    *,
    named: Mapping[str, Scalar],
    own: Mapping[str, Scalar],
    experiment: Experiment,
    by_names: dict[frozenset[str], bool],
) -> bool:
    """Whether a search may launch what a trial of the journal was asked for: it is set to what was asked of the search,
    and turns nothing else that nobody allowed. `named`: what the training's config or command says by itself;
    `by_names`: kept between calls, which may be thousands."""
    ran = {**USUAL, **named, **asked}
    if any(ran.get(name) != value for name, value in experiment.settings.items()):
        return False
    usual = {**USUAL, **own}
    changed = {name for name, value in asked.items() if usual.get(name) != value}
    in_batch = {BATCH_SIZE.name, ACCUMULATE_STEPS.name}
    if changed & in_batch and not frees_batch(experiment):
        full = {**usual, **asked}
        size, steps = full.get(BATCH_SIZE.name), full.get(ACCUMULATE_STEPS.name)
        if not isinstance(size, int) or steps is None or accumulate_for(size, own) != steps:
            return False
    names = frozenset(changed - in_batch)
    if names not in by_names:
        known = {knob.name for knob in knobs_of(experiment.knobs)}
        by_names[names] = names <= known and never_tried(sorted(names), experiment, needs_allow=True) is None
    return by_names[names]


def nowhere_to_copy_to(experiment: Experiment, machine: Machine, baseline: TrialRecord | None) -> str | None:
    """A driver that shows nothing may have a device all the same."""
    named = {*experiment.settings, *(binding.name for binding in experiment.knobs)}
    measured = baseline.measurement if baseline is not None else None
    used = measured is not None and (bool(measured.gpus) or measured.vram_peak_bytes is not None)
    if PIN_MEMORY.name in named or used or machine.gpus or machine.gpus_unread_because is not None:
        return None
    return f"{PIN_MEMORY.name}: no GPU was seen whose copies it could speed up"


def _dimension(
    knob: Knob, experiment: Experiment, machine: Machine, own: Mapping[str, Scalar], ran: Collection[Scalar]
) -> Dimension | str | None:
    """Or why it is not turned; None where another knob's dimension says it."""
    if knob.name in experiment.settings:
        return f"{knob.name}: {shown(experiment.settings[knob.name])} was asked for"
    if knob.name in NEED_WORKERS and experiment.settings.get(WORKERS.name) == 0:
        return f"{knob.name}: it needs at least one worker, and none was asked for"
    if knob is BATCH_SIZE and not frees_batch(experiment):
        return _batch_with_accumulation(experiment, machine, own, ran)
    named = any(binding.name == knob.name for binding in experiment.knobs)
    if knob is ACCUMULATE_STEPS and not named:
        return None
    values = _with(values_of(knob, machine, experiment, now=own), ran, knob, experiment)
    others = [value for value in values if value != own.get(knob.name)] or [None]
    why = next((w for value in others if (w := _why_not(knob, value, own, experiment)) is not None), None)
    if why is not None:
        return f"{knob.name}: {why}"
    return _of_values(knob, values, own)


def _with(
    values: tuple[Scalar, ...], ran: Collection[Scalar], knob: Knob, experiment: Experiment
) -> tuple[Scalar, ...]:
    """Where the user names the values, they are these."""
    more = [value for value in ran if value is not None and value not in values]
    if not more or any(binding.name == knob.name and binding.values for binding in experiment.knobs):
        return values
    return tuple(sorted((*values, *more), key=_rank))


def _why_not(knob: Knob, value: Scalar, own: Mapping[str, Scalar], experiment: Experiment) -> str | None:
    # Whether there are workers is decided with the others.
    return why_not({knob.name: value}, {**own, "workers": None}, experiment, needs_allow=True)


def _of_values(knob: Knob, values: Sequence[Scalar], own: Mapping[str, Scalar]) -> Dimension | str:
    choices: list[Mapping[str, Scalar]] = [{knob.name: value} for value in values]
    current = own.get(knob.name)
    if current is None:
        # Whatever it is, it is one of the choices.
        choices.insert(0, {})
    elif current not in values:
        choices.append({knob.name: current})
        choices.sort(key=lambda one: _rank(one[knob.name]))
    if len(choices) < 2:
        return f"{knob.name}: no other value of it is known to be worth a trial here"
    return Dimension(name=knob.name, choices=tuple(choices), needs_workers=knob.name in NEED_WORKERS)


def _batch_with_accumulation(
    experiment: Experiment, machine: Machine, own: Mapping[str, Scalar], ran: Collection[Scalar]
) -> Dimension | str | None:
    """The same samples to an optimizer step: smaller batches with more of them, or the reverse."""
    if ACCUMULATE_STEPS.name in experiment.settings:
        return f"batch_size: accumulate_steps={shown(experiment.settings[ACCUMULATE_STEPS.name])} was asked for"
    free = "it would change the effective batch: --allow different lets it be tried"
    for knob in (BATCH_SIZE, ACCUMULATE_STEPS):
        way = way_of(knob, experiment)
        if isinstance(way, NoWay):
            told = way.because or f"no key of its config and no flag of its command is known to be {knob.name}"
            return f"batch_size: {free} (to keep it, accumulate_steps has to be turned as well: {told})"
    sizes = _with(values_of(BATCH_SIZE, machine, experiment, now=own), ran, BATCH_SIZE, experiment)
    pairs = [
        {BATCH_SIZE.name: size, ACCUMULATE_STEPS.name: steps}
        for size in sizes
        if isinstance(size, int) and (steps := accumulate_for(size, own)) is not None
    ]
    if len(pairs) < 2:
        return f"batch_size: {free}, and none of its values keeps it"
    return Dimension(name=BATCH_SIZE.name, choices=tuple(pairs))


def _rank(value: Scalar) -> tuple[int, float, str]:
    return (0, float(value), "") if isinstance(value, (int, float)) else (1, 0.0, str(value))


def _combined(
    dimensions: Sequence[Dimension], own: Mapping[str, Scalar], experiment: Experiment
) -> tuple[Mapping[str, Scalar], ...]:
    physical = [one for one in dimensions if one.name in PHYSICAL]
    others = [one for one in dimensions if one.name not in PHYSICAL]
    rest = dict(experiment.settings)
    found: dict[frozenset[tuple[str, Scalar]], Mapping[str, Scalar]] = {comes_to(rest, own): rest}
    for regime in _fewest_changes_first(others, own):
        for chosen in itertools.product(*(one.choices for one in physical)):
            if len(found) >= MOST_SETTINGS:
                return tuple(found.values())
            asked = as_asked({**regime, **{name: v for one in chosen for name, v in one.items()}}, own, experiment)
            found.setdefault(comes_to(asked, own), asked)
    return tuple(found.values())


def as_asked(settings: Mapping[str, Scalar], own: Mapping[str, Scalar], experiment: Experiment) -> Mapping[str, Scalar]:
    """Without what is there anyway, and without what only workers could use where there are none."""
    own = {**USUAL, **own}
    asked = {**experiment.settings, **settings}
    if asked.get("workers", own.get("workers")) == 0:
        asked = {name: value for name, value in asked.items() if name not in NEED_WORKERS}
    return {name: v for name, v in asked.items() if name in experiment.settings or own.get(name) != v}


def _fewest_changes_first(dimensions: Sequence[Dimension], own: Mapping[str, Scalar]) -> Iterator[Mapping[str, Scalar]]:
    changes = [
        [choice for choice in one.choices if any(own.get(name) != value for name, value in choice.items())]
        for one in dimensions
    ]
    for count in range(len(dimensions) + 1):
        for which in itertools.combinations(range(len(dimensions)), count):
            for chosen in itertools.product(*(changes[at] for at in which)):
                yield {name: value for one in chosen for name, value in one.items()}
