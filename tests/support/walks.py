"""A walk along a plan as it may stand in a study, made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from support.studies import a_failure, a_trial
from vtune.domain.phases import (
    AskedPhases,
    Missed,
    Option,
    OptionOutcome,
    Phase,
    PhaseOutcome,
    PhaseRung,
    Plan,
    Times,
    Walk,
)
from vtune.domain.prediction import Prediction
from vtune.domain.record import TrialRecord
from vtune.domain.trial import Proposal, TrialStatus

WORKERS = Phase(
    number=1, name="workers", knob="workers", rungs=({"workers": 1}, {"workers": 2}, {"workers": 4}, {"workers": 6}),
    risk_words="RAM, of which each worker holds its own",
)  # fmt: skip
BATCH = Phase(
    number=2, name="batch", knob="batch_size", risk="medium", accumulate_instead=True,
    rungs=({"batch_size": Times(factor=2.0)}, {"batch_size": Times(factor=4.0)}),
)  # fmt: skip
PREFETCH = Phase(number=3, name="prefetch", knob="prefetch_factor", rungs=({"prefetch_factor": 2},))
OPTION = Option(name="A", settings={"workers": 4, "batch_size": Times(factor=2.0)})
PLAN = Plan(name="ladder", about="one knob after the other", phases=(WORKERS, BATCH, PREFETCH), options=(OPTION,))
ASKED = AskedPhases(plan=PLAN)
PREDICTED = Prediction(samples_per_s=41.0, samples_per_s_ci95=(36.0, 45.0), ram_bytes=3 * 2**30)

BASELINE = a_trial(1, 10.0, batch=1)
FASTER = a_trial(2, 20.0, asked={"workers": 2}, batch=1)
FASTEST = a_trial(3, 39.0, asked={"workers": 4}, batch=1)
TOO_BIG = a_failure(4, TrialStatus.OUT_OF_RAM, "stopped by vtune: 24 GiB of RAM in use", asked={"workers": 6})
TWICE = a_trial(5, 40.0, asked={"workers": 4, "batch_size": 2}, batch=2, measured={"samples_per_epoch": 8000})
OPTION_A = a_trial(6, 40.5, asked={"workers": 4, "batch_size": 2}, batch=2, measured={"samples_per_epoch": 8000})
RECORDS: tuple[TrialRecord, ...] = (BASELINE, FASTER, FASTEST, TOO_BIG, TWICE)
MISSED = Missed(settings={"workers": 6, "batch_size": 2}, predicted=PREDICTED, gain=1.31, least_gain=1.12)


def a_rung(**fields: Any) -> PhaseRung:
    return PhaseRung(**{"turned": {}, "settings": {}, "state": "open", **fields})


def climbed() -> tuple[PhaseOutcome, ...]:
    """Workers up to 4, then a batch that is no faster; prefetch is still to come."""
    workers = (
        a_rung(turned={"workers": 2}, settings={"workers": 2}, state="kept", why="2.0× ± 0.1 of trial 1", trial=2,
               gain=2.0),
        a_rung(turned={"workers": 4}, settings={"workers": 4}, state="kept", why="1.95× ± 0.08 of trial 2", trial=3,
               gain=1.95, predicted=PREDICTED),
        a_rung(turned={"workers": 6}, settings={"workers": 6}, state="rejected",
               why="out of ram: 24 GiB of RAM in use", trial=4),
    )  # fmt: skip
    batch = (
        a_rung(turned={"batch_size": 2}, settings={"workers": 4, "batch_size": 2}, state="rejected", trial=5, gain=1.03,
               why="1.03× ± 0.06 of trial 3: not shown to be faster by more than 2%"),
        a_rung(turned={"batch_size": 4}, state="skipped", why="predicted to need at least 90 GiB of VRAM",
               not_judged=("GPU > 50 %: not judged, no GPU was seen",)),
    )  # fmt: skip
    return (
        PhaseOutcome(phase=WORKERS, rungs=workers, kept={"workers": 4}, done=True,
                     why="workers=4: 3.9× of what had won before"),
        PhaseOutcome(phase=BATCH, rungs=batch, done=True, why="nothing of it was better"),
        PhaseOutcome(phase=PREFETCH, rungs=(a_rung(turned={"prefetch_factor": 2}),)),
    )  # fmt: skip


def a_walk(**fields: Any) -> Walk:
    """After its second phase; the next trial is proposed."""
    walk = Walk(
        stage="phases",
        proposal=Proposal(
            settings={"workers": 4, "prefetch_factor": 2},
            reason="phase 3 of 3, prefetch_factor 1 → 2",
            origin="phase:3:prefetch_factor",
        ),
        baseline=BASELINE,
        settings={"workers": 4},
        best=FASTEST,
        phases=climbed(),
        trials=(1, 2, 3, 4, 5),
        left=(1, 1),
    )
    return replace(walk, **fields)


def an_end(**fields: Any) -> Walk:
    """All of it, with the plan's option measured beside."""
    done = replace(climbed()[2], rungs=(), done=True, why="it is set already")
    option = OptionOutcome(option=OPTION, settings={"workers": 4, "batch_size": 2}, predicted=PREDICTED, trial=6)
    ended = a_walk(
        stage="done", proposal=None, phases=(*climbed()[:2], done), options=(option,), trials=(1, 2, 3, 4, 5, 6),
        left=(0, 0),
    )  # fmt: skip
    return replace(ended, **fields)
