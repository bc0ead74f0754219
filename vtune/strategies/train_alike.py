"""Beside another training that leads: the settings that train as the user's own do and are worth a trial."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from vtune.analysis.comparable import has_rate
from vtune.analysis.same_training import IN_BATCH, changes
from vtune.domain.choice import Choice
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment
from vtune.domain.machine import Machine
from vtune.domain.record import TrialRecord
from vtune.knobs.registry import same_knobs
from vtune.strategies.foresight import WORTH_A_LAUNCH, fitted
from vtune.strategies.turned import turned

# Trials of them.
MOST_ALIKE = 1
# What torch does where neither a config nor a trial says it: one batch to a step of the optimizer.
USUAL_BATCH: Mapping[str, Scalar] = {"accumulate_steps": 1}


def alike_to_measure(
    records: Sequence[TrialRecord],
    leader: TrialRecord,
    choice: Choice,
    *,
    own: Mapping[str, Scalar],
    experiment: Experiment,
    machine: Machine,
    candidates: Sequence[Mapping[str, Scalar]],
) -> Mapping[str, Scalar] | None:
    """None where the best of them is measured already, as far as anybody can tell. By `records` alone: the rounds of a
    race must not change it."""
    same = same_knobs(experiment.knobs)

    def stays(name: str) -> bool:
        return name not in IN_BATCH and not changes(name, same)

    kept = {name: value for name, value in turned(leader).items() if stays(name)}
    without = {**kept, **{name: value for name, value in experiment.settings.items() if not stays(name)}}
    model, best = fitted(records, machine), choice.best_same
    alike = [without, *(one for one in candidates if trains_alike(one, own, same))]
    foretold = model.predict_all(alike) if model is not None else [None] * len(alike)
    known = model.predict(turned(best)) if model is not None and best is not None and has_rate(best) else None
    if model is None or known is None:
        return without
    fits = [
        (one.samples_per_s, at)
        for at, one in enumerate(foretold)
        if one is not None and model.fits(alike[at], experiment.limits)
    ]
    if not fits:
        return None
    most, at = max(fits, key=lambda one: (one[0], -one[1]))
    # Of equals the leader's own, which says by how much the rest of it is worth.
    if foretold[0] is not None and any(i == 0 for _, i in fits) and foretold[0].samples_per_s * WORTH_A_LAUNCH >= most:
        most, at = foretold[0].samples_per_s, 0
    return alike[at] if most > known.samples_per_s * WORTH_A_LAUNCH else None


def trains_alike(asked: Mapping[str, Scalar], own: Mapping[str, Scalar], same: Collection[str]) -> bool:
    """Asked for on top of the user's own settings."""
    if any(changes(name, same) and own.get(name) != value for name, value in asked.items()):
        return False
    return _batch({**own, **asked}) == _batch(own)


def set_batch(settings: Mapping[str, Scalar]) -> int | None:
    """The effective batch as the settings say it."""
    found = _batch(settings)
    return found if isinstance(found, int) else None


def _batch(settings: Mapping[str, Scalar]) -> Scalar | tuple[Scalar, Scalar]:
    full = {**USUAL_BATCH, **settings}
    size, times = full.get("batch_size"), full["accumulate_steps"]
    return size * times if isinstance(size, int) and isinstance(times, int) else (size, times)
