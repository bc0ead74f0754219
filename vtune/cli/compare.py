"""`vtune compare`: two trials, studies or results; is the difference real?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vtune.cli import options

if TYPE_CHECKING:
    from vtune.config.command_line import CommandLine
    from vtune.domain.record import TrialRecord
    from vtune.racing import PlannedRace, RaceResult

Reference = Annotated[str, typer.Argument(help="Trial 7, STUDY:7, STUDY, a study's folder or a result's JSON file.")]

# Each is two launches or more; far below it a race has told what it can.
MOST_ROUNDS = 1000


def compare(
    a: Reference,
    b: Reference,
    config: options.Config = None,
    study: options.StudyName = None,
    results: options.Results = Path("results"),
    fail_if_slower: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="Exit 1 if B is shown slower than A and by SHARE or more, as 3% or 0.03."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Compare what is not alike, and say so.")] = False,
    race: Annotated[
        bool, typer.Option("--race", help="Launch both anew, in turns, until it is clear (same study).")
    ] = False,
    rounds: Annotated[
        str | None,
        typer.Option(metavar="N", help="Rounds of the race, 2 or more (default 8), and up to 2 that replace others."),
    ] = None,
    thorough: Annotated[bool, typer.Option("--thorough", help="Equal means within 1 %, not 2 %: more rounds.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="A new race, also where one was decided or the launches tell already.")
    ] = False,
    trial_disk: options.TrialDisk = None,
    allow_writes: options.AllowWrites = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    wait: options.Wait = False,
    anyway: options.Anyway = False,
    busy_wait: options.BusyWait = None,
) -> None:
    """Tell whether B is faster or slower than A, or whether nobody can know from what was measured.

    A study stands for the trial that it would choose. --fail-if-slower 3% fails (exit 1) if B is called slower
    and the ratio B/A is at most 0.97. Without --race nothing is run.
    """
    from vtune import api
    from vtune.cli import exits
    from vtune.cli.busy_wait import busy_wait_s, typed_again
    from vtune.cli.console import console
    from vtune.config.command_line import CommandLine
    from vtune.journal.find_study import find_study
    from vtune.reporting.compare_panel import compare_panel, gate_text
    from vtune.reporting.comparison import comparison_to_json

    most = _read("--fail-if-slower", fail_if_slower, _parse_gate)
    asked_rounds, most_wait_s = _rounds(rounds), busy_wait_s(busy_wait)
    stderr = console(stderr=True, quiet=quiet)
    if fail_if_slower is not None and "%" not in fail_if_slower:
        stderr.print(f"--fail-if-slower {fail_if_slower.strip()} is taken as {100 * most:.3g}%", markup=False)
    study = _study(config, study)
    _check(race=race, rounds=rounds, thorough=thorough, again=again, dry_run=dry_run, anyway=anyway)
    if study is None and any(text.isdecimal() for text in (a, b)):
        stderr.print(
            f"trials of study {find_study(results, None).root.name} in {results}, the one used last", markup=False
        )
    told: dict[str, Any] | None = None
    code = exits.DONE
    if not race:
        found = api.compare(a, b, study=study, results=results, fail_if_slower=most, force=force)
    else:
        planned = api.plan_race(
            a, b, study=study, results=results, rounds=asked_rounds, delta=_delta(thorough, most), again=again
        )
        if dry_run:
            exits.print_json(_plan_json(planned)) if json else print(f"{_how_long(planned)}\n\nnothing was started")
            return
        stderr.print(_how_long(planned), markup=False, soft_wrap=True)
        typed_writes = CommandLine(study=planned.folder.name, trial_disk=trial_disk, allow_writes=allow_writes)
        ran = _run(planned, typed_writes, stderr=stderr, wait=wait, anyway=anyway, busy_wait_s=most_wait_s)
        if ran is None or ran.interrupted:
            typed = ["--thorough"] if thorough else []
            typed += ["--allow-writes"] if allow_writes else []
            typed += typed_again(anyway=anyway, busy_wait=busy_wait)
            typed += ["--fail-if-slower", fail_if_slower] if fail_if_slower is not None else []
            # What was raced before stands in the journal; the comparison is shown as far as it goes.
            exits.say_interrupted("all that was measured is saved", _go_on(planned, typed))
            code = exits.INTERRUPTED
        elif failed := _failed(ran):
            stderr.print(f"trial {failed.trial} of the race failed: {failed.detail}", markup=False, soft_wrap=True)
            code = exits.exit_code_of_trial(failed)
        told = _race_json(planned, ran)
        found = api.compare_raced(planned, fail_if_slower=most, force=force)
    if code == exits.DONE and found.gate is not None and found.gate.failed:
        code = exits.SAID_NO
    for line in found.against_it:
        stderr.print(f"compared by force: {line}", markup=False, soft_wrap=True)
    if found.gate is not None and not found.gate.could_be_seen and not found.gate.failed:
        # Not hushed by --quiet: a gate that cannot see is worse than none.
        console(stderr=True).print(f"warning: {gate_text(found)}", markup=False, soft_wrap=True)
    if json:
        exits.print_json(comparison_to_json(found, exit_code=code, race=told))
    else:
        console().print(compare_panel(found))
    raise typer.Exit(code)


def _run(
    planned: PlannedRace, command_line: CommandLine, *, stderr: Any, wait: bool, anyway: bool, busy_wait_s: float
) -> RaceResult | None:
    """None where it was interrupted before anything could be recorded."""
    from vtune import api
    from vtune.cli.asked import asked_experiment
    from vtune.cli.interrupts import terminations_as_interrupts
    from vtune.cli.live import Progress
    from vtune.racing import RaceResult

    plan, folder = planned.plan, planned.folder
    if not plan.launches:
        return RaceResult(study=planned.a.study, race=plan.race.id, standing=plan.standing, legs=plan.legs)
    asked = asked_experiment(None, None, command_line, folder.parent, verb="compare")
    try:
        with terminations_as_interrupts(), Progress(stderr) as progress:
            return api.race(
                asked.experiment,
                plan.race,
                results=folder.parent,
                wait=wait,
                anyway=anyway,
                busy_wait_s=busy_wait_s,
                notify=progress,
            )
    except KeyboardInterrupt:
        return None


def _how_long(planned: PlannedRace) -> str:
    from vtune.domain.numbers import seconds

    plan = planned.plan
    if (why := _why_none(planned)) is not None:
        return f"{why}: nothing is launched (--again races all the same)"
    rounds, least = plan.standing.rounds, plan.least_launches
    before = f"; {rounds} {'round is' if rounds == 1 else 'rounds are'} there already" if rounds else ""
    few = f"{least} to " if least < plan.launches else ""
    launches = f"{few}{plan.launches} {'launch' if plan.launches == 1 else 'launches'}"
    return (
        f"race: {launches} of about {seconds(plan.launch_s)} each, A and B in turns: at most about"
        f" {seconds(plan.launches * plan.launch_s)}, with the rounds that replace others{before}"
    )


def _why_none(planned: PlannedRace) -> str | None:
    """Why nothing has to be launched."""
    from vtune.domain.numbers import times, trials_text

    plan = planned.plan
    if plan.known is not None:
        ratio = plan.known.ratio
        return f"A and B differ beyond doubt as they were launched (B comes to {times(ratio.value, ratio.ci95)} of A)"
    if not plan.launches:
        return f"race {plan.race.id} was decided before, by {trials_text([leg.trial for leg in plan.legs])}"
    return None


def _go_on(planned: PlannedRace, typed: list[str]) -> str:
    import shlex

    from vtune.reporting.references import read_again

    folder, race = planned.folder, planned.plan.race
    words = ["vtune", "compare", *(f"{folder.name}:{side.record.trial}" for side in (planned.a, planned.b)), "--race"]
    # Of a race that was begun, the same --again would be one more.
    begun = any(record.race is not None and record.race.id == race.id for record in read_again(planned.a).records)
    words += ["--again"] if planned.plan.again and not begun else []
    return shlex.join([*words, "--rounds", str(race.rounds), *typed, "--results", str(folder.parent)])


def _plan_json(planned: PlannedRace) -> dict[str, Any]:
    plan = planned.plan
    return {
        "study": planned.a.study,
        "race": plan.race.id,
        "rounds": plan.race.rounds,
        "rounds_run": plan.standing.rounds,
        "equal_within": plan.race.delta,
        "least_launches": plan.least_launches,
        "launches": plan.launches,
        "launch_s": plan.launch_s,
        "at_most_s": plan.launches * plan.launch_s,
        "settings": {name: dict(turned) for name, turned in zip("ab", plan.race.field, strict=True)},
        "nothing_launched": _why_none(planned),
    }


def _race_json(planned: PlannedRace, ran: RaceResult | None) -> dict[str, Any]:
    standing, legs = (ran.standing, ran.legs) if ran is not None else (planned.plan.standing, planned.plan.legs)
    return {
        "id": planned.plan.race.id,
        "rounds": standing.rounds,
        "decided": standing.decided,
        "trials": [leg.trial for leg in legs],
        "nothing_launched": _why_none(planned),
    }


def _failed(ran: RaceResult) -> TrialRecord | None:
    from vtune.domain.trial import TrialStatus

    return next((leg for leg in ran.legs if leg.status is not TrialStatus.COMPLETED), None)


def _delta(thorough: bool, most: float | None) -> float:
    """What a gate asks for must not count as equal."""
    from vtune.analysis.race import DELTA, THOROUGH_DELTA

    delta = THOROUGH_DELTA if thorough else DELTA
    return delta if most is None else min(delta, most)


def _study(config: str | None, study: str | None) -> str | None:
    if study is not None or config is None:
        return study
    from vtune.config.remembered import remember

    return remember(config).study


def _check(*, race: bool, rounds: str | None, thorough: bool, again: bool, dry_run: bool, anyway: bool) -> None:
    from vtune.errors import UsageError

    switches = (("--thorough", thorough), ("--again", again), ("--dry-run", dry_run), ("--anyway", anyway))
    asked = (("--rounds", rounds), *switches)
    idle = [name for name, on in asked if on]
    if idle and not race:
        raise UsageError(f"{' and '.join(idle)} without --race: nothing would be run", hint="add --race")


def _rounds(text: str | None) -> int:
    from functools import partial

    from vtune.analysis.race import LEAST_ROUNDS, ROUNDS
    from vtune.config.quantities import parse_count
    from vtune.errors import UsageError

    number = ROUNDS if text is None else _read("--rounds", text, partial(parse_count, most=MOST_ROUNDS))
    if not isinstance(number, int) or number < LEAST_ROUNDS:
        raise UsageError(
            f"--rounds must be at least {LEAST_ROUNDS}, got {number}", hint="one round shows no spread to judge by"
        )
    return number


def _parse_gate(text: str) -> float:
    """`3%`, and `0.03` for the same: other tools ask for shares so. A whole number may be meant as percent or not."""
    import re

    from vtune.config.quantities import parse_share

    if re.fullmatch(r"\s*0?\.[0-9]+\s*", text) and float(text) > 0:
        return float(text)
    return parse_share(text)


def _read(option: str, text: str | None, parse: Any) -> Any:
    from vtune.errors import UsageError

    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise UsageError(
            f"{option} {error}",
            hint=getattr(error, "hint", None) or f"for example {option} {'3%' if 'slower' in option else '8'}",
        ) from None
