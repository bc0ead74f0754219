"""A study as its journal tells it, judged anew: what every kind of report is made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from vtune.analysis.choose import choose
from vtune.analysis.comparable import own_measurement
from vtune.analysis.renewal_words import renewal_text
from vtune.analysis.renewed import with_launches
from vtune.config.remembered import Remembered, remember
from vtune.domain.choice import Choice, Lost
from vtune.domain.experiment import Experiment, Limits, Price
from vtune.domain.machine import Machine
from vtune.domain.numbers import trials_text
from vtune.domain.phases import rolled_back
from vtune.domain.record import CODE, Measurement, TrialRecord
from vtune.domain.renewal import Renewal
from vtune.domain.repeated import Repeated
from vtune.domain.trial import tunes
from vtune.errors import UsageError
from vtune.foreign.read import read_json
from vtune.journal.code import changed_code
from vtune.journal.find_study import find_study
from vtune.journal.fingerprint import fingerprint_of
from vtune.journal.ignored_flags import heeding
from vtune.journal.journal import Journal, JournalText
from vtune.journal.machine import read_machine
from vtune.journal.paths import StudyPaths
from vtune.journal.renewals import read_renewals
from vtune.journal.scouted import scouted, scouted_measurement
from vtune.knobs.registry import same_knobs
from vtune.reporting.phases_of_study import PhasesOfStudy, read_phases
from vtune.reporting.search_of_study import SearchOfStudy, read_search


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyReport:
    study: str
    folder: Path
    records: tuple[TrialRecord, ...]
    choice: Choice
    limits: Limits = field(default_factory=Limits)
    price: Price | None = None
    # What was asked, where the training's own files are here; only then are its config keys known.
    experiment: Experiment | None = None
    # Why they are not, or not those that were named now.
    unread: UsageError | None = None
    machine: Machine | None = None
    # The file of the user's that names this study, where it is still here.
    config: Path | None = None
    # file:line at which the training makes its loader, as far as a trial had to learn it.
    loader_at: str | None = None
    # Of a scout run, which turned nothing and is no trial.
    scouted: Measurement | None = None
    # In words: limits that were typed for this report and are not the study's. What follows from them is no result.
    what_if: str | None = None
    # What of the journal could not be read, in words.
    journal_notes: tuple[str, ...] = ()
    # How far along a plan of phases it is; None where none was walked.
    phases: PhasesOfStudy | None = None
    # The same of a search.
    search: SearchOfStudy | None = None
    # What the scout run of their trials took, which is no trial itself.
    scout_s: float = 0.0
    # Promises that launches have renewed, the earliest first.
    renewals: tuple[Renewal, ...] = ()

    @property
    def own(self) -> Measurement | None:
        """Of the user's own settings, as far as a trial or the scout run has told."""
        baseline = self.choice.baseline if self.choice.baseline_is_own else None
        return baseline.measurement if baseline is not None else own_measurement(self.compared) or self.scouted

    @property
    def repeats_now(self) -> Repeated | None:
        """Data that the user's present settings were shown to repeat: until that is mended no rate of theirs is one to
        compare with."""
        best = self.choice.best
        known = (self.own, best.measurement if best is not None else None)
        return next((one.repeated for one in known if one and one.repeated and one.repeated.is_shown), None)

    @property
    def compared(self) -> tuple[TrialRecord, ...]:
        """All but those that ran another training than the phases, or than the search."""
        left_out = _left_out(self.phases, self.search)
        return tuple(record for record in self.records if record.trial not in left_out)

    @property
    def tuned_by(self) -> tuple[int, ...]:
        """The trials that phases and a search rest on; all that were tuned by, where the best is none of them."""
        both = (one.trials for one in (self.phases, self.search) if one is not None)
        found = dict.fromkeys(trial for trials in both for trial in trials)
        if self.choice.best is not None and self.choice.best.trial not in found:
            found |= dict.fromkeys(one.trial for one in self.records if tunes(one.origin))
        return tuple(found)


def find_report(
    study: str | None = None,
    *,
    config: str | Path | None = None,
    results: Path = Path("results"),
    limits: Limits | None = None,
    price: Price | None = None,
) -> StudyReport:
    """A study from its journal: the one named, the config's, or the one used last. Starts and writes nothing."""
    asked = remember(config) if config is not None else None
    paths = find_study(results, study or (asked.study if asked is not None else None))
    return read_study_report(paths, asked=asked, limits=limits, price=price)


def read_study_report(
    paths: StudyPaths, *, asked: Remembered | None = None, limits: Limits | None = None, price: Price | None = None
) -> StudyReport:
    """`limits` and `price` go before those of a config named now (`asked`), and those before what the study was asked
    with. Nothing is locked and nothing written: another vtune may be at work on the study."""
    known = [asked or Remembered(), _remembered(paths.experiment)]
    said = [Remembered(limits=limits or Limits(), price=price), *known]
    own, limits = _limits(known), _limits(said)
    experiment = next((heeding(one.experiment, paths) for one in said if one.experiment is not None), None)
    unread = next((one.unread for one in known if one.unread is not None or one.experiment is not None), None)
    price = next((one.price for one in said if one.price is not None), None)
    machine = read_machine(paths.machine)
    text = Journal(paths.journal).read_whole()
    renewals = read_renewals(paths)
    same = same_knobs(experiment.knobs if experiment is not None else ())
    records = [_priced(record, price) for record in with_launches(text.records, renewals, same)]
    phases, search = read_phases(paths.phases), read_search(paths.search)
    return StudyReport(
        study=paths.root.name,
        folder=paths.root,
        records=tuple(records),
        choice=_chosen(records, limits, machine, experiment, phases, search, renewals),
        limits=limits,
        price=price,
        experiment=experiment,
        unread=unread,
        machine=machine,
        config=_config(experiment, paths),
        loader_at=_loader_at(experiment, paths, records),
        scouted=scouted_measurement(experiment, paths) if experiment is not None else None,
        what_if=_what_if(limits, own),
        journal_notes=tuple(_journal_notes(text)),
        phases=phases,
        search=search,
        scout_s=_scout_s(paths, phases, search),
        renewals=renewals,
    )


def _left_out(phases: PhasesOfStudy | None, search: SearchOfStudy | None) -> tuple[int, ...]:
    """By the one that was at work last: the training may have changed in between."""
    known = [one for one in (phases, search) if one is not None]
    return max(known, key=lambda one: max(one.trials, default=0)).left_out if known else ()


def _rolled_back(phases: PhasesOfStudy | None, search: SearchOfStudy | None) -> tuple[int, ...]:
    """As long as no search has looked at the same settings since, which asks no phase."""
    if phases is None or (search is not None and max(search.trials, default=0) > max(phases.trials, default=0)):
        return ()
    return rolled_back([rung for outcome in phases.phases for rung in outcome.rungs])


def _chosen(
    records: Sequence[TrialRecord],
    limits: Limits,
    machine: Machine | None,
    experiment: Experiment | None,
    phases: PhasesOfStudy | None,
    search: SearchOfStudy | None,
    renewals: Sequence[Renewal],
) -> Choice:
    left_out = _left_out(phases, search)
    choice = choose(
        [record for record in records if record.trial not in left_out],
        limits=limits,
        ram_total_bytes=machine.ram_bytes if machine is not None else None,
        cores=machine.cores if machine is not None else None,
        same=same_knobs(experiment.knobs if experiment is not None else ()),
        rolled_back=_rolled_back(phases, search),
    )
    others = (
        Lost(
            trial=record.trial,
            reason="other_training",
            why="it ran another command, config or code than the later ones",
        )
        for record in records
        if record.trial in left_out
    )
    told = (f"launch {one.launch} of trial {one.trial}: {renewal_text(one)}" for one in renewals)
    return replace(choice, lost=(*choice.lost, *others), remarks=(*choice.remarks, *told))


def gpu_was_seen(records: Sequence[TrialRecord]) -> bool:
    return any(record.measurement.gpus or record.measurement.vram_peak_bytes is not None for record in records)


def _journal_notes(text: JournalText) -> Iterator[str]:
    if text.torn:
        yield "the last line of the journal has no end (a trial is being recorded, or vtune was killed): left out"
    if text.unreadable:
        by = "written by a newer vtune" if text.newer == text.unreadable else f"{text.newer} written by a newer vtune"
        yield (
            f"{_lines(text.unreadable)} of the journal cannot be read by this vtune"
            f"{f' ({by})' if text.newer else ''}: left out"
        )
    if text.joined:
        lost = f"up to {text.lost} of their records may be lost" if text.lost else "their records were told apart"
        yield f"{_lines(text.joined)} of the journal held more than one record (a line end was lost): {lost}"
    if text.repeated:
        one = len(text.repeated) == 1
        yield (
            f"{trials_text(text.repeated)} {'stands' if one else 'stand'} in more than one line of the journal:"
            f" {'its' if one else 'their'} last line is what is reported"
        )


def _lines(number: int) -> str:
    return "1 line" if number == 1 else f"{number} lines"


def _remembered(path: Path) -> Remembered:
    try:
        return remember(path)
    except UsageError as error:
        return Remembered(unread=error)
    except OSError as error:
        return Remembered(
            unread=UsageError(f"{path} cannot be read: {error.strerror}", hint="let this account read it")
        )


def _limits(said: Sequence[Remembered]) -> Limits:
    return Limits(
        vram=next((one.limits.vram for one in said if one.limits.vram is not None), None),
        ram=next((one.limits.ram for one in said if one.limits.ram is not None), None),
    )


def _what_if(limits: Limits, own: Limits) -> str | None:
    lines = []
    for name, now, then in (("RAM", limits.ram, own.ram), ("VRAM", limits.vram, own.vram)):
        if now is not None and (then is None or (now.bytes, now.fraction) != (then.bytes, then.fraction)):
            lines.append(f"a {name} limit of {now.text} (the study's own: {then.text if then is not None else 'none'})")
    return f"a what-if, with {' and '.join(lines)}" if lines else None


def _config(experiment: Experiment | None, paths: StudyPaths) -> Path | None:
    """Only where going on with it comes to the same: the same study, the same command, and nothing turned by itself."""
    if experiment is None:
        return None
    for path in (experiment.source, experiment.workload.config_path):
        if path is None or path.absolute() == paths.experiment.absolute():
            continue
        written = _remembered(path)
        if (
            written.study == paths.root.name
            and written.experiment is not None
            and written.experiment.workload.command == experiment.workload.command
            and not written.experiment.settings
        ):
            return path
    return None


def _scout_s(paths: StudyPaths, *tuned: PhasesOfStudy | SearchOfStudy | None) -> float:
    scout = scouted(paths)
    if scout is None:
        return 0.0
    number, took_s = scout
    return took_s if any(one is not None and number in one.trials for one in tuned) else 0.0


def _loader_at(experiment: Experiment | None, paths: StudyPaths, records: Sequence[TrialRecord]) -> str | None:
    """As long as the scripts are those that were asked, or those of the last trial: the line moves when they change."""
    try:
        answer = read_json(paths.scout_result)
        known = experiment is not None and answer["question"] == fingerprint_of(experiment)
        last = next((one for one in reversed(records) if CODE in one.evidence), None)
        known = known or (experiment is not None and last is not None and not changed_code(last, {}))
        return str(answer["where"]) if known else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _priced(record: TrialRecord, price: Price | None) -> TrialRecord:
    """At today's price: trials may have been run while another one was known, or none."""
    projected = record.measurement.projected
    if price is None or projected.run_s is None:
        return record
    cost = projected.run_s / 3600 * price.per_hour
    return replace(record, measurement=replace(record.measurement, projected=replace(projected, cost=cost)))
