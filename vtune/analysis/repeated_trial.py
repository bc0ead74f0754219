"""Data that repeats, for one trial's record: of which settings it is said, and what a later trial has to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from vtune.analysis.observed import Observed
from vtune.analysis.reads import Key
from vtune.analysis.repeated import find_repeated, samples_alone, was_compared
from vtune.domain.effects import Scalar
from vtune.domain.record import TrialRecord
from vtune.domain.repeated import Repeated

# Where a record keeps the checksums of samples by their index, among its evidence.
SAMPLES = "samples"
MOST_SAMPLES = 48


def in_this_trial(observed: Observed, asked: Mapping[str, Scalar], earlier: Sequence[TrialRecord]) -> Repeated | None:
    """As its own workers showed it; where they made too little for that, as other workers of the study did."""
    roles = observed.roles
    if roles is None or roles.train is None:
        return None
    found = find_repeated(roles, observed.facts, alone=_alone(earlier))
    if found is not None or roles.workers < 2 or "workers" not in asked or was_compared(roles, observed.facts):
        return found
    return shown_before(earlier)


def shown_before(earlier: Sequence[TrialRecord]) -> Repeated | None:
    for record in reversed(earlier):
        found = record.measurement.repeated
        if found is not None and found.is_shown:
            return replace(found, trial=found.trial or record.trial)
    return None


def found_in(records: Sequence[TrialRecord]) -> Repeated | None:
    """By any trial of a study: what was shown, else what left it open."""
    shown = shown_before(records)
    if shown is not None:
        return shown
    last = next((one for one in reversed(records) if one.measurement.repeated is not None), None)
    found = last.measurement.repeated if last is not None else None
    return replace(found, trial=found.trial or last.trial) if found is not None and last is not None else None


def would_repeat(found: Repeated | None, workers: Scalar, own_workers: Scalar) -> Repeated | None:
    """A trial with so many workers would be invalid; a single one repeats nothing."""
    several = isinstance(workers, int) and workers > 1
    return found if several and makes_invalid({"workers": workers}, own_workers) else None


def makes_invalid(asked: Mapping[str, Scalar], own_workers: Scalar) -> bool:
    """The rate of the user's own settings holds: it is their training. Other workers win nothing by it."""
    return "workers" in asked and asked["workers"] != own_workers


def samples_evidence(observed: Observed) -> dict[str, object]:
    roles = observed.roles
    if roles is None or roles.train is None:
        return {}
    samples = list(samples_alone(roles, observed.facts).items())[:MOST_SAMPLES]
    return {SAMPLES: [list(pair) for pair in samples]} if samples else {}


def _alone(earlier: Sequence[TrialRecord]) -> dict[Key, int]:
    """The first that there is: mostly of the user's own settings."""
    for record in earlier:
        told = record.evidence.get(SAMPLES)
        pairs = told if isinstance(told, (list, tuple)) else ()
        found = {pair[0]: pair[1] for pair in pairs if isinstance(pair, (list, tuple)) and len(pair) == 2}
        if found:
            return found
    return {}
