"""Why no trial of a study is chosen: one answer for every command that would use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from vtune.analysis.others_words import MEASURE_AGAIN
from vtune.domain.choice import Choice
from vtune.domain.numbers import trials_text
from vtune.domain.record import TrialRecord
from vtune.errors import MachineError, VtuneError
from vtune.reporting.infeasible import OUT_OF_MEMORY
from vtune.reporting.study_report import StudyReport

ALL_THE_SAME = "--trial N launches one all the same"


class NoneChosen(StrEnum):
    NO_TRIAL = "no_trial"
    LIMITS = "limits"
    ROOM = "room"
    # Other programs held the cores.
    BUSY = "busy"
    NO_RATE = "no_rate"


HINTS: Mapping[NoneChosen, str] = {
    NoneChosen.NO_TRIAL: "measure the current settings with vtune probe",
    NoneChosen.LIMITS: f"vtune report says which limit ruled out each; {ALL_THE_SAME}",
    NoneChosen.ROOM: f"vtune report says how much was left; {ALL_THE_SAME}",
    NoneChosen.BUSY: f"{MEASURE_AGAIN}; {ALL_THE_SAME}",
    NoneChosen.NO_RATE: "vtune report says how each ended",
}


class NothingChosenError(VtuneError):
    """No trial of the study is feasible."""

    exit_code = 4


def why_none_chosen(records: Sequence[TrialRecord], choice: Choice) -> NoneChosen | None:
    if choice.best is not None:
        return None
    if not records:
        return NoneChosen.NO_TRIAL
    if choice.over or all(record.status in OUT_OF_MEMORY for record in records):
        return NoneChosen.LIMITS
    if choice.cramped:
        return NoneChosen.ROOM
    return NoneChosen.BUSY if any(record.on_busy_machine for record in records) else NoneChosen.NO_RATE


def none_chosen_text(why: NoneChosen, records: Sequence[TrialRecord], choice: Choice) -> str:
    match why:
        case NoneChosen.NO_TRIAL:
            return "no trial was recorded yet"
        case NoneChosen.LIMITS:
            return "no trial fits the limits"
        case NoneChosen.ROOM:
            return f"no trial has room enough, {trials_text(choice.cramped)} ran at the edge of it"
        case NoneChosen.BUSY:
            return (
                f"{trials_text([record.trial for record in records if record.on_busy_machine])} ran on a busy machine"
            )
        case NoneChosen.NO_RATE:
            return "no trial has a rate"


def none_chosen_error(report: StudyReport, why: NoneChosen) -> VtuneError:
    kind = MachineError if why is NoneChosen.BUSY else NothingChosenError
    text = none_chosen_text(why, report.compared, report.choice)
    return kind(f"study {report.study} has no trial to choose: {text}", hint=HINTS[why])
