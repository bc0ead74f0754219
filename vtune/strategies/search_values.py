"""Values that a search tries beyond a knob's usual ones: what trials ran with, and more workers where more won."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from vtune.analysis.comparable import launched_rate, metric_of
from vtune.domain.effects import Scalar
from vtune.domain.record import TrialRecord
from vtune.knobs.loader import WORKERS
from vtune.knobs.values import ranks_of
from vtune.strategies.foresight import WORTH_A_LAUNCH
from vtune.strategies.search_seen import Seen
from vtune.strategies.turned import turned

# Of the most workers that the space has, where the best so far has as many; and of cores, at most.
FURTHER, MOST_BY_CORES = (1.5, 2.0), 4
# A long journal would make a space of every value that anybody ever asked for.
MOST_OF_A_KNOB = 4
# A worker that computes for no more of its time than this leaves its core to others.
MOSTLY_WAITS = 0.5

Values = Mapping[str, frozenset[Scalar]]


def values_ran(fitting: Sequence[TrialRecord]) -> Values:
    """What was asked for and ran with, the fastest trials' first."""
    ranked_by = metric_of(fitting)
    found = defaultdict[str, set[Scalar]](set)
    for record in sorted(fitting, key=lambda one: launched_rate(one, ranked_by, None).value, reverse=True):
        for name, value in turned(record).items():
            if len(found[name]) < MOST_OF_A_KNOB:
                found[name].add(value)
    return {name: frozenset(values) for name, values in found.items()}


def more_workers(seen: Seen) -> frozenset[Scalar]:
    """Where the best so far has the most workers of all, and they wait for something else than a core or the model says
    that more would win. Whether their memory fits is judged with all other settings."""
    best = seen.fastest
    dimension = next((one for one in seen.space.dimensions if one.name == WORKERS.name), None)
    workers = {**seen.own, **best.settings}.get(WORKERS.name) if best is not None else None
    if best is None or dimension is None or not isinstance(workers, int) or workers < 1:
        return frozenset()
    if any(isinstance(n := choice.get(WORKERS.name), int) and n > workers for choice in dimension.choices):
        return frozenset()
    cores = seen.machine.cores_to_plan_for / ranks_of(seen.experiment.workload.command)
    further = (min(round(workers * factor), int(MOST_BY_CORES * cores)) for factor in FURTHER)
    more = sorted({one for one in further if one > workers})
    return frozenset(more) if more and (_waits(best) or _would_win(seen, best, more)) else frozenset()


def _waits(record: TrialRecord) -> bool:
    cost = record.measurement.worker_cost
    return cost is not None and cost.cpu_fraction is not None and cost.cpu_fraction <= MOSTLY_WAITS


def _would_win(seen: Seen, best: TrialRecord, more: Sequence[int]) -> bool:
    asked = turned(best)
    gains = [seen.model.gain({**asked, WORKERS.name: one}, asked) for one in more] if seen.model is not None else []
    return any(gain is not None and gain.value > WORTH_A_LAUNCH for gain in gains)
