"""Simulated trainings: plain ones, which may be called steady, and shapes that a short window is fooled by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from vtune.execution.engines.simulated.surface import (
    Box,
    LoaderCost,
    Noise,
    SampleCost,
    StepCost,
    Surface,
    Unsteady,
)

BATCH = 4
STEP_S = 0.1
# Seconds of a sample: the two workers' batches come 2.5 times as fast as the steps, as fast, or more slowly. All are
# so fast that the trial time holds 900 steps.
FAST, EVEN, SLOW = 0.02, 0.05, 0.065
EPOCH = 20_000


@dataclass(frozen=True)
class Shape:
    name: str
    surface: Surface
    # Whether a window of the whole ground may call it steady, and mostly does.
    plain: bool = False


def _surface(
    *,
    sample_s: float = FAST,
    waits: bool = False,
    step_s: float = STEP_S,
    step_cv: float = 0.05,
    sample: dict[str, Any] | None = None,
    step: dict[str, Any] | None = None,
    **fields: Any,
) -> Surface:
    """`waits`: a sample's time is that of its storage, not of a core."""
    own = {"latency_s": sample_s} if waits else {"cpu_s": sample_s}
    surface = Surface(
        name="steady",
        sample=SampleCost(**{**own, "cv": 0.3, "batch_bytes": 1e5, **(sample or {})}),
        loader=LoaderCost(fork_s=0.01, boot_s=0.1, first_batch_s=0.05, dispatch_s=0.001, receive_s=0.001),
        step=StepCost(**{"base_s": 0.9 * step_s, "host_s": 0.1 * step_s, "cv": step_cv, **(step or {})}),
        box=Box(cores=32.0),
        noise=Noise(launch_sd=0.01),
        settings={"workers": 2, "prefetch_factor": 2, "batch_size": BATCH},
    )
    return replace(surface, **fields)


def _unsteady(**fields: Any) -> Unsteady:
    return Unsteady(**fields)


def _all() -> list[Shape]:
    plain = {
        "compute-bound": _surface(),
        "compute-bound, steps of CV 0.2": _surface(step_cv=0.2),
        "compute-bound, steps of 40 ms": _surface(step_s=0.04, sample_s=0.01),
        "balanced": _surface(sample_s=EVEN),
        "data-bound by its cores": _surface(sample_s=SLOW),
        "data-bound, samples of CV 1": _surface(sample_s=SLOW, sample={"cv": 1.0}),
        "eight workers, data-bound": _surface(
            sample_s=4 * SLOW, settings={"workers": 8, "prefetch_factor": 2, "batch_size": BATCH}
        ),
        "no workers": _surface(sample_s=FAST / 2, settings={"workers": 0, "batch_size": BATCH}),
        "every tenth step dearer": _surface(step={"every_steps": 10, "every_s": 0.3}),
        "a slow first step": _surface(sample_s=SLOW, step={"first_s": 20.0}),
        "compute-bound beside slow storage": _surface(sample_s=FAST, waits=True),
    }
    unsteady = {
        "a stop of 1.5 s every 150 steps": _surface(
            step_s=0.0085, sample_s=0.002, step={"every_steps": 150, "every_s": 1.5}
        ),
        "burst credit for 1000 samples": _surface(
            sample_s=EVEN, waits=True, unsteady=_unsteady(credit_samples=1000, credit_factor=3.0)
        ),
        "burst credit for 20 000 samples": _surface(
            sample_s=EVEN, waits=True, unsteady=_unsteady(credit_samples=20_000, credit_factor=3.0)
        ),
        "stretches of 300 slow samples": _surface(
            sample_s=EVEN,
            unsteady=_unsteady(order="file_order", stretch_every=3000, stretch_factor=8.0),
        ),
        "costs that grow with the index": _surface(
            sample_s=EVEN, samples_per_epoch=EPOCH, epochs=1000, unsteady=_unsteady(order="file_order", grows=2.0)
        ),
        "a machine that slows by 20 % in two minutes": _surface(unsteady=_unsteady(slows=0.2)),
        "the same, data-bound": _surface(sample_s=SLOW, unsteady=_unsteady(slows=0.2)),
        "a first epoch that caches": _surface(
            sample_s=SLOW, samples_per_epoch=EPOCH, epochs=1000, unsteady=_unsteady(kept_factor=0.2)
        ),
        "log-normal samples, σ 1.4": _surface(sample_s=SLOW, sample={"cv": 2.47, "law": "lognormal"}),
        "a pause of 3 s, by chance one step in 150": _surface(unsteady=_unsteady(stop_chance=1 / 150, stop_s=3.0)),
        "a pause of 3 s, by chance one step in 75": _surface(unsteady=_unsteady(stop_chance=1 / 75, stop_s=3.0)),
        "steps that follow each other, 0.98": _surface(unsteady=_unsteady(step_follows=0.98, step_sd=0.25)),
        "steps that follow each other, 0.995": _surface(unsteady=_unsteady(step_follows=0.995, step_sd=0.25)),
        "steps that follow each other, 0.9": _surface(unsteady=_unsteady(step_follows=0.9, step_sd=0.25)),
        "sticky slow steps": _surface(unsteady=_unsteady(slow_begins=1 / 100, slow_ends=1 / 30, slow_factor=3.0)),
        "sticky slow steps, rarer": _surface(
            unsteady=_unsteady(slow_begins=1 / 150, slow_ends=1 / 20, slow_factor=4.0)
        ),
    }
    return [
        Shape(name=name, surface=replace(surface, name=name, seed=900 + number), plain=name in plain)
        for number, (name, surface) in enumerate({**plain, **unsteady}.items())
    ]


SHAPES = tuple(_all())
