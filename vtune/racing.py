"""Two settings of one study, launched anew in turns: planned without a start, then run through the loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from vtune.analysis.comparable import contradicting
from vtune.analysis.race import DELTA, ROUNDS, Standing
from vtune.config.program import resolve_program
from vtune.domain.effects import Scalar
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus
from vtune.errors import UsageError, VtuneError
from vtune.journal.paths import StudyPaths
from vtune.reporting.comparison import check_two
from vtune.reporting.references import Side, find_side
from vtune.strategies.known import last_trial
from vtune.strategies.race import Race
from vtune.strategies.race_plan import RacePlan, plan_race
from vtune.strategies.relaunch import changed_since
from vtune.strategies.turned import turned
from vtune.tuner import Tuning, tune


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceResult:
    study: str
    race: str
    standing: Standing
    # All launches of the race, also those of an earlier call that was stopped.
    legs: tuple[TrialRecord, ...]
    interrupted: bool = False


def run_race(tuning: Tuning, asked: Race) -> RaceResult:
    """Raises where a launch ran with other settings than the trial that it was to stand for."""
    strategy = asked if asked.cores is not None else replace(asked, cores=tuning.machine.cores)
    before = last_trial(tuning.study.journal.read())
    strategy = replace(strategy, already=before, anyway=tuning.anyway)
    history = tune(tuning, strategy)
    if (stray := strategy.stray(history)) is not None:
        raise _strayed(*stray)
    return RaceResult(
        study=tuning.experiment.study,
        race=strategy.id,
        standing=strategy.standing(history),
        legs=tuple(strategy.legs(history)),
        interrupted=bool(history) and history[-1].status is TrialStatus.INTERRUPTED,
    )


def _strayed(leg: TrialRecord, expected: Mapping[str, Scalar]) -> VtuneError:
    names = contradicting(leg.settings, expected)
    ran, meant = (", ".join(f"{name}={of[name]}" for name in names) for of in (leg.settings, expected))
    return VtuneError(
        f"the race ended: trial {leg.trial} of it ran with {ran}, and was to stand for a trial with {meant}",
        hint="the training or its config has changed since that trial: probe both settings anew, and race those",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRace:
    a: Side
    b: Side
    # Where the study of both lies.
    folder: Path
    plan: RacePlan


def planned_race(
    a: str,
    b: str,
    *,
    study: str | None = None,
    results: Path = Path("results"),
    rounds: int = ROUNDS,
    delta: float = DELTA,
    again: bool = False,
) -> PlannedRace:
    """The race of two trials of one study by the settings that each turned, to be run by `race`. Starts and writes
    nothing."""
    one, other = (find_side(text, results=results, study=study) for text in (a, b))
    check_two(one, other)
    files = [side.reference for side in (one, other) if side.folder is None]
    if files:
        raise UsageError(
            f"--race launches settings of a study anew, and {' and '.join(files)} {'are' if files[1:] else 'is'} no"
            f" {'studies' if files[1:] else 'study'} but {'files' if files[1:] else 'a file'}",
            hint="name two trials of one study, as quickstart:1 quickstart:7",
        )
    if one.folder is None or other.folder is None or one.folder.absolute() != other.folder.absolute():
        raise UsageError(
            f"--race launches settings of one study anew, and {a} and {b} are of two",
            hint="name two trials of one study, as quickstart:1 quickstart:7",
        )
    plan = plan_race(
        one.records,
        one.record,
        other.record,
        rounds=rounds,
        delta=delta,
        cores=one.cores,
        again=again,
        refusal=_refusal(one, other, StudyPaths(one.folder)),
    )
    return PlannedRace(a=one, b=other, folder=one.folder, plan=plan)


def _refusal(a: Side, b: Side, study: StudyPaths) -> UsageError | None:
    if a.experiment is None:
        return None
    workload = a.experiment.workload
    command, _ = resolve_program(workload.command, workload.cwd, workload.env, ask=False)
    experiment = replace(a.experiment, workload=replace(workload, command=command))
    changed = (changed_since(one.record.trial, turned(one.record), experiment, study) for one in (a, b))
    return next((why for why in changed if why is not None), None)
