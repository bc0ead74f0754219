"""`vtune probe`: one bounded trial of the current settings, explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from vtune.cli import options


def probe(
    command: options.Command = None,
    config: options.Config = None,
    study: options.StudyName = None,
    results: options.Results = Path("results"),
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
    ceiling: options.Ceiling = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    wait: options.Wait = False,
    anyway: options.Anyway = False,
    busy_wait: options.BusyWait = None,
) -> None:
    """Run a short window of the training and tell where its time goes.

    Also what it needs of the machine, and what the whole run would take and cost.
    """
    from dataclasses import replace

    from vtune import api
    from vtune.analysis.fit import excess_of, needs_text
    from vtune.cli import exits
    from vtune.cli.asked import Asked, asked_experiment
    from vtune.cli.busy_wait import busy_wait_s, typed_again
    from vtune.cli.console import console
    from vtune.cli.interrupts import terminations_as_interrupts
    from vtune.cli.live import Progress
    from vtune.cli.plan import plan_of
    from vtune.config.command_line import CommandLine
    from vtune.domain.trial import TrialStatus
    from vtune.journal.files import to_json
    from vtune.journal.records import record_to_json
    from vtune.reporting.ceiling_panel import ceiling_note, ceiling_panel, ceiling_to_json
    from vtune.reporting.probe_panel import probe_panel

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
    asked: Asked = asked_experiment(config, command, typed, results, starts=not dry_run)
    for note in asked.notes:
        stderr.print(note, markup=False, soft_wrap=True)
    if dry_run:
        plan = plan_of(asked.experiment, results, ceiling=ceiling)
        exits.print_json(plan.as_json()) if json else print(plan.as_text())
        return
    go_on = f"vtune probe --study {asked.experiment.study} --results {results}{' --ceiling' if ceiling else ''}"
    go_on += " --allow-writes" if allow_writes else ""
    go_on = " ".join([go_on, *typed_again(anyway=anyway, busy_wait=busy_wait)])
    try:
        with Progress(stderr) as progress, terminations_as_interrupts(progress.interrupted):
            result = api.probe(
                asked.experiment,
                results=results,
                wait=wait,
                ceiling=ceiling,
                anyway=anyway,
                busy_wait_s=most_wait_s,
                notify=progress,
            )
    except KeyboardInterrupt:
        if json:
            told: dict[str, Any] = {"verdict": "interrupted at once", "why": [], "next": [], "headroom": None}
            exits.print_json({"study": asked.experiment.study, "trial": None, **told})
        exits.say_interrupted("what was recorded before is kept, this trial is not", go_on)
        raise typer.Exit(exits.INTERRUPTED) from None
    record, found = result.record, result.ceiling
    missing = ceiling_note(found, record) if ceiling else None
    record = replace(record, notes=(*record.notes, *([missing] if missing is not None else [])))
    limits, completed = asked.experiment.limits, record.status is TrialStatus.COMPLETED
    over = [needs_text(one) for one in excess_of(record, limits, result.machine.ram_bytes)] if completed else []
    if json:
        plain = record_to_json(record)
        told = {name: plain[name] for name in ("verdict", "why", "next", "headroom")}
        more: dict[str, Any] = {"ceiling": ceiling_to_json(found)} if ceiling else {}
        more["over_limit"] = over
        exits.print_json({"study": result.study, "trial": plain, **told, **more, "machine": to_json(result.machine)})
    else:
        console().print(probe_panel(result.study, record, asked.experiment.price))
        for line in over:
            console().print(f"over a limit: it {line}", markup=False, soft_wrap=True)
        second = ceiling_panel(result.study, found, record) if found is not None else None
        if second is not None:
            console().print(second)
    code = exits.exit_code_of_trial(record, over=bool(over))
    if result.interrupted or (found is not None and found.status is TrialStatus.INTERRUPTED):
        code = exits.INTERRUPTED
    if code == exits.INTERRUPTED:
        exits.say_interrupted("all that was measured is saved", go_on)
    raise typer.Exit(code)
