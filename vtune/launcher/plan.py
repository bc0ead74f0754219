"""What a launch would run: whose settings, which command, which config, what it promises. Starts and writes nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from vtune.analysis.comparable import full_run
from vtune.analysis.renewal_words import renewal_text
from vtune.analysis.renewed import promised_again, renewals_for, shown_pauses_s
from vtune.analysis.repeated_words import how_to_mend, what_repeats
from vtune.config.output import output_folders
from vtune.domain.effects import ConfigValue, Scalar
from vtune.domain.experiment import Experiment, PlannedRun
from vtune.domain.launch import LaunchSpec, Length, Promise
from vtune.domain.numbers import rate
from vtune.domain.record import TrialRecord
from vtune.domain.renewal import Renewal
from vtune.domain.trial import TrialStatus
from vtune.errors import UsageError
from vtune.execution.launch_prepare import PlannedAttempt, locks_of, plan_attempt
from vtune.execution.scout import known_loader, loader_of
from vtune.journal.ignored_flags import heeding
from vtune.journal.paths import StudyPaths
from vtune.knobs.keys import path_of
from vtune.knobs.plan import changes_of, needs_scout
from vtune.knobs.registry import same_knobs
from vtune.launcher.batch_of_run import batch_of_run
from vtune.launcher.left_behind import left_behind
from vtune.reporting.adopt import another_training, repeated_data
from vtune.reporting.application import config_edit
from vtune.reporting.by_way import by_way
from vtune.reporting.commands import is_setting, near, probe_command
from vtune.reporting.loader_lines import python_lines
from vtune.reporting.none_chosen import none_chosen_error, why_none_chosen
from vtune.reporting.study_report import StudyReport
from vtune.reporting.words import settings_text
from vtune.strategies.turned import turned

# A last batch that is left out makes no other run.
SAME = 0.01
NEARLY_ALL = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLaunch:
    experiment: Experiment
    study: StudyPaths
    report: StudyReport
    record: TrialRecord
    number: int
    spec: LaunchSpec
    # The command and the config that are shown are those that run.
    first: PlannedAttempt
    train_loader: str | None
    # Optimizer steps of one epoch, where its length is known.
    epoch_steps: int | None = None
    # Of the training's config, beside the settings: iterations that were rescaled.
    keys: Mapping[tuple[str, ...], ConfigValue] = field(default_factory=dict)
    # From the start with the words that make the training go on.
    resume: bool = False
    # What was typed for this launch alone, and is typed again to go on: the study's name, limits, the grace.
    typed: tuple[str, ...] = ()
    # What whoever launches it has to know: another effective batch, iterations that were not rescaled.
    notes: tuple[str, ...] = ()

    @property
    def settings(self) -> Mapping[str, Scalar]:
        return self.spec.settings


def plan_launch(
    experiment: Experiment,
    report: StudyReport,
    *,
    trial: int | None = None,
    step_down: bool = False,
    rescale: bool = False,
    resume: bool = False,
    extra: Mapping[str, Scalar] | None = None,
    typed: Sequence[str] = (),
) -> PlannedLaunch:
    record = _record(report, trial)
    study = StudyPaths(report.folder)
    experiment = heeding(experiment, study)
    settings = {**turned(record), **(extra or {})}
    if (resume or step_down) and not experiment.resume:
        option = "--resume" if resume else "--step-down"
        raise UsageError(
            f"{option}: how the training goes on from its last checkpoint is not known",
            hint=say_how_it_resumes(experiment),
        )
    loader = known_loader(experiment, study) or loader_of(record, study)
    if needs_scout(settings, experiment) and loader is None:
        raise UsageError(
            f"trial {record.trial} turned {', '.join(settings)} in the training's own loader, and which one that is has"
            " to be learnt again: the command, its script or the config has changed since",
            hint=f"{probe_command(report, settings)} measures it anew, and learns it",
        )
    key = loader.key if loader is not None else None
    batch = batch_of_run(record, extra or {}, experiment, report.compared, report.own)
    keys, planned, note = _rescaled(experiment, batch.factor, asked=rescale)
    number = max((0, *study.launch_numbers())) + 1
    folder = study.launch(number).attempt(1).root.absolute()
    first = plan_attempt(
        experiment,
        settings,
        trial=record.trial,
        folder=folder,
        train_loader=key,
        keys=keys,
        resume=experiment.resume if resume else (),
        locks=locks_of(experiment.workload, study),
    )
    ways = by_way({name: value for name, value in settings.items() if is_setting(name, value, experiment)}, experiment)
    lines = python_lines(ways.options, report.loader_at)
    promise = promise_of(record, planned, batch_scale=batch.beside)
    promise = replace(promise, effective_batch=batch.effective, effective_batch_before=batch.before)
    renewals = renewals_for(record, settings, report.records, report.renewals, same_knobs(experiment.knobs))
    promise = promised_again(promise, renewals)
    output = tuple(map(str, output_folders(experiment.workload)))
    left = left_behind(study, output, experiment.workload) if resume else None
    length = _length(promise.steps, planned.epochs, left.most if left is not None else None if resume else 0)
    # Where it goes on, nobody knows how much is left.
    promise = replace(promise, steps=None, run_s=None) if resume else promise
    return PlannedLaunch(
        experiment=experiment,
        study=study,
        report=report,
        record=record,
        number=number,
        first=first,
        train_loader=key,
        epoch_steps=epoch_steps(record, planned, batch_scale=batch.beside),
        keys=keys,
        resume=resume,
        typed=tuple(typed) or ("--study", report.study),
        spec=LaunchSpec(
            launch=number,
            study=report.study,
            promise=promise,
            length=length,
            settings=settings,
            command=first.spec.command,
            cwd=first.spec.cwd,
            env=first.spec.env,
            config=None if first.config is None else str(first.config),
            resume=experiment.resume,
            step_down=step_down,
            grace_s=experiment.grace_s,
            output=output,
            by_hook=tuple(f"{line.where}: {line.option}={line.value}" for line in lines),
        ),
        notes=(
            *another_training(batch.another),
            *repeated_data(record, report.own),
            *note,
            *_beside(record, extra or {}),
            *_renewed(renewals),
            *_launched_before(record, settings, report),
        ),
    )


def say_how_it_resumes(experiment: Experiment) -> str:
    words = 'the words behind its command that do so, vtune.resume: "--resume"'
    if experiment.source is not None:
        return f"say {words}, in {near(experiment.source)}, and launch with --resume"
    return (
        f"say {words}, in a file of its own beside vtune.command, and launch with --resume --config FILE"
        f" --study {experiment.study}"
    )


def config_lines(planned: PlannedLaunch) -> str | None:
    """What its config is changed in, as `vtune apply` shows it, and empty where it is not. None where the run gets no
    config of its own."""
    file = planned.experiment.workload.config_path
    if planned.spec.config is None or file is None:
        return None
    changes = changes_of(planned.first.spec.effects).config
    edit = config_edit(file, changes)
    if edit.refused is None:
        return edit.diff
    values = [f"{'.'.join(path)}: {list(v) if isinstance(v, tuple) else v}" for path, v in changes.items()]
    return "\n".join([f"# {near(file)} is copied without its comments: {edit.refused}", *values]) + "\n"


def promise_of(record: TrialRecord, planned: PlannedRun, *, batch_scale: float = 1.0) -> Promise:
    """`batch_scale`: of the effective batch, by what is set beside the trial's own settings."""
    measured = record.measurement
    epoch, batch = epoch_steps(record, planned, batch_scale=batch_scale), _batch(record, batch_scale)
    steps = epoch * planned.epochs if epoch is not None and planned.epochs else None
    whole, run_s = _as_long(record, _samples_of(record, planned, steps, batch))
    return Promise(
        trial=record.trial,
        samples_per_s=measured.samples_per_s,
        samples_per_s_ci95=measured.samples_per_s_ci95,
        steady=measured.steady,
        samples_per_s_whole_run=whole,
        run_s=run_s,
        # With another batch beside its settings nothing has run yet.
        effective_batch=measured.effective_batch if batch_scale == 1.0 else None,
        samples_per_step=batch,
        steps=steps,
    )


def _samples_of(record: TrialRecord, planned: PlannedRun, steps: int | None, batch: float | None) -> int | None:
    if _counts_iterations(planned):
        return round(steps * batch) if steps and batch else None
    epoch = planned.samples_per_epoch or record.measurement.samples_per_epoch
    return epoch * planned.epochs if epoch and planned.epochs else None


def promise_now(first: Promise, record: TrialRecord) -> Promise:
    """Of the trial whose settings run after a step-down. The effective batch has stayed."""
    measured = record.measurement
    samples = round(first.steps * first.mean_batch) if first.steps and first.mean_batch else None
    whole, run_s = _as_long(record, samples)
    return replace(
        first,
        trial=record.trial,
        samples_per_s=measured.samples_per_s,
        samples_per_s_ci95=measured.samples_per_s_ci95,
        steady=measured.steady,
        samples_per_s_whole_run=whole,
        run_s=run_s if samples else None,
    )


def _as_long(record: TrialRecord, samples: int | None) -> tuple[float | None, float | None]:
    """Samples per second and seconds of a whole run of so many samples: the trial's own projection is of those that it
    had then, with the user's own batch."""
    measured = record.measurement
    whole, run_s, steady = measured.samples_per_s_whole_run, measured.projected.run_s, measured.samples_per_s
    if not (samples and whole):
        return whole, run_s
    if run_s is None:
        return whole, samples / whole
    if steady and abs(samples - whole * run_s) > SAME * samples:
        run_s += (samples - whole * run_s) * (1 / steady + shown_pauses_s(measured))
        whole = samples / run_s
    return whole, run_s


def _length(steps: int | None, epochs: int | None, most_before: int | None) -> Length | None:
    if steps is None:
        return None
    # The last batch of each epoch may be left out; a dataset may be a little smaller than the trial's.
    return Length(steps=steps, least=round(min(NEARLY_ALL * steps, steps - (epochs or 0))), most_before=most_before)


def epoch_steps(record: TrialRecord, planned: PlannedRun, *, batch_scale: float = 1.0) -> int | None:
    """Optimizer steps of one epoch of the run that is launched, where its length is known."""
    if _counts_iterations(planned):
        return planned.iterations_per_epoch
    samples, batch = record.measurement.samples_per_epoch, _batch(record, batch_scale)
    return math.ceil(samples / batch) if samples and batch else None


def _batch(record: TrialRecord, scale: float) -> float | None:
    measured = record.measurement
    batch = measured.effective_batch or measured.samples_per_step
    return batch * scale if batch else None


def _counts_iterations(planned: PlannedRun) -> bool:
    return planned.iterations_per_epoch is not None and not planned.samples_per_epoch


def _record(report: StudyReport, trial: int | None) -> TrialRecord:
    if trial is None:
        if (why := why_none_chosen(report.compared, report.choice)) is not None:
            raise none_chosen_error(report, why)
        assert report.choice.best is not None
        return report.choice.best
    found = next((one for one in report.records if one.trial == trial), None)
    if found is None:
        raise UsageError(f"study {report.study} has no trial {trial}", hint="vtune report lists its trials")
    if full_run(found):
        raise UsageError(
            f"trial {trial} is a launch itself: {found.reason}", hint="launch the trial that it was the full run of"
        )
    if found.status is TrialStatus.INVALID:
        if (repeated := found.measurement.repeated) is not None:
            raise UsageError(
                f"trial {trial} is invalid: {what_repeats(repeated)}",
                hint=f"{how_to_mend(repeated)}, and measure it again; or launch a trial that completed",
            )
        raise UsageError(
            f"trial {trial} did not run with its settings: {found.detail or 'they took no effect'}",
            hint="launch a trial that completed, or --best",
        )
    if found.measurement.samples_per_s is None or found.measurement.ceiling is not None:
        raise UsageError(
            f"trial {trial} has no rate that a run could have ({found.status.value.replace('_', ' ')})",
            hint="launch a trial that completed, or --best",
        )
    return found


def _beside(record: TrialRecord, extra: Mapping[str, Scalar]) -> list[str]:
    busy = f"trial {record.trial} was measured on a busy machine: nobody knows whether its promise can be kept"
    notes = [busy] if record.on_busy_machine else []
    if not extra:
        return notes
    on_top = f"{settings_text(extra)} comes on top of trial {record.trial}'s settings: its promise is without that"
    return [*notes, on_top]


def _renewed(renewals: Sequence[Renewal]) -> list[str]:
    return [f"launch {one.launch} with these settings: {renewal_text(one)}" for one in renewals]


def _launched_before(record: TrialRecord, settings: Mapping[str, Scalar], report: StudyReport) -> list[str]:
    """What an earlier full run of these settings came to. It is told and corrects no promise: a day's neighbours are in
    it, and whoever is promised their pace again is not told of the next ones."""
    runs = [one for one in report.records if full_run(one) and one.asked == settings and one.measurement.steady]
    came_to, promised = (runs[-1].measurement.samples_per_s if runs else None), record.measurement.samples_per_s
    if came_to is None or not promised:
        return []
    run, _, _ = runs[-1].reason.partition(",")
    return [f"{run} with these settings came to {rate(came_to)} samples/s, steady ({came_to / promised - 1:+.1%})"]


def _rescaled(
    experiment: Experiment, factor: float, *, asked: bool
) -> tuple[Mapping[tuple[str, ...], ConfigValue], PlannedRun, Sequence[str]]:
    """Epochs that count iterations see more samples with a larger batch; asked to, they keep their samples."""
    planned = experiment.planned_run
    if factor == 1.0:
        # Asked for whatever won, as in a script: it is no mistake.
        return {}, planned, ["--rescale-iterations has nothing to do: the effective batch stays"] if asked else []
    if not _counts_iterations(planned) or planned.iterations_per_epoch is None:
        if asked:
            raise UsageError(
                "--rescale-iterations has nothing to do: the epochs are bounded by the data", hint="launch without it"
            )
        return {}, planned, []
    wanted = max(1, round(planned.iterations_per_epoch / factor))
    source = planned.iterations_source or ""
    path = path_of(experiment.workload.config or {}, source.partition(" in ")[0])
    many = f"{planned.iterations_per_epoch} iterations an epoch ({source})"
    if not asked:
        how = "--rescale-iterations makes it" if path is not None else "set it there to"
        return (
            {},
            planned,
            [
                f"{many} see ×{factor:.3g} as many samples with this batch: {how} {wanted}, so that an epoch keeps its"
                " samples; the learning rate's schedule counts in iterations too"
            ],
        )
    if path is None:
        raise UsageError(
            f"the iterations of an epoch cannot be rescaled: {source or 'where they are set is not known'}",
            hint=f"set them to {wanted} there, and launch without --rescale-iterations",
        )
    return {path: wanted}, replace(planned, iterations_per_epoch=wanted), [f"{many}, rescaled to {wanted}"]
