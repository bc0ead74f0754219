"""`vtune apply`: the chosen settings as a minimal diff of the user's own config."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vtune.cli import options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vtune.reporting.application import Application, ConfigEdit
    from vtune.reporting.study_report import StudyReport


def apply(
    config: options.Config = None,
    study: options.StudyName = None,
    results: options.Results = Path("results"),
    trial: Annotated[str | None, typer.Option("--trial", metavar="N", help="Another trial than the winner.")] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Change the config, with a backup beside it.", show_default=False)
    ] = False,
    vram_limit: options.VramLimit = None,
    ram_limit: options.RamLimit = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show what the winner changes in your own config, command and script; with --write, change the config.

    Every other byte stays: comments, order, quotes, line ends. What cannot be changed without touching something
    else is refused with the reason, and the changed config goes into a file beside it.
    """
    import sys

    from vtune.cli import exits
    from vtune.config.command_line import CommandLine, read_command_line
    from vtune.config.problems import ConfigErrors, Problem
    from vtune.config.quantities import parse_count
    from vtune.domain.experiment import Limits
    from vtune.reporting.application import application_of
    from vtune.reporting.study_report import find_report

    problems: list[Problem] = []
    typed = CommandLine(study=study, vram_limit=vram_limit, ram_limit=ram_limit)
    asked = read_command_line(typed, problems)
    number: int | None = None
    try:
        number = parse_count(trial) if trial is not None else None
    except ValueError as error:
        problems.append(Problem(message=f"--trial {error}", hint="vtune report lists the trials"))
    if problems:
        raise ConfigErrors(problems)
    report = find_report(asked.study, config=config, results=results, limits=Limits(vram=asked.vram, ram=asked.ram))

    def say(line: str) -> None:
        if not quiet:
            print(line, file=sys.stderr)

    if asked.study is None and config is None:
        say(f"study {report.study} in {results}, the one used last")
    found = application_of(report, number)
    if found is None:
        _nothing_to_apply(report, number, as_json=json)
        return
    written = _write(found.config) if write and found.config is not None else None
    refused = _refused(found.config, written)
    if json and refused is None:
        exits.print_json(_as_json(found, written))
    elif not json:
        for line in _told(found, write=write):
            print(line)
    if refused is not None:
        raise typer.Exit(exits.report_error(*refused, exits.USAGE, as_json=json))
    for line in _done(found.config, written, write=write):
        say(line)


def _nothing_to_apply(report: StudyReport, number: int | None, *, as_json: bool) -> None:
    import sys

    from vtune.cli import exits
    from vtune.reporting.adopt import repeated_data
    from vtune.reporting.inert import harmless
    from vtune.reporting.none_chosen import NoneChosen, none_chosen_error, none_chosen_text, why_none_chosen

    best, none_chosen = report.choice.best, why_none_chosen(report.compared, report.choice)
    repeated = repeated_data(best, report.own) if best is not None else []
    why, code = "nothing was shown to be better than what is there", exits.DONE
    if number is not None:
        why = f"trial {number} turned nothing that vtune could set"
    elif none_chosen is NoneChosen.BUSY:
        raise none_chosen_error(report, none_chosen)
    elif none_chosen is not None:
        why, code = none_chosen_text(none_chosen, report.compared, report.choice), exits.NOT_FEASIBLE
    if as_json:
        told: dict[str, Any] = {"study": report.study, "trial": number, "settings": {}, "config": None, "why": why}
        exits.print_json({**told, "repeated": repeated})
    print(f"nothing to apply: {why}", file=sys.stderr)
    for line in repeated:
        print(f"note: {harmless(line)}", file=sys.stderr)
    if code:
        raise typer.Exit(code)


def _write(edit: ConfigEdit) -> dict[str, Any]:
    from vtune.config.write_edit import write_beside, write_edit

    if edit.after is not None:
        if edit.after == edit.before:
            return {"written": None, "backup": None}
        return {"written": str(edit.file), "backup": str(write_edit(edit.file, edit.before, edit.after))}
    if edit.beside is None:
        return {"written": None, "backup": None}
    return {"written": str(write_beside(edit.file, edit.beside_path, edit.beside)), "backup": None}


def _told(found: Application, *, write: bool) -> Iterator[str]:
    import shlex

    from vtune.reporting.commands import near
    from vtune.reporting.inert import harmless
    from vtune.reporting.words import setting_word, settings_text

    yield f"# trial {found.trial.trial} of {found.study}: {harmless(settings_text(found.settings))}"
    for line in (*found.another_training, *found.repeated):
        yield f"# {harmless(line)}"
    edit = found.config
    if edit is not None and edit.refused is not None:
        yield f"# {near(edit.file)} cannot be changed in place: {harmless(edit.refused)}"
        if edit.beside is not None and not write:
            yield f"# vtune apply --write puts it, changed, into {near(edit.beside_path)}; comments may be lost there"
    elif edit is not None and not edit.diff:
        yield f"# {near(edit.file)} says so already"
    elif edit is not None:
        yield from map(_as_it_is, edit.diff.removesuffix("\n").split("\n"))
    if found.command is not None:
        yield from ("# the command", harmless(shlex.join(found.command)))
    for name, value in found.env.items():
        yield from ("# in the environment", f"{name}={setting_word(value)}")
    for at, one in enumerate(found.python):
        if one.fed_by is not None:
            yield f"# {one.where}: {one.option} comes from {harmless(one.fed_by)}, which stays"
            yield f" {harmless(one.before or '')}"
            how = f"by {harmless(shlex.join(one.typed))} in the command" if one.typed is not None else "where it is set"
            yield f"# {harmless(one.fed_by)} becomes {one.value} {how}"
            continue
        yield f"# {one.where}: {one.option}={one.value}"
        # Several of one line change it once.
        below = found.python[at + 1] if at + 1 < len(found.python) else None
        if one.after is not None and not (below is not None and (below.line, below.after) == (one.line, one.after)):
            yield from (f"-{harmless(one.before or '')}", f"+{harmless(one.after)}")
        elif one.after is None and one.before is not None:
            yield f" {harmless(one.before)}"
    for name, value in found.unknown.items():
        yield f"# where the training sets it: {harmless(name)}={setting_word(value)}"


def _as_it_is(line: str) -> str:
    """For `patch`, which wants tabs, line ends and the whole of a long line."""
    from vtune.reporting.inert import harmless

    body, end = (line[:-1], "\r") if line.endswith("\r") else (line, "")
    return "\t".join(harmless(part, limit=len(line)) for part in body.split("\t")) + end


def _refused(edit: ConfigEdit | None, written: dict[str, Any] | None) -> tuple[str, str] | None:
    """(message, hint) where the config was to be written and could not be changed in place."""
    if edit is None or written is None or edit.refused is None:
        return None
    beside = written["written"]
    hint = f"the changed config is in {beside}" if beside else "set these values in the file by hand"
    return f"{edit.file} was not changed: {edit.refused}", hint


def _done(edit: ConfigEdit | None, written: dict[str, Any] | None, *, write: bool) -> Iterator[str]:
    if edit is None:
        if write:
            yield "nothing was written: none of these settings is in the training's config"
        return
    if written is None:
        if edit.diff:
            yield "nothing is changed yet: vtune apply --write does it, and keeps a backup"
        return
    if written["written"] is not None:
        yield f"written: {written['written']} · as it was: {written['backup']}"


def _as_json(found: Application, written: dict[str, Any] | None) -> dict[str, Any]:
    edit = found.config
    return {
        "study": found.study,
        "trial": found.trial.trial,
        "settings": dict(found.settings),
        "config": None
        if edit is None
        else {
            "file": str(edit.file),
            "diff": edit.diff,
            "refused": edit.refused,
            **(written or {"written": None, "backup": None}),
        },
        "command": None if found.command is None else list(found.command),
        "env": {name: str(value) for name, value in found.env.items()},
        "python": [
            {
                "file": None if one.file is None else str(one.file),
                "line": one.line,
                "option": one.option,
                "value": one.value,
                "before": one.before,
                "after": one.after,
                "fed_by": one.fed_by,
                "typed": None if one.typed is None else list(one.typed),
            }
            for one in found.python
        ],
        "unknown": dict(found.unknown),
        "effective_batch": None if found.batch is None else found.batch.as_json(),
        "another_training": list(found.another_training),
        "repeated": list(found.repeated),
    }
