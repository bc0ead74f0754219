"""Two references compared: the verdict, the gate, what differs, and what stands against comparing them at all."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vtune.analysis.another_batch import batch_change
from vtune.analysis.comparable import contradicting, same_cache, settings_of
from vtune.analysis.doubts import is_calm
from vtune.analysis.laps import launched_otherwise, legs_of, races_in
from vtune.analysis.race import LEAST_ROUNDS
from vtune.analysis.remarks import disturbed_side
from vtune.analysis.two_sides import BOverA, Gate, compare_sides, gate
from vtune.domain.choice import RankedBy
from vtune.domain.effects import Scalar
from vtune.domain.numbers import rate, trials_text
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus
from vtune.errors import UsageError
from vtune.journal.files import to_json
from vtune.journal.machine import differences
from vtune.journal.ran import same_training
from vtune.knobs.registry import knobs_of
from vtune.reporting.inert import harmless
from vtune.reporting.references import Side
from vtune.reporting.words import settings_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    a: Side
    b: Side
    compared: BOverA
    gate: Gate | None
    # Why it would not be compared without --force; shown all the same.
    against_it: tuple[str, ...] = ()
    # That more than settings differ, and what.
    two_trainings: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def differing(self) -> dict[str, tuple[Scalar, Scalar]]:
        one, other = self.a.record.settings, self.b.record.settings
        names = dict.fromkeys((*one, *other))
        return {name: (one.get(name), other.get(name)) for name in names if one.get(name) != other.get(name)}


def compare_references(
    a: Side,
    b: Side,
    *,
    most: float | None = None,
    force: bool = False,
    race: str | None = None,
    delta: float | None = None,
) -> Comparison:
    """`most`: the slow-down from which the gate says no. `race`: the one to judge by, where there are several; `delta`:
    what at most may count as equal in it."""
    check_two(a, b)
    for side in (a, b):
        if not (side.record.measurement.samples_per_s or 0) > 0 or side.record.measurement.ceiling is not None:
            raise UsageError(f"{_the(side)} has no rate: {_why_none(side.record)}", hint="compare trials that have one")
    for side in (a, b):
        if side.record.on_busy_machine:
            raise UsageError(
                f"{_the(side)} decides nothing: it was measured on a busy machine",
                hint="measure its settings again while nothing else runs",
            )
    a, b = _apart(a, b)
    one_journal = a.folder is not None and b.folder is not None and a.folder.absolute() == b.folder.absolute()
    # What the gate asks for must not count as equal.
    zones = [zone for zone in (delta, most) if zone is not None]
    compared = compare_sides(
        _of_one_kind(a),
        _of_one_kind(b),
        cores=(a.cores, b.cores),
        races=a.records if one_journal else (),
        race=race,
        delta=min(zones, default=None),
    )
    against = tuple(_against(a, b, raced=compared.paired is not None))
    if against and not force:
        raise UsageError("; ".join(against), hint="--force compares them all the same, and says so")
    return Comparison(
        a=a,
        b=b,
        compared=compared,
        gate=gate(compared, most) if most is not None else None,
        against_it=against,
        two_trainings=_two_trainings(a, b),
        notes=(*_notes(a, b, compared), *(_left_out(a, b, compared, race) if one_journal else ())),
    )


def check_two(a: Side, b: Side) -> None:
    """A trial against itself is equal, whatever was measured: no gate may pass by that."""
    places = [side.folder.resolve() if side.folder else Path(side.reference).resolve() for side in (a, b)]
    if places[0] != places[1] or a.record.trial != b.record.trial:
        return
    picked = [side.reference for side in (a, b) if side.chosen]
    why = f" ({picked[0]} would choose it)" if picked else ""
    raise UsageError(
        f"A and B are both {_the(a)}{why}: a trial compared with itself tells nothing",
        hint="name two trials; vtune report lists those of a study",
    )


def comparison_to_json(found: Comparison, *, exit_code: int, race: dict[str, Any] | None = None) -> dict[str, Any]:
    compared = found.compared
    plain: dict[str, Any] = to_json(
        {
            "a": _side(found.a),
            "b": _side(found.b),
            "ratio": compared.ratio.value,
            "ratio_ci95": compared.ratio.ci95,
            "verdict": compared.verdict,
            "resolvable": compared.resolvable,
            "compared_by": compared.ranked_by,
            "paired_rounds": compared.paired.pairs if compared.paired is not None else None,
            "differing": {name: {"a": one, "b": other} for name, (one, other) in found.differing.items()},
            "fail_if_slower": found.gate.most if found.gate is not None else None,
            "could_be_seen": found.gate.could_be_seen if found.gate is not None else None,
            "against_it": found.against_it,
            "notes": (*([found.two_trainings] if found.two_trainings else ()), *found.notes),
            "race": race,
            "exit_code": exit_code,
        }
    )
    return plain


def _side(side: Side) -> dict[str, Any]:
    measured = side.record.measurement
    return {
        "reference": side.reference,
        "study": side.study,
        "trial": side.record.trial,
        "chosen": side.chosen,
        "launches": [record.trial for record in side.launches],
        "settings": side.record.settings,
        "samples_per_s": measured.samples_per_s,
        "samples_per_s_ci95": measured.samples_per_s_ci95,
        "samples_per_s_whole_run": measured.samples_per_s_whole_run,
        "cache": measured.cache,
        "machine": side.machine,
    }


def side_text(side: Side, raced: Sequence[TrialRecord] = ()) -> str:
    """trial 2 of demo (workers=4), chosen there; with trials 5, 7, of the same settings. `raced`: its launches in the
    race by which it is compared; then no others count."""
    settings = settings_text({name: value for name, value in side.record.settings.items() if value is not None})
    picked = ", the one that it would choose" if side.chosen else ""
    again = [record.trial for record in side.launches if record.trial != side.record.trial]
    more = f"; with {trials_text(again)}, of the same settings" if again else ""
    if raced:
        more = f"; in the race {trials_text([record.trial for record in raced])}"
    return f"{_the(side)}{picked}{f' ({settings})' if settings else ''}{more}"


def _the(side: Side) -> str:
    return f"trial {side.record.trial} of {harmless(side.study, 64)}"


def _why_none(record: TrialRecord) -> str:
    if record.measurement.ceiling is not None:
        return "it was fed from memory, to find what the training could reach"
    return harmless(record.detail or "") or record.status.value.replace("_", " ")


def _against(a: Side, b: Side, *, raced: bool) -> list[str]:
    """The rounds of a race are alike, whatever the two trials were that it began from."""
    lines = []
    for side in (a, b):
        if side.record.status is not TrialStatus.COMPLETED:
            status = side.record.status.value.replace("_", " ")
            lines.append(f"{_the(side)} did not complete ({status})")
    if a.machine is not None and b.machine is not None and (apart := differences(a.machine, b.machine)):
        lines.append(f"they were measured on different machines ({harmless('; '.join(apart))})")
    if not raced and not same_cache(a.record, b.record):
        one, other = a.record.measurement.cache, b.record.measurement.cache
        lines.append(f"{_the(a)} read its data {one} and {_the(b)} {other}: their rates answer different questions")
    return lines


def _apart(a: Side, b: Side) -> tuple[Side, Side]:
    """Of the same settings in the same study, each launch would stand on both sides."""
    both = {record.trial for record in a.launches} & {record.trial for record in b.launches}
    if a.study != b.study or a.folder != b.folder or not both:
        return a, b
    if a.folder is None and a.records != b.records:
        return a, b
    return replace(a, launches=(a.record,)), replace(b, launches=(b.record,))


def _of_one_kind(side: Side) -> Sequence[TrialRecord]:
    """The trial that was named stands first; with --force it may be one that did not complete."""
    return [side.record, *(record for record in side.launches if record.trial != side.record.trial)]


def _notes(a: Side, b: Side, compared: BOverA) -> list[str]:
    lines = []
    lacking = [
        side
        for side in (a, b)
        if any((record.measurement.samples_per_s_whole_run or 0) <= 0 for record in side.launches)
    ]
    if compared.met is None and compared.ranked_by != "samples_per_s_whole_run" and len(lacking) == 1:
        lines.append(f"not compared by the rate of a whole run, which is not known for {_the(lacking[0])}")
    batch = batch_change(b.record.measurement, a.record.measurement)
    if batch is not None:
        mean = "" if batch.exact else " in the mean"
        lines.append(
            f"the effective batch is {batch.then:.3g} in A and {batch.now:.3g} in B{mean}: they are different trainings"
        )
    if compared.met is None:
        lines += [said for side in (a, b) if (said := disturbed_side(_of_one_kind(side), side.cores)) is not None]
    if _two_trainings(a, b) is None and a.study != b.study and settings_of(a.record) == settings_of(b.record):
        lines.append("their settings are the same: what differs is the code, the data or the time of the measurement")
    for side in (a, b):
        if side.machine is None:
            lines.append(f"which machine {side.reference} was measured on is not known")
        if "unknown" in (side.record.measurement.cache,) and a.record.measurement.cache != b.record.measurement.cache:
            lines.append(f"whether {_the(side)} read its data cold or warm is not known")
        if not is_calm(side.record.measurement):
            lines.append(f"the rate of {_the(side)} was not shown to be steady")
        if side.record.measurement.fed_from_stock:
            lines.append(f"the window of {_the(side)} lived on batches that lay ready before: its rate would not last")
    if compared.paired is None and (len(a.launches) < 2 or len(b.launches) < 2):
        lines.append("from launches at different times: what changed on the machine between them is in the ratio")
    if compared.paired is not None and compared.paired.shown_equal:
        lines.append(f"the race shows them equal within {share(compared.paired.delta)}")
    if compared.paired is not None and compared.paired.not_paired:
        lines.append(
            f"{compared.paired.not_paired} rounds of the race were left out: the two read their data differently"
        )
    return lines


def _two_trainings(a: Side, b: Side) -> str | None:
    """What each trial ran; where a folder is gone, what its study would launch now."""
    if a.ran is not None and b.ran is not None:
        one, other = a.ran.command, b.ran.command
    elif a.folder != b.folder and a.experiment is not None and b.experiment is not None:
        one, other = a.experiment.workload.command, b.experiment.workload.command
    else:
        return None
    bindings = [binding for side in (b, a) if side.experiment is not None for binding in side.experiment.knobs]
    if same_training(one, other, {*(a.record.asked or ()), *(b.record.asked or ())}, knobs_of(bindings)):
        return None
    return (
        "these are two different trainings, not two settings of one:"
        f" A runs `{shlex.join(one)}`, and B `{shlex.join(other)}`"
    )


def _left_out(a: Side, b: Side, compared: BOverA, asked: str | None) -> list[str]:
    """Races of these two that do not count, and why: whoever has just run one must not look for its rounds in vain."""
    lines = []
    for race in races_in(b.records):
        otherwise = launched_otherwise(b.records, race, a.record, b.record)
        for record, legs in otherwise:
            names = contradicting(record.settings, legs[0].settings)
            then, now = (settings_text({name: of.settings[name] for name in names}) for of in (record, legs[0]))
            lines.append(
                f"race {race} does not count: its {trials_text([leg.trial for leg in legs])} ran with {now}, and trial"
                f" {record.trial} with {then}"
            )
        if race == asked and not otherwise and (compared.met is None or compared.met.race != race):
            legs = legs_of(b.records, race)
            failed = [leg.trial for leg in legs if leg.status is not TrialStatus.COMPLETED]
            why = f"; {trials_text(failed)} failed" if failed else ""
            told = f" ({trials_text([leg.trial for leg in legs])})" if legs else ""
            lines.append(
                f"race {race}{told} does not count: fewer than {LEAST_ROUNDS} of its rounds have a rate of both, read"
                f" alike{why}"
            )
    return lines


def share(value: float) -> str:
    percent = 100 * value
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


# What the verdict is about; each measure has its own.
MEASURES: Mapping[RankedBy, tuple[str, str]] = {
    "samples_per_s_whole_run": (
        "samples/s over the whole run",
        "the rate of a whole run, its start-up and epoch restarts included",
    ),
    "samples_per_s_epoch": (
        "samples/s over an epoch",
        "the rate of an epoch with its restart, for how many the run has was not found",
    ),
    "samples_per_s": ("samples/s", "the steady rate, without start-up and epoch restarts"),
}


def measure_text(found: Comparison) -> str:
    return f"compared by {MEASURES[found.compared.ranked_by][1]}"


def rates_text(found: Comparison) -> tuple[str, str]:
    unit = MEASURES[found.compared.ranked_by][0]
    one, other = (f"{rate(value.value)} {unit}" for value in found.compared.rates)
    return one, other
