"""What a run that cannot go on with its settings goes on with, and the command that does so."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
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
from vtune.strategies.turned import turned

# Less is what launches differ by.
WORTH_A_WORD = 1.05


@dataclass(frozen=True, slots=True, kw_only=True)
class GoOn:
    command: str
    # What has to be known before it is typed: what it costs, where it begins.
    note: str | None = None


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


def go_on(
    planned: PlannedLaunch, record: TrialRecord, settings: Mapping[str, Scalar], *, saved: bool, ran: TrialRecord
) -> GoOn:
    """With these settings of this trial; as it was launched in all else. `saved`: there is something to go on from."""
    results = planned.study.root.parent
    words = ["vtune", "launch", *planned.typed]
    words += [] if results == Path("results") else ["--results", near(results)]
    words += ["--trial", str(record.trial)]
    own = turned(record)
    for name, value in settings.items():
        if own.get(name) != value:
            words += ["--set", f"{name}={setting_word(value)}"]
    words += ["--rescale-iterations"] if planned.keys else []
    words += ["--step-down"] if planned.spec.step_down else []
    notes = [] if (cost := slower_by(record, ran)) is None else [cost]
    if not planned.experiment.resume:
        over = ", over what it may have saved" if saved else ""
        notes.append(f"from its beginning{over}: vtune.resume does not say how else")
        words += ["--force"] if saved and "--force" not in words else []
    elif not saved:
        notes.append("from its beginning: no checkpoint was seen")
    else:
        words.append("--resume")
    return GoOn(command=shlex.join(words), note=", ".join(notes) or None)


def lost_for_no_known_reason(how: Ended) -> bool:
    """A worker without a sign of memory: somebody killed it, or the machine had one bad moment. Fewer workers may cost
    most of the speed for days, and another loss tells."""
    return how.status is TrialStatus.CRASHED and how.trouble == "workers"


def if_again(once_more: GoOn, safer: Safer | None, ran: TrialRecord) -> GoOn:
    """With the same settings, and what they are left for if that does not last."""
    if safer is None:
        return once_more
    fewer = [f"if a worker is lost again, --trial {safer.record.trial} has fewer", slower_by(safer.record, ran)]
    return replace(once_more, note=", ".join(one for one in (once_more.note, *fewer) if one))


def slower_by(record: TrialRecord, ran: TrialRecord) -> str | None:
    """What it costs to go on with the settings of another trial, as both were measured."""
    then, now = ran.measurement.samples_per_s, record.measurement.samples_per_s
    if record.trial == ran.trial or not then or not now or then / now < WORTH_A_WORD:
        return None
    return f"{then / now:.1f} times slower than what ran"


def _leaves_the_mathematics(planned: PlannedLaunch) -> Callable[[str], bool]:
    others = {knob.name for knob in knobs_of(planned.experiment.knobs) if knob.numerics != "SAME"}
    return lambda name: name not in others


def _can_accumulate(planned: PlannedLaunch) -> bool:
    try:
        check_reachable(knob_named(ACCUMULATE), planned.experiment)
    except UsageError:
        return False
    return True
