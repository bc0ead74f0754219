"""What an epoch gains or loses because its queue begins empty: two replays of the same batches, cold and warm."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vtune.analysis.costs import Costs
from vtune.analysis.draws import drawn
from vtune.analysis.schedule import step_ends

REPLICATES = 40
# By then a queue is as it will be; a longer epoch only adds steady batches.
MOST_BATCHES = 400
# Fillings of the queue before the warm replay is looked at.
SETTLING = 4


def gained_s(costs: Costs, batches: int | None, late_s: Sequence[float] = ()) -> float | None:
    """Seconds by which an epoch of so many batches, from its first one's being there to its last step, is shorter than
    as many batches in the middle of a long one. None where the loader's schedule is another one.

    Workers that begin together deliver their rounds together, which wins time where the training waits for them; an
    empty queue has nothing to bridge slow batches with, which loses some where the two are about as fast. Workers that
    come one after the other (`late_s`, behind the first) hold up all that comes after their first batch.
    """
    workers, prefetch = costs.delivering, max(1, costs.prefetch_by_delivering)
    if not workers or not costs.in_order:
        return None
    count = MOST_BATCHES if batches is None else batches
    if count > MOST_BATCHES:
        # The last round holds as many batches as that of the whole epoch.
        count = MOST_BATCHES - (MOST_BATCHES - count) % workers
    settling = SETTLING * workers * prefetch
    # Compared with whole rounds, as the workers' batches come in rounds in the middle of an epoch, too.
    rounds = -(-count // workers) * workers
    busy, training = drawn(costs, (settling + rounds, REPLICATES), np.random.default_rng(0))
    cold = step_ends(busy[settling:], training.after(settling), workers=workers, prefetch=prefetch, late_s=late_s)
    warm = step_ends(busy, training, workers=workers, prefetch=prefetch)
    first = cold[0] - training.own[settling]
    as_many = (warm[-1] - warm[settling - 1]) * count / rounds
    return float(np.mean(as_many - (cold[count - 1] - first)))
