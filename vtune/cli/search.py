"""`vtune search`: all knobs together, each trial where the ones before it say that it is worth most."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vtune.cli import options

if TYPE_CHECKING:
    from rich.console import Console

    from vtune.cli.live_search import SearchProgress
    from vtune.config.command_line import CommandLine
    from vtune.domain.experiment import Experiment
    from vtune.journal.paths import StudyPaths
    from vtune.search import AskedSearch


def search(
    command: options.Command = None,
    config: options.Config = None,
    study: options.StudyName = None,
    results: options.Results = Path("results"),
    trials: options.Trials = "20",
    sampler: options.SamplerOption = "auto",
    budget: options.Budget = None,
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
    """Turn all knobs together, and find the best joint settings within the limits in the fewest trials.

    Your own settings are measured first; a model of your training says what is worth trying next, and when nothing
    is. Every trial that the journal has counts: after Ctrl-C the same command goes on.
    """
    from vtune import api
    from vtune.cli import exits
    from vtune.cli.asked import asked_experiment
    from vtune.cli.busy_wait import busy_wait_s, typed_again
    from vtune.cli.console import console
    from vtune.cli.interrupts import terminations_as_interrupts
    from vtune.cli.live_search import SearchProgress
    from vtune.cli.phase import show_tuned, tuned_exit_code
    from vtune.cli.search_plan import check_results, plan_as_json, plan_as_text
    from vtune.config.command_line import CommandLine
    from vtune.journal.paths import StudyPaths

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
    asked_search = _asked(trials, sampler, budget, confirm=not no_confirm)
    stderr = console(stderr=True, quiet=quiet)
    asked = asked_experiment(config, command, typed, results, verb="search", starts=not dry_run)
    for note in asked.notes:
        stderr.print(note, markup=False, soft_wrap=True)
    _say_other_sampler(stderr, StudyPaths(results / asked.experiment.study), asked_search)
    if dry_run:
        check_results(results)
        planned = api.plan_search(asked.experiment, asked_search, results=results)
        if json:
            exits.print_json(plan_as_json(planned, asked.experiment))
        else:
            print(plan_as_text(planned, asked.experiment))
        return
    go_on = _go_on(asked.experiment.study, results, asked_search, budget, typed)
    go_on = " ".join([go_on, *typed_again(anyway=anyway, busy_wait=busy_wait)])
    progress = SearchProgress(stderr, asked_search, asked.experiment)
    try:
        with terminations_as_interrupts(progress.interrupted), progress:
            result = api.search(
                asked.experiment,
                asked_search,
                results=results,
                wait=wait,
                anyway=anyway,
                busy_wait_s=most_wait_s,
                notify=progress,
            )
    except KeyboardInterrupt:
        if json:
            exits.print_json(_as_far_as_known(asked.experiment, asked_search, progress))
        exits.say_interrupted("what was recorded before is kept, this trial is not", go_on)
        raise typer.Exit(exits.INTERRUPTED) from None
    show_tuned(result, quiet=quiet, as_json=json)
    code = tuned_exit_code(result, result.hunt.baseline, result.hunt.stopped)
    if code == exits.INTERRUPTED:
        exits.say_interrupted("all that was measured is saved", go_on)
    raise typer.Exit(code)


def _asked(trials: str, sampler: str, budget: str | None, *, confirm: bool) -> AskedSearch:
    from vtune.config.problems import ConfigErrors, Problem
    from vtune.config.quantities import parse_budget, parse_sampler, parse_trials
    from vtune.search import AskedSearch

    parsed, problems = dict[str, Any](), list[Problem]()
    for name, text, parse, hint in (
        ("trials", trials, parse_trials, "for example --trials 20"),
        ("sampler", sampler, parse_sampler, "for example --sampler auto"),
        ("budget", budget, parse_budget, "for example --budget 30m"),
    ):
        try:
            parsed[name] = None if text is None else parse(text)
        except ValueError as error:
            problems.append(Problem(message=f"--{name} {error}", hint=hint))
    if problems:
        raise ConfigErrors(problems)
    return AskedSearch(trials=parsed["trials"], sampler=parsed["sampler"], budget_s=parsed["budget"], confirm=confirm)


def _say_other_sampler(stderr: Console, paths: StudyPaths, asked: AskedSearch) -> None:
    """The study remembers its limits; a sampler is asked for anew each time."""
    from vtune.reporting.search_of_study import read_search

    before = read_search(paths.search)
    if before is not None and before.sampler != asked.sampler:
        stderr.print(
            f"so far this study was searched by {before.sampler}, now it is by {asked.sampler}:"
            f" --sampler {before.sampler} goes on as before",
            markup=False,
            soft_wrap=True,
        )


def _go_on(study: str, results: Path, asked: AskedSearch, budget: str | None, typed: CommandLine) -> str:
    """Limits, windows and prices the study remembers; what was asked of this search it does not."""
    import shlex

    words = ["vtune", "search", "--study", study, "--results", str(results), "--trials", str(asked.trials)]
    words += ["--sampler", asked.sampler] if asked.sampler != "auto" else []
    words += ["--budget", budget] if budget is not None else []
    words += ["--no-confirm"] if not asked.confirm else []
    words += [word for one in typed.sets for word in ("--set", one)]
    words += ["--allow-writes"] if typed.allow_writes else []
    return shlex.join(words)


def _as_far_as_known(experiment: Experiment, asked: AskedSearch, progress: SearchProgress) -> dict[str, Any]:
    """Of a search that was left in a hurry: what was told of it last, nothing worked out anew."""
    from vtune.journal.records import record_to_json
    from vtune.reporting.phase_json import NONE
    from vtune.reporting.search_of_study import search_of, search_to_json

    told, moved = None, progress.moved
    if moved is not None:
        told = search_to_json(
            search_of(
                moved.hunt,
                moved.space,
                trials=asked.trials,
                budget_s=asked.budget_s,
                limits=experiment.limits,
            )
        )
    baseline = moved.hunt.baseline if moved is not None else None
    return {
        "study": experiment.study,
        "baseline": record_to_json(baseline) if baseline is not None else None,
        "best": None,
        "speedup": None,
        "speedup_ci95": None,
        "tie": [],
        "trials": [record_to_json(record) for record in progress.records],
        **NONE,
        "search": told,
        "choice": None,
        "interrupted": True,
    }
