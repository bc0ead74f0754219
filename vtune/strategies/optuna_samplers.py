"""Optuna's samplers over a space of settings, each asked anew from what was measured: nothing else is remembered.

The only module that imports optuna, and only once a sampler is asked.
"""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from vtune.domain.effects import Scalar
from vtune.domain.search import Sampler, Space
from vtune.errors import MachineError
from vtune.strategies.indexed_space import IDLE, Axes, Code, IndexedSpace
from vtune.strategies.spread import nearest, spread_out

if TYPE_CHECKING:
    import optuna

# Before that many trials a model of Optuna's knows less than chance; the user's own settings are one of them.
STARTUP_TRIALS = {"tpe": 5, "gp": 3}
# What was measured or is ruled out is asked over that often, before its nearest neighbour is taken instead.
ASKED_OVER = {"tpe": 24, "gp": 4}
# A sampler's time grows with its trials, a Gaussian process's with their cube. Half of them the best, half the latest:
# they tell where to look and where not.
MOST_TOLD = {"tpe": 400, "gp": 120}
# PED-ANOVA compares the best tenth with all.
LEAST_FOR_IMPORTANCE = 10
# A child that needs longer than this to import torch and to ask once has hung.
CHILD_TIME_S = 120.0
LIMITS = "limits"
# By how much a trial that failed counts as over a limit, and what is foreseen to be over one.
FAILED = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One trial, as a sampler is told of it."""

    # Names that the space does not turn are not looked at.
    settings: Mapping[str, Scalar]
    # None where it failed.
    samples_per_s: float | None
    # By how much it is over a limit, log(needs / limit); at most 0 where it fits, 1 where it failed.
    over: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    code: Code
    log_rate: float
    over: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """All that a draw depends on."""

    sampler: Sampler
    axes: Axes
    rows: tuple[_Row, ...]
    # Settings that may be launched, in rising order.
    left: tuple[Code, ...]
    seed: int


def next_settings(
    sampler: Sampler,
    space: Space,
    told: Sequence[Told],
    *,
    candidates: Collection[Mapping[str, Scalar]],
    seed: int = 0,
) -> Mapping[str, Scalar] | None:
    """Of the candidates, what to measure next; never what was told. None where all of them were.

    The grid ignores the seed: it is the whole space, far apart first.
    """
    indexed = IndexedSpace(space)
    known = [(indexed.code(one.settings), one) for one in told]
    measured = {code for code, _ in known}
    by_code: dict[Code, Mapping[str, Scalar]] = {}
    for settings in candidates:
        code = indexed.code(settings)
        if code is None:
            raise ValueError(f"a candidate is not of the space: {dict(settings)}")
        if code not in measured:
            by_code.setdefault(code, settings)
    left = tuple(sorted(by_code))
    if not left:
        return None
    chance = random.Random(f"{seed} {len(told)}")
    if sampler == "random":
        return by_code[chance.choice(left)]
    if sampler == "grid":
        whole = {indexed.code(settings) for settings in space.settings}
        order = spread_out(sorted({*left, *(code for code in whole if code is not None)}), indexed.axes)
        return by_code[next(code for code in order if code in by_code)]
    question = _Question(
        sampler=sampler,
        axes=indexed.axes,
        rows=_rows([(code, one) for code, one in known if code is not None], most=MOST_TOLD[sampler]),
        left=left,
        seed=chance.getrandbits(31),
    )
    # torch is never imported here: where it is already, nothing is won by a child.
    drawn = _draw(question) if sampler != "gp" or "torch" in sys.modules else _draw_in_a_child(question)
    return by_code[drawn]


def optuna_importance(space: Space, told: Sequence[Told]) -> Mapping[str, float]:
    """Each dimension's share of what sets the best apart, by PED-ANOVA; empty with too few trials that fit."""
    indexed = IndexedSpace(space)
    fitting = [
        (code, one)
        for one in told
        if one.samples_per_s and one.over <= 0 and (code := indexed.code(one.settings)) is not None
    ]
    if len(fitting) < LEAST_FOR_IMPORTANCE:
        return {}
    import optuna

    with _quiet():
        study = _study(indexed.axes, _rows(fitting, most=len(fitting)), optuna.samplers.RandomSampler(seed=0))
        shares = optuna.importance.get_param_importances(study)
    return {space.dimensions[int(name)].name: float(share) for name, share in shares.items()}


def _rows(told: Sequence[tuple[Code, Told]], *, most: int) -> tuple[_Row, ...]:
    """What failed has the worst rate seen: a sampler must not like where it cannot go. What is over a limit keeps the
    rate it was measured at, for the constraint says the rest: a Gaussian process that is told of a cliff instead finds
    the best later (made-up trainings, 20 trials: 95 and 99 % of the best)."""
    worst = math.log(min((one.samples_per_s for _, one in told if one.samples_per_s), default=1.0))
    rows = [
        _Row(code=code, log_rate=math.log(one.samples_per_s), over=one.over)
        if one.samples_per_s
        else _Row(code=code, log_rate=worst, over=max(one.over, FAILED))
        for code, one in told
    ]
    if len(rows) <= most:
        return tuple(rows)
    latest = set(range(len(rows) - most // 2, len(rows)))
    best = sorted(set(range(len(rows))) - latest, key=lambda at: (rows[at].over > 0, -rows[at].log_rate, at))
    return tuple(rows[at] for at in sorted({*latest, *best[: most - len(latest)]}))


def _draw(question: _Question) -> Code:
    import optuna

    axes, left, startup = question.axes, frozenset(question.left), STARTUP_TRIALS[question.sampler]
    measured = {row.code for row in question.rows}
    worst = min((row.log_rate for row in question.rows), default=0.0)
    with _quiet():
        # Dimensions that not every trial has make groups for TPE; a Gaussian process knows none, and has them all. With
        # all of them, or each dimension alone, TPE did no differently on made-up trainings (88, 88, 90 % of the best).
        by_group = question.sampler == "tpe"
        sampler: optuna.samplers.BaseSampler = (
            optuna.samplers.TPESampler(seed=question.seed, n_startup_trials=startup, multivariate=True, group=True)
            if by_group
            else optuna.samplers.GPSampler(seed=question.seed, n_startup_trials=startup)
        )
        study = _study(axes, question.rows, sampler, whole=not by_group)
        first: Code | None = None
        for _ in range(ASKED_OVER[question.sampler]):
            trial = study.ask()
            code = _suggested(trial, axes, whole=not by_group)
            if code in left:
                return code
            first = first or code
            if code not in measured:
                # Foreseen to be over a limit.
                trial.set_constraint(LIMITS, FAILED)
                study.tell(trial, worst)
    assert first is not None
    return nearest(first, question.left, axes)


def _study(
    axes: Axes, rows: Sequence[_Row], sampler: optuna.samplers.BaseSampler, *, whole: bool = False
) -> optuna.Study:
    import optuna

    study = optuna.create_study(direction="maximize", sampler=sampler)
    places = [optuna.distributions.IntDistribution(0, size - 1) for size in axes.sizes]
    for row in rows:
        at_work = {str(at): max(place, 0) for at, place in enumerate(row.code) if whole or place != IDLE}
        study.add_trial(
            optuna.trial.create_trial(
                params=at_work,
                distributions={name: places[int(name)] for name in at_work},
                value=row.log_rate,
                constraints={LIMITS: row.over},
            )
        )
    return study


def _suggested(trial: optuna.Trial, axes: Axes, *, whole: bool) -> Code:
    # The workers first: what hangs on them is only asked for where there are some.
    order = sorted(range(len(axes.sizes)), key=lambda at: at != axes.workers)
    places = [IDLE] * len(axes.sizes)
    for at in order:
        if whole or at == axes.workers or at not in axes.idle(places):
            places[at] = trial.suggest_int(str(at), 0, axes.sizes[at] - 1)
    return axes.code(places)


@contextmanager
def _quiet() -> Iterator[None]:
    """Neither its log nor its warnings are for the reader; both are left as they were found."""
    import optuna

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)


def _draw_in_a_child(question: _Question) -> Code:
    """Optuna's Gaussian process needs torch, which vtune itself never loads. One child a draw: none is there, with its
    memory, while a training is measured."""
    environment = {
        **os.environ,
        # On the CPU, and never a CUDA context in the memory that a trial is about to be measured in.
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        # What vtune itself was imported from, and nothing that lies in the current folder.
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
    }
    command = [sys.executable, "-P", "-c", f"from {__name__} import answer; answer()"]
    try:
        # A group of its own: Ctrl-C is for vtune, which then ends it.
        done = subprocess.run(
            command, input=json.dumps(asdict(question)), env=environment, capture_output=True, text=True,
            timeout=CHILD_TIME_S, process_group=0,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise _no_gaussian_process(f"it did not answer within {CHILD_TIME_S:.0f} s") from None
    if done.returncode != 0:
        last = done.stderr.strip().rpartition("\n")[2]
        raise _no_gaussian_process(last or f"it ended with exit code {done.returncode}")
    drawn: Code = tuple(json.loads(done.stdout.rpartition("\n")[2]))
    return drawn


def answer() -> None:
    """In the child: one question on stdin, its answer the last line of stdout."""
    asked: dict[str, Any] = json.load(sys.stdin)
    question = _Question(
        sampler=asked["sampler"],
        axes=Axes(
            sizes=tuple(asked["axes"]["sizes"]),
            conditional=tuple(asked["axes"]["conditional"]),
            workers=asked["axes"]["workers"],
            without_workers=tuple(asked["axes"]["without_workers"]),
        ),
        rows=tuple(_Row(**{**row, "code": tuple(row["code"])}) for row in asked["rows"]),
        left=tuple(tuple(code) for code in asked["left"]),
        seed=asked["seed"],
    )
    drawn = _draw(question)
    json.dump(drawn, sys.stdout)


def _no_gaussian_process(why: str) -> MachineError:
    return MachineError(
        f"Optuna's Gaussian process could not be asked: {why}",
        hint="it needs torch in vtune's own Python; --sampler tpe does without",
    )
