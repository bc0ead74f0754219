"""From a study's records to a model of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from vtune.analysis.comparable import has_rate, launched_rate, metric_of
from vtune.analysis.compare import RUN_TO_RUN_SD, Z95, Rate
from vtune.analysis.model.curve import normal_scores
from vtune.analysis.model.memory import MemoryModel
from vtune.analysis.model.points import nearness, points_of
from vtune.analysis.model.predict import Covered, Model, Rates
from vtune.analysis.model.residuals import Residuals
from vtune.analysis.model.rows import row_of
from vtune.analysis.model.rungs import rungs_of
from vtune.analysis.model.setup import Base, Setup
from vtune.analysis.model.telling import Sure, by_setup, merged, telling, together
from vtune.analysis.model.time import DRAWS, TimeModel
from vtune.analysis.model.too_big import shortages_of, took_by
from vtune.analysis.model.whole import WholeRun
from vtune.domain.compared import RankedBy
from vtune.domain.record import TrialRecord

# Of a rate that has no interval of its own; and of one that lived on batches from before its window, where the costs
# alone tell something.
UNKNOWN_SD, FLATTERED_SD = 0.1, 0.5


def fit_model(
    records: Sequence[TrialRecord], *, cores: float | None, ram_total_bytes: int | None = None
) -> Model | None:
    """None where no trial has told a rate and what it ran with."""
    base = Base(records)
    known = [(record, setup) for record in records if (setup := base.setup_of(record)) is not None]
    rated = _alike([(record, setup) for record, setup in known if has_rate(record)])
    own = base.setup_of(base.record) if base.record is not None else None
    launches = [
        rows
        for setup, group in telling(by_setup(rated), own).items()
        if (rows := [row for record in group if (row := row_of(record, setup)) is not None])
    ]
    if not launches or base.record is None:
        return None
    rows = [merged(group) for group in launches]
    ranked_by = metric_of([record for record in records if has_rate(record)])
    regimes = tuple(dict.fromkeys(row.setup.regime for row in rows))
    points = points_of([row.setup for row in rows], regimes)
    near = nearness(points, points)
    rungs = [one for one in rungs_of(known) if one.setup.regime in regimes]
    rates = Rates(
        time=TimeModel(rows, rungs, regimes, cores),
        whole=WholeRun([row for group in launches for row in group], ranked_by, base.record),
        off=np.random.default_rng(2).permutation(normal_scores(DRAWS)),
    )
    measured = [together([_launched(row.record, ranked_by, cores) for row in group]) for group in launches]
    ran = ((record, setup) for record, setup in known if has_rate(record) and setup.regime in regimes)
    fitting = telling(by_setup(ran), own)
    sizes = (gpu.vram_total_bytes for record, _ in known for gpu in record.measurement.gpus)
    return Model(
        base,
        Covered(
            points=points,
            regimes=regimes,
            ranked_by=ranked_by,
            ram_total_bytes=ram_total_bytes,
            vram_total_bytes=max((size for size in sizes if size is not None), default=None),
        ),
        rates=rates,
        residuals=Residuals(
            rates.drawn(points, near),
            near,
            np.array([one.value for one in measured]),
            np.array([one.sd for one in measured]),
        ),
        memory=MemoryModel([(record, one) for one, group in fitting.items() for record in group], rungs, regimes),
        shortages=shortages_of(known, rungs),
        taken=took_by(known),
    )


def _alike(rated: list[tuple[TrialRecord, Setup]]) -> list[tuple[TrialRecord, Setup]]:
    """Cold and warm reading are different questions: what most trials did, and of equally many the later."""
    regimes = [record.measurement.cache for record, _ in rated]
    counts = Counter(one for one in regimes if one != "unknown")
    last = {one: at for at, one in enumerate(regimes)}
    usual = max(counts, key=lambda one: (counts[one], last[one]), default="unknown")
    return [one for one in rated if one[0].measurement.cache in (usual, "unknown")]


def _launched(record: TrialRecord, ranked_by: RankedBy, cores: float | None) -> Sure:
    rate = launched_rate(record, ranked_by, cores)
    return Sure(value=math.log(rate.value), sd=_sd(record, rate))


def _sd(record: TrialRecord, rate: Rate) -> float:
    if record.measurement.fed_from_stock:
        return FLATTERED_SD
    if rate.interval is None or rate.interval[0] <= 0:
        return UNKNOWN_SD
    return max(RUN_TO_RUN_SD, math.log(rate.interval[1] / rate.interval[0]) / 2 / Z95)
