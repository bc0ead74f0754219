"""`vtune compare`: two trials, studies or results; is the difference real?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vtune.cli import options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtune.api import RaceResult
    from vtune.domain.effects import Scalar
    from vtune.domain.record import TrialRecord
    from vtune.reporting.references import Side

Reference = Annotated[str, typer.Argument(help="Trial 7, STUDY:7, STUDY, a study's folder or a result's JSON file.")]


def compare(
    a: Reference,
    b: Reference,
    config: options.Config = None,
    study: options.StudyName = None,
    results: options.Results = Path("results"),
    fail_if_slower: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="Exit 1 if B is shown slower than A and by SHARE or more, as 3%."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Compare what is not alike, and say so.")] = False,
    race: Annotated[
        bool, typer.Option("--race", help="Launch both anew, in turns, until it is clear (same study).")
    ] = False,
    rounds: Annotated[str | None, typer.Option(metavar="N", help="Rounds of the race, 2 or more (default 8).")] = None,
    thorough: Annotated[bool, typer.Option("--thorough", help="Equal means within 1 %, not 2 %: more rounds.")] = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    wait: options.Wait = False,
) -> None:
    """Tell whether B is faster or slower than A, or whether nobody can know from what was measured.

    A study stands for the trial that it would choose. --fail-if-slower 3% fails (exit 1) if the ratio B/A is at most
    0.97 and its whole 95 % interval lies below 1. Without --race nothing is run.
    """
    from vtune import api
    from vtune.cli import exits
    from vtune.cli.console import console
    from vtune.config.quantities import parse_share
    from vtune.journal.find_study import find_study
    from vtune.reporting.compare_panel import compare_panel, gate_text
    from vtune.reporting.comparison import comparison_to_json
    from vtune.reporting.references import find_side

    most = _read("--fail-if-slower", fail_if_slower, parse_share)
    asked_rounds = _rounds(rounds)
    stderr = console(stderr=True, quiet=quiet)
    study = _study(config, study)
    _check(race=race, rounds=rounds, thorough=thorough, dry_run=dry_run)
    if study is None and any(text.isdecimal() for text in (a, b)):
        stderr.print(
            f"trials of study {find_study(results, None).root.name} in {results}, the one used last", markup=False
        )
    told: dict[str, Any] | None = None
    code = exits.DONE
    if race:
        one, other = (find_side(text, results=results, study=study) for text in (a, b))
        plan = _Plan(one, other, rounds=asked_rounds, thorough=thorough)
        if dry_run:
            exits.print_json(plan.as_json()) if json else print(plan.as_text())
            return
        ran = plan.run(stderr=stderr, wait=wait)
        if ran is None or ran.interrupted:
            # What was raced before stands in the journal; the comparison is shown as far as it goes.
            exits.say_interrupted("all that was measured is saved", plan.go_on())
            code = exits.INTERRUPTED
        elif failed := _failed(ran):
            stderr.print(f"trial {failed.trial} of the race failed: {failed.detail}", markup=False, soft_wrap=True)
            code = exits.exit_code_of(failed.status)
        told = _race_json(ran) if ran is not None else None
    found = api.compare(a, b, study=study, results=results, fail_if_slower=most, force=force)
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


class _Plan:
    """The race of two trials of one study, by the settings that each of them turned."""

    def __init__(self, a: Side, b: Side, *, rounds: int, thorough: bool) -> None:
        from vtune.analysis.comparable import has_rate
        from vtune.analysis.race import DELTA, LEAST_ROUNDS, THOROUGH_DELTA
        from vtune.errors import UsageError
        from vtune.strategies.race import Race

        if a.folder is None or b.folder is None or a.folder.absolute() != b.folder.absolute():
            raise UsageError(
                f"--race launches settings of one study anew, and {a.reference} and {b.reference} are of two",
                hint="name two trials of one study, as quickstart:1 quickstart:7",
            )
        for side in (a, b):
            if not has_rate(side.record):
                raise UsageError(
                    f"{side.reference} has no rate that a run could have", hint="race trials that completed"
                )
        self.a, self.b, self.rounds = a, b, rounds
        self.thorough = thorough
        self.delta = THOROUGH_DELTA if thorough else DELTA
        self.settings = tuple(_turned(side.record) for side in (a, b))
        self.strategy = Race([self.settings[1]], self.settings[0], 0, rounds, self.delta, None, a.cores)
        if len(self.strategy.field) < 2:
            raise UsageError(
                f"{a.reference} and {b.reference} have the same settings: there is nothing to race",
                hint="without --race their launches are compared as they are",
            )
        self.standing = self.strategy.standing(a.records)
        self.least = 0 if self.standing.decided else 2 * max(LEAST_ROUNDS - self.standing.rounds, 1)
        self.launches = 0 if self.standing.decided else 2 * max(rounds - self.standing.rounds, 1)
        self.launch_s = (a.record.seconds + b.record.seconds) / 2

    def run(self, *, stderr: Any, wait: bool) -> RaceResult | None:
        """None where it was interrupted before anything could be recorded."""
        from vtune import api
        from vtune.cli.asked import asked_experiment
        from vtune.cli.interrupts import terminations_as_interrupts
        from vtune.cli.live import Progress
        from vtune.config.command_line import CommandLine

        assert self.a.folder is not None
        stderr.print(self._how_long(), markup=False, soft_wrap=True)
        if self.standing.decided:
            legs = tuple(self.strategy.legs(self.a.records))
            return api.RaceResult(study=self.a.study, race=self.strategy.id, standing=self.standing, legs=legs)
        place = self.a.folder.parent
        asked = asked_experiment(None, None, CommandLine(study=self.a.folder.name), place, verb="compare")
        try:
            with terminations_as_interrupts(), Progress(stderr) as progress:
                return api.race(
                    asked.experiment,
                    [self.settings[1]],
                    baseline=self.settings[0],
                    rounds=self.rounds,
                    delta=self.delta,
                    results=place,
                    wait=wait,
                    notify=progress,
                )
        except KeyboardInterrupt:
            return None

    def go_on(self) -> str:
        import shlex

        folder = self.a.folder
        assert folder is not None
        words = ["vtune", "compare", f"{folder.name}:{self.a.record.trial}", f"{folder.name}:{self.b.record.trial}"]
        words += ["--race", "--rounds", str(self.rounds)] + (["--thorough"] if self.thorough else [])
        return shlex.join([*words, "--results", str(folder.parent)])

    def as_json(self) -> dict[str, Any]:
        return {
            "study": self.a.study,
            "race": self.strategy.id,
            "rounds": self.rounds,
            "rounds_run": self.standing.rounds,
            "least_launches": self.least,
            "launches": self.launches,
            "launch_s": self.launch_s,
            "at_most_s": self.launches * self.launch_s,
            "settings": {"a": dict(self.settings[0]), "b": dict(self.settings[1])},
        }

    def as_text(self) -> str:
        return f"{self._how_long()}\n\nnothing was started"

    def _how_long(self) -> str:
        from vtune.domain.numbers import seconds

        if not self.launches:
            return f"race {self.strategy.id} was decided before, by what the journal holds: nothing is launched"
        before = f", {self.standing.rounds} rounds are there already" if self.standing.rounds else ""
        return (
            f"race: {self.least} to {self.launches} launches of about {seconds(self.launch_s)} each, A and B in turns:"
            f" at most about {seconds(self.launches * self.launch_s)}{before}"
        )


def _turned(record: TrialRecord) -> Mapping[str, Scalar]:
    """What has to be set to launch it again; older records do not say which of their settings were turned."""
    from vtune.analysis.comparable import turned_nothing
    from vtune.knobs.registry import KNOB_NAMES

    if record.asked is not None:
        return record.asked
    if turned_nothing(record):
        return {}
    return {name: value for name, value in record.settings.items() if name in KNOB_NAMES and value is not None}


def _failed(ran: RaceResult) -> TrialRecord | None:
    from vtune.domain.trial import TrialStatus

    return next((leg for leg in ran.legs if leg.status is not TrialStatus.COMPLETED), None)


def _race_json(ran: RaceResult) -> dict[str, Any]:
    return {
        "id": ran.race,
        "rounds": ran.standing.rounds,
        "decided": ran.standing.decided,
        "trials": [leg.trial for leg in ran.legs],
    }


def _study(config: str | None, study: str | None) -> str | None:
    if study is not None or config is None:
        return study
    from vtune.config.remembered import remember

    return remember(config).study


def _check(*, race: bool, rounds: str | None, thorough: bool, dry_run: bool) -> None:
    from vtune.errors import UsageError

    idle = [name for name, on in (("--rounds", rounds), ("--thorough", thorough), ("--dry-run", dry_run)) if on]
    if idle and not race:
        raise UsageError(f"{' and '.join(idle)} without --race: nothing would be run", hint="add --race")


def _rounds(text: str | None) -> int:
    from vtune.analysis.race import LEAST_ROUNDS, ROUNDS
    from vtune.config.quantities import parse_count
    from vtune.errors import UsageError

    number = ROUNDS if text is None else _read("--rounds", text, parse_count)
    if not isinstance(number, int) or number < LEAST_ROUNDS:
        raise UsageError(
            f"--rounds must be at least {LEAST_ROUNDS}, got {number}", hint="one round shows no spread to judge by"
        )
    return number


def _read(option: str, text: str | None, parse: Any) -> Any:
    from vtune.errors import UsageError

    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise UsageError(
            f"{option} {error}", hint=f"for example {option} {'3%' if 'slower' in option else '8'}"
        ) from None
