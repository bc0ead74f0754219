"""A search as it may stand in a study, made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from support.studies import a_failure, a_trial
from vtune.domain.prediction import Prediction
from vtune.domain.record import TrialRecord
from vtune.domain.search import Dimension, Guess, Hunt, Importance, Space
from vtune.domain.trial import Proposal, TrialStatus

GIB = 2**30


def predicted(rate: float, *, ram: float | None = None) -> Prediction:
    """To a tenth either way."""
    needs = (
        {} if ram is None else {"ram_bytes": int(ram * GIB), "ram_ci95": (int(ram * 0.9 * GIB), int(ram * 1.1 * GIB))}
    )
    return Prediction(samples_per_s=rate, samples_per_s_ci95=(rate * 0.9, rate * 1.1), **needs)


def _searched(trial: int, rate: float, ram: float, foreseen: float | None = None, **asked: Any) -> TrialRecord:
    told = None if foreseen is None else predicted(foreseen, ram=ram)
    record = a_trial(
        trial, rate, asked=asked, workers=asked.get("workers", 1), batch=2,
        measured={"ram_peak_bytes": int(ram * GIB)}, origin="search", predicted=told,
    )  # fmt: skip
    return record if asked else replace(record, reason="the current settings")


# Whole runs make 0.98 of these.
BASELINE = _searched(1, 10.0, 1.0)
FASTEST = _searched(2, 40.0, 4.0, 39.0, workers=4)
SMALL = _searched(3, 20.0, 2.0, 30.0, workers=2)
DEAD = replace(
    a_failure(4, TrialStatus.OUT_OF_RAM, "stopped by vtune: 24 GiB of RAM in use", asked={"workers": 8}),
    origin="search", predicted=predicted(60.0),
)  # fmt: skip
RECORDS: tuple[TrialRecord, ...] = (BASELINE, FASTEST, SMALL, DEAD)
SPACE = Space(
    dimensions=(
        Dimension(name="workers", choices=tuple({"workers": n} for n in (0, 1, 2, 4, 8))),
        Dimension(name="prefetch_factor", choices=({"prefetch_factor": 2}, {"prefetch_factor": 4}), needs_workers=True),
        Dimension(
            name="batch_size",
            choices=({"batch_size": 1, "accumulate_steps": 2}, {"batch_size": 2, "accumulate_steps": 1}),
        ),
    ),
    settings=({}, {"workers": 2}, {"workers": 4}, {"workers": 8}),
    left_out=("pin_memory: there is no GPU whose copies it could speed up",),
)
GUESS = Guess(settings={"workers": 4, "prefetch_factor": 4}, predicted=predicted(44.0), gain=1.1)
IMPORTANCE = (
    Importance(knob="workers", over_own=4.0, over_worst=5.5, share=0.92),
    Importance(knob="prefetch_factor", over_own=1.04, over_worst=1.04, share=0.03),
)


def a_hunt(**fields: Any) -> Hunt:
    """After four trials; the next one is proposed."""
    proposal = Proposal(
        settings={"workers": 4, "prefetch_factor": 4}, reason="predicted best", origin="search",
        predicted=predicted(44.0, ram=5.0),
    )  # fmt: skip
    hunt = Hunt(
        sampler="auto", stage="searching", proposal=proposal, baseline=BASELINE, best=FASTEST, settings={"workers": 4},
        trials=(1, 2, 3, 4), counted=4, left=(1, 38), settings_in_all=40, over_a_limit=6, ruled_out_by_failures=2,
        next_best=(GUESS,),
    )  # fmt: skip
    return replace(hunt, **fields)


def an_end(**fields: Any) -> Hunt:
    ended = a_hunt(
        stage="done", proposal=None, left=(0, 0), ended="nothing untried can win more than 2 %", given_back=16,
        next_best=(), remarks=("the model and its trials differ by 30 %: Optuna's proposals are heeded, too",),
    )  # fmt: skip
    return replace(ended, **fields)
