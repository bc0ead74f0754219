"""`vtune launch`: the full run with the chosen settings, guarded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vtune.cli import options


def launch(
    config: options.Config = None,
    study: options.StudyName = None,
    results: options.Results = Path("results"),
    best: Annotated[bool, typer.Option("--best", help="The chosen trial (default).", show_default=False)] = False,
    trial: Annotated[str | None, typer.Option("--trial", metavar="N", help="Another trial's settings.")] = None,
    set_: options.Set = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from its last checkpoint, by vtune.resume.", show_default=False)
    ] = False,
    rescale: Annotated[
        bool,
        typer.Option(
            "--rescale-iterations",
            help="With a larger batch, fewer iterations: an epoch keeps its samples.",
            show_default=False,
        ),
    ] = False,
    step_down: Annotated[
        bool,
        typer.Option("--step-down", help="Go on by itself with safer settings that were measured.", show_default=False),
    ] = False,
    grace: Annotated[
        str | None, typer.Option(metavar="TIME", help="For saving, when it is told to end (default 2m).")
    ] = None,
    detach: Annotated[
        bool,
        typer.Option("--detach", help="Return once it runs; it outlives the terminal.", show_default=False),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also where something has changed, or room is short.", show_default=False)
    ] = False,
    dry_run: options.DryRun = False,
    vram_limit: options.VramLimit = None,
    ram_limit: options.RamLimit = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Start the whole training with the chosen settings, as you would by hand, and watch over it to its end.

    It is compared with what its trial promised. Ctrl-C lets it save, then ends all of it.
    """
    from vtune import api
    from vtune.cli import exits
    from vtune.cli.console import console
    from vtune.cli.interrupts import terminations_as_interrupts
    from vtune.cli.launch_asked import asked_launch
    from vtune.cli.launch_detached import launch_detached
    from vtune.cli.launch_lines import LaunchLines
    from vtune.config.command_line import CommandLine
    from vtune.launcher.plan import config_lines
    from vtune.reporting.launch_words import dry_lines, ended_lines, launch_to_json, plan_lines, plan_to_json

    typed = CommandLine(study=study, sets=tuple(set_ or ()), vram_limit=vram_limit, ram_limit=ram_limit)
    stderr = console(stderr=True, quiet=quiet)
    planned, notes = asked_launch(
        config, typed, results,
        best=best, trial=trial, resume=resume, rescale=rescale, step_down=step_down, grace=grace,
        force=force, starts=not dry_run,
    )  # fmt: skip
    check = api.check_launch(planned, force=force)
    if dry_run:
        changed = config_lines(planned)
        for note in notes:
            stderr.print(note, markup=False, soft_wrap=True)
        # With --json a refusal stands alone on stdout, as everywhere.
        if json and check.refusal is None:
            exits.print_json(plan_to_json(planned.spec, planned.notes, changed))
        elif not json:
            print("\n".join(dry_lines(planned.spec, planned.notes, changed)), flush=True)
        for note in check.notes:
            stderr.print(note, markup=False, soft_wrap=True)
    if check.refusal is not None:
        raise check.refusal
    if dry_run:
        return
    for note in (*notes, *check.notes, *plan_lines(planned.spec, planned.notes)):
        stderr.print(note, markup=False, soft_wrap=True)
    if detach:
        raise typer.Exit(launch_detached(planned, as_json=json, quiet=quiet))
    with terminations_as_interrupts():
        result = api.launch(planned, notify=LaunchLines(stderr))
    for line in ended_lines(result):
        stderr.print(line, markup=False, soft_wrap=True)
    code = exits.exit_code_of(result.ended)
    if json:
        exits.print_json(launch_to_json(result, code))
    raise typer.Exit(code)
