"""A record's costs by batch, as far as it tells them; what it does not tell is guessed, and known to be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean

from vtune.analysis.compare import RUN_TO_RUN_SD
from vtune.analysis.model.setup import Setup
from vtune.domain.record import Measurement, TrialRecord

# Two launches differ by so much in all that they do, however many batches of one were seen.
LEAST_SD = RUN_TO_RUN_SD
# A share of a batch's time below which waiting is the clocks' own error, and that error.
LEAST_WAIT, CLOCKS = 0.003, 0.01
# Of what no instrument told: a loader's share of a step, a worker's of computing.
GUESSED_SD = 0.7
USUAL_CPU, USUAL_CPU_SD = 0.7, 0.4
USUAL_CV = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Seconds of one batch of one rank; `sd` of logarithms."""

    record: TrialRecord
    setup: Setup
    cpu_s: float
    cpu_sd: float
    # In a worker, neither computing nor in line for a core.
    wait_s: float
    wait_sd: float
    own_s: float
    own_sd: float
    own_cpu_s: float
    # What a step takes on top that comes once in so many batches.
    stop_s: float
    stop_every: float
    cv: float
    cv_sd: float
    dispatch_s: float
    delivery_s: float
    # Workers at work at once, on average; and of them those that computed or wanted to.
    busy: float
    computing: float
    # Of the workers, those that still had something to give.
    delivering: int

    @property
    def load_s(self) -> float:
        return self.cpu_s + self.wait_s


def row_of(record: TrialRecord, setup: Setup) -> Row | None:
    measured = record.measurement
    if not measured.samples_per_s:
        return None
    batch = setup.batch * max(1, measured.ranks)
    period_s = batch / measured.samples_per_s
    own_s, own_sd = _own(measured, batch, period_s)
    stop_s, stop_every = _stops(measured, setup)
    own_s = max(own_s - stop_s / stop_every, 0.01 * own_s)
    wall_s, wall_sd, known = _load(measured, setup, batch, period_s, own_s)
    main_cpu = next((use.cpu_fraction for use in measured.processes if use.role == "main"), None)
    if setup.workers:
        rate = 1 / period_s if not measured.restarts_in_rate else min(setup.workers / wall_s, 1 / own_s)
        busy = min(float(setup.workers), wall_s * rate)
        own_cpu_s = min(own_s, (main_cpu or 0.0) * period_s)
    else:
        busy, own_cpu_s = 0.0, own_s * min(1.0, main_cpu or 0.0)
    cpu, cpu_sd = _computing(measured, main_cpu, setup, known=known)
    cpu_s = cpu * wall_s
    queued_s = min(_queued_s(measured, setup, period_s), wall_s - cpu_s)
    wait_s = max(wall_s - cpu_s - queued_s, LEAST_WAIT * wall_s)
    cost, training = measured.worker_cost, measured.training_cost
    cv = cost.cv if cost is not None and cost.cv is not None else None
    batches = cost.batches if cost is not None and cost.batches else None
    return Row(
        record=record,
        setup=setup,
        cpu_s=max(cpu_s, 1e-9),
        cpu_sd=math.hypot(wall_sd, cpu_sd),
        wait_s=max(wait_s, 1e-9),
        wait_sd=min(1.5, math.hypot(wall_sd, (CLOCKS + cpu_sd * cpu) * wall_s / max(wait_s, 1e-9))),
        own_s=own_s,
        own_sd=own_sd,
        own_cpu_s=own_cpu_s,
        stop_s=stop_s,
        stop_every=stop_every,
        cv=max(cv, 0.01) if cv is not None else USUAL_CV,
        cv_sd=_cv_sd(cv, batches, bool(cost is not None and cost.slow)),
        dispatch_s=(cost.dispatch_s or 0.0) if cost is not None else 0.0,
        delivery_s=(training.delivery_s or 0.0) if training is not None else 0.0,
        busy=busy,
        computing=busy * (cpu_s + queued_s) / wall_s,
        delivering=cost.delivering if cost is not None and cost.delivering else setup.workers,
    )


def _own(measured: Measurement, batch: int, period_s: float) -> tuple[float, float]:
    cost = measured.training_cost
    if cost is not None and cost.batch_s > 0:
        # Where it stands still every n-th step, nearly all of its spread is those.
        cv = USUAL_CV if cost.long_steps else cost.cv or USUAL_CV
        return cost.batch_s, max(LEAST_SD, cv / math.sqrt(max(4, measured.steps_measured)))
    if measured.compute_samples_per_s:
        return min(period_s, batch / measured.compute_samples_per_s), 0.1
    if measured.data_wait_fraction is not None:
        return period_s * max(0.02, 1 - measured.data_wait_fraction), 0.2
    return 0.6 * period_s, GUESSED_SD


def _stops(measured: Measurement, setup: Setup) -> tuple[float, float]:
    """Of a training that stands still every n-th step: workers go on meanwhile, and its usual step is the shorter."""
    cost = measured.training_cost
    if cost is None or not cost.long_steps or not cost.period_steps or not cost.period_extra_s:
        return 0.0, 1.0
    return cost.period_extra_s, float(cost.period_steps * setup.accumulate)


def _load(measured: Measurement, setup: Setup, batch: int, period_s: float, own_s: float) -> tuple[float, float, bool]:
    """A worker's time for a batch (the training's own, without workers), and whether it was seen."""
    cost = measured.worker_cost
    if setup.workers and cost is not None and cost.batch_s > 0:
        many = max(4, cost.batches or 4)
        return cost.batch_s, max(LEAST_SD, (cost.cv if cost.cv is not None else USUAL_CV) / math.sqrt(many)), True
    workers = max(1, setup.workers)
    if measured.loader_samples_per_s:
        return workers * batch / measured.loader_samples_per_s, 0.05 if not setup.workers else 0.2, True
    if not setup.workers:
        return max(period_s - own_s, 0.01 * period_s), 0.1, False
    if (measured.data_wait_fraction or 0.0) > 0.05:
        return workers * period_s, 0.2, False
    # It keeps up, and nobody knows with how much ease.
    return 0.5 * workers * period_s, GUESSED_SD, False


def _computing(measured: Measurement, main_cpu: float | None, setup: Setup, *, known: bool) -> tuple[float, float]:
    """Share of a worker's batch that is computing."""
    cost = measured.worker_cost
    if setup.workers and known and cost is not None and cost.cpu_fraction is not None:
        return min(max(cost.cpu_fraction, 0.001), 1.0 - LEAST_WAIT), 0.005
    if not setup.workers and main_cpu is not None:
        return min(max(main_cpu, 0.02), 1.0 - LEAST_WAIT), 0.25
    return USUAL_CPU, USUAL_CPU_SD


def _queued_s(measured: Measurement, setup: Setup, period_s: float) -> float:
    """In line for a core, of each batch; nothing where nobody told."""
    queued = [
        use.queued_fraction for use in measured.processes if use.role != "main" and use.queued_fraction is not None
    ]
    return fmean(queued) * setup.workers * period_s if queued and setup.workers else 0.0


def _cv_sd(cv: float | None, batches: int | None, slow: bool) -> float:
    if cv is None:
        return GUESSED_SD
    # Of few slow ones the spread is a matter of luck.
    return (0.4 if slow else 0.05) + 1.0 / math.sqrt(max(4, batches or 4))
