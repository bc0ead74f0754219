"""What a run that cannot go on with its settings goes on with, and the command that does so."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from vtune.analysis.guard.safer import ACCUMULATE, Safer, next_safer
from vtune.domain.effects import Scalar
from vtune.domain.launch import Trouble
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus
from vtune.errors import UsageError
from vtune.execution.launch_ended import Ended
from vtune.knobs.plan import check_reachable
from vtune.knobs.registry import knob_named, knobs_of
from vtune.launcher.plan import PlannedLaunch
from vtune.reporting.commands import near
from vtune.reporting.words import setting_word
from vtune.strategies.race_plan import turned


def find_safer(
    planned: PlannedLaunch,
    now: TrialRecord,
    trouble: Trouble,
    *,
    but: Collection[int],
    settings: Mapping[str, Scalar],
) -> Safer | None:
    report = planned.report
    choice = report.choice
    unfit = {*but, *choice.over, *choice.cramped}
    return next_safer(
        report.compared,
        now,
        {**now.settings, **settings},
        trouble,
        turned=turned,
        turns_same=_leaves_the_mathematics(planned),
        can_accumulate=_can_accumulate(planned),
        but=unfit,
    )


def go_on_command(planned: PlannedLaunch, how: Ended, safer: Safer | None) -> str | None:
    """With the same settings where somebody stopped it, with safer ones where its own did not last. None where neither
    would help."""
    if how.status is not TrialStatus.INTERRUPTED and safer is None and not how.early:
        return None
    results = planned.study.root.parent
    words = ["vtune", "launch", "--study", planned.spec.study]
    words += [] if results == Path("results") else ["--results", near(results)]
    record, more = planned.record, dict(planned.extra)
    if safer is not None:
        record = safer.record
        more = {name: value for name, value in safer.settings.items() if turned(record).get(name) != value}
    words += ["--trial", str(record.trial)]
    for name, value in more.items():
        words += ["--set", f"{name}={setting_word(value)}"]
    words += ["--rescale-iterations"] if planned.keys else []
    words += ["--resume"] if planned.experiment.resume else []
    return shlex.join(words)


def _leaves_the_mathematics(planned: PlannedLaunch) -> Callable[[str], bool]:
    others = {knob.name for knob in knobs_of(planned.experiment.knobs) if knob.numerics != "SAME"}
    return lambda name: name not in others


def _can_accumulate(planned: PlannedLaunch) -> bool:
    try:
        check_reachable(knob_named(ACCUMULATE), planned.experiment)
    except UsageError:
        return False
    return True
