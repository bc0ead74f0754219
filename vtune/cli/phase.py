"""`vtune phase`: the phases of a plan in their order, each winner carried forward, what fails rolled back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vtune.cli import options

if TYPE_CHECKING:
    from vtune.cli.live_phases import PhaseProgress
    from vtune.config.command_line import CommandLine
    from vtune.domain.experiment import Experiment
    from vtune.domain.phases import AskedPhases, Plan
    from vtune.domain.record import TrialRecord
    from vtune.phases import PhaseResult
    from vtune.search import SearchResult


def phase(
    command: options.Command = None,
    config: options.Config = None,
    study: options.StudyName = None,
    results: options.Results = Path("results"),
    plan: options.PlanOption = "ladder",
    up_to: options.UpTo = None,
    extend: options.Extend = False,
    options_: options.Options = False,
    no_confirm: options.NoConfirm = False,
    set_: options.Set = None,
    steps: options.Steps = None,
    precise: options.Precise = False,
    validation: options.Validation = False,
    trial_time: options.TrialTime = None,
    startup_time: options.StartupTime = None,
    vram_limit: options.VramLimit = None,
    ram_limit: options.RamLimit = None,
    trial_disk: options.TrialDisk = None,
    allow_writes: options.AllowWrites = False,
    allow: options.Allow = None,
    price: options.PriceOption = None,
    dry_run: options.DryRun = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    wait: options.Wait = False,
    anyway: options.Anyway = False,
    busy_wait: options.BusyWait = None,
) -> None:
    """Turn the knobs of a plan phase by phase, and keep what is shown to be faster within the limits.

    Your own settings are measured first, and the winner is confirmed against them. What the study's journal has
    already is not measured again: after Ctrl-C the same command goes on.
    """
    from vtune import api
    from vtune.cli import exits
    from vtune.cli.asked import Asked, asked_experiment
    from vtune.cli.busy_wait import busy_wait_s, typed_again
    from vtune.cli.console import console
    from vtune.cli.interrupts import terminations_as_interrupts
    from vtune.cli.live_phases import PhaseProgress
    from vtune.cli.phase_plan import plan_as_json, plan_as_text
    from vtune.config.command_line import CommandLine
    from vtune.config.plan_file import load_plan

    typed = CommandLine(
        study=study,
        sets=tuple(set_ or ()),
        steps=steps,
        precise=precise,
        validation=validation,
        trial_time=trial_time,
        startup_time=startup_time,
        vram_limit=vram_limit,
        ram_limit=ram_limit,
        trial_disk=trial_disk,
        allow_writes=allow_writes,
        allow=allow,
        price=price,
    )
    most_wait_s = busy_wait_s(busy_wait)
    stderr = console(stderr=True, quiet=quiet)
    asked: Asked = asked_experiment(config, command, typed, results, verb="phase", starts=not dry_run)
    bindings = asked.experiment.knobs
    asked_plan = _asked(load_plan(plan, bindings), up_to, extend=extend, options=options_, confirm=not no_confirm)
    for note in asked.notes:
        stderr.print(note, markup=False, soft_wrap=True)
    if dry_run:
        planned = api.plan_phases(asked.experiment, asked_plan, results=results)
        told = plan_as_json(planned, asked.experiment) if json else plan_as_text(planned, asked.experiment)
        exits.print_json(told) if json else print(told)
        return
    go_on = _go_on(asked.experiment.study, results, plan, asked_plan, typed)
    go_on = " ".join([go_on, *typed_again(anyway=anyway, busy_wait=busy_wait)])
    here = api.asked_here(asked_plan, asked.experiment)
    progress = PhaseProgress(stderr, here, asked.experiment)
    try:
        with terminations_as_interrupts(progress.interrupted), progress:
            result = api.phase(
                asked.experiment,
                asked_plan,
                results=results,
                wait=wait,
                anyway=anyway,
                busy_wait_s=most_wait_s,
                notify=progress,
            )
    except KeyboardInterrupt:
        if json:
            exits.print_json(_as_far_as_known(asked.experiment, asked_plan, progress))
        exits.say_interrupted("what was recorded before is kept, this trial is not", go_on)
        raise typer.Exit(exits.INTERRUPTED) from None
    show_tuned(result, quiet=quiet, as_json=json)
    walk = result.walk
    code = tuned_exit_code(result, walk.baseline, walk.stopped)
    if code == exits.INTERRUPTED:
        exits.say_interrupted("all that was measured is saved", go_on)
    raise typer.Exit(code)


def _asked(plan: Plan, up_to: str | None, *, extend: bool, options: bool, confirm: bool) -> AskedPhases:
    from vtune.config.quantities import parse_count
    from vtune.domain.phases import AskedPhases
    from vtune.errors import UsageError

    last, number = len(plan.phases), None
    if up_to is not None:
        try:
            number = parse_count(up_to)
        except ValueError as error:
            raise UsageError(f"--up-to {error}", hint=f"plan {plan.name} has phases 1 to {last}") from None
        if number > last:
            listed = ", ".join(f"{one.number} {one.name}" for one in plan.phases)
            raise UsageError(f"--up-to {number}: plan {plan.name} ends with phase {last}", hint=f"its phases: {listed}")
    asked = AskedPhases(plan=plan, up_to=number, extend=extend, options=options, confirm=confirm)
    if options and not plan.options:
        raise UsageError(f"--options: plan {plan.name} has none", hint="a plan's file lists them under options:")
    if extend and not any(one.beyond for one in asked.phases):
        which = f"phases 1 to {number} of plan {plan.name}" if number is not None else f"plan {plan.name}"
        raise UsageError(
            f"--extend: no phase of {which} goes on past its end", hint="extend: in a plan's file says how"
        )
    return asked


def show_tuned(result: PhaseResult | SearchResult, *, quiet: bool, as_json: bool) -> None:
    import sys

    from vtune.cli import exits
    from vtune.cli.console import console
    from vtune.reporting.report_json import report_to_json
    from vtune.reporting.report_panel import report_panel, to_paste

    def say(line: str) -> None:
        if not quiet:
            print(line, file=sys.stderr)

    for refused in result.written.refused:
        say(f"note: {refused}")
    if as_json:
        exits.print_json({**report_to_json(result.report), "interrupted": result.interrupted})
    else:
        out = console()
        in_file = any(path.suffix == ".md" for path in result.written.paths)
        say("")
        whole = "report.md" if in_file else "the document of vtune report"
        # What was told step by step on stderr needs no second telling.
        out.print(report_panel(result.report, whole=whole, brief=not quiet))
        for line in to_paste(result.report):
            out.print(line, soft_wrap=True)
    if result.written.paths:
        say(f"written: {' · '.join(map(str, result.written.paths))}")


def tuned_exit_code(result: PhaseResult | SearchResult, baseline: TrialRecord | None, stopped: str | None) -> int:
    from vtune.cli import exits
    from vtune.reporting.infeasible import OUT_OF_MEMORY

    choice = result.report.choice
    if result.interrupted:
        return exits.INTERRUPTED
    if choice.best is not None and stopped is None:
        return exits.DONE
    if baseline is not None and baseline.on_busy_machine and stopped is None:
        return exits.DONE  # measured anyway, as it was asked for
    too_big = {*choice.over, *choice.cramped}
    if baseline is None or baseline.status in OUT_OF_MEMORY or baseline.trial in too_big:
        return exits.NOT_FEASIBLE
    return exits.exit_code_of_trial(baseline, over=choice.best is None)


def _go_on(study: str, results: Path, plan: str, asked: AskedPhases, typed: CommandLine) -> str:
    """Limits, windows and prices the study remembers; the plan and what was set for these trials it does not."""
    import shlex

    words = ["vtune", "phase", "--study", study, "--results", str(results), "--plan", plan]
    words += ["--up-to", str(asked.up_to)] if asked.up_to is not None else []
    switches = (("--extend", asked.extend), ("--options", asked.options), ("--no-confirm", not asked.confirm))
    words += [name for name, on in switches if on]
    words += [word for one in typed.sets for word in ("--set", one)]
    words += ["--allow-writes"] if typed.allow_writes else []
    return shlex.join(words)


def _as_far_as_known(experiment: Experiment, asked: AskedPhases, progress: PhaseProgress) -> dict[str, Any]:
    """Of a walk that was left in a hurry: what was told of it last, nothing worked out anew."""
    from vtune.journal.records import record_to_json
    from vtune.reporting.phase_json import NONE
    from vtune.reporting.phases_of_study import phases_of, phases_to_json

    walk = progress.walk
    told = {}
    if walk is not None:
        told = phases_to_json(phases_of(walk, asked, limits=experiment.limits))
    baseline = walk.baseline if walk is not None else None
    return {
        "study": experiment.study,
        "baseline": record_to_json(baseline) if baseline is not None else None,
        "best": None,
        "speedup": None,
        "speedup_ci95": None,
        "tie": [],
        "trials": [record_to_json(record) for record in progress.records],
        **NONE,
        **told,
        "choice": None,
        "interrupted": True,
    }
