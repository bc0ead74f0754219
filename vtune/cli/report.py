"""`vtune report`: a study once more from its journal, at any time and on any machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vtune.cli import options

if TYPE_CHECKING:
    from vtune.config.problems import Problem

FORMATS = ("md", "csv", "json")


def report(
    config: options.Config = None,
    study: options.StudyName = None,
    results: options.Results = Path("results"),
    format: Annotated[
        str | None,
        typer.Option("--format", metavar="LIST", help="md, csv, json or several, as md,csv; without it, a summary."),
    ] = None,
    vram_limit: options.VramLimit = None,
    ram_limit: options.RamLimit = None,
    price: options.PriceOption = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Tell again, from the journal alone, which settings won and why, and how to adopt them.

    Writes report.md, trials.csv and choice.json into the study's folder. Other limits choose again, as a what-if:
    nothing is run, and only what --format names is written.
    """
    import sys

    from vtune.cli import exits
    from vtune.config.command_line import CommandLine, read_command_line
    from vtune.config.problems import ConfigErrors
    from vtune.domain.experiment import Limits
    from vtune.reporting.csv_table import csv_table
    from vtune.reporting.markdown import markdown
    from vtune.reporting.report_files import write_report_files
    from vtune.reporting.report_json import report_to_json
    from vtune.reporting.study_report import find_report

    problems: list[Problem] = []
    typed = CommandLine(study=study, vram_limit=vram_limit, ram_limit=ram_limit, price=price)
    asked = read_command_line(typed, problems)
    wanted = _formats(format, problems)
    if problems:
        raise ConfigErrors(problems)
    # Not through the API: it loads what runs trials, and a report is read where none can run.
    found = find_report(
        asked.study, config=config, results=results, limits=Limits(vram=asked.vram, ram=asked.ram), price=asked.price
    )

    def say(line: str) -> None:
        if not quiet:
            print(line, file=sys.stderr)

    if asked.study is None and config is None:
        say(f"report of study {found.study} in {results}, the one used last")
    by_itself = ["md", "csv"] if found.what_if is None else []
    done = write_report_files(found, by_itself if format is None else wanted)
    for refused in done.refused:
        say(f"note: {refused}")
    if found.what_if is not None:
        say(f"{found.what_if}: the study's files stay as they are, but for those that --format names")
    if json or "json" in wanted:
        exits.print_json(report_to_json(found))
    elif wanted == ["md"]:
        _put(markdown(found))
    elif wanted == ["csv"]:
        _put(csv_table(found))
    else:
        from vtune.cli.console import console
        from vtune.reporting.report_panel import report_panel, to_paste

        _plain_stdout()
        out = console()
        in_file = any(path.suffix == ".md" for path in done.paths)
        out.print(report_panel(found, whole="report.md" if in_file else "the document of --format md"))
        for line in to_paste(found):
            # A terminal wraps a long line so that it can still be copied as one.
            out.print(line, soft_wrap=True)
    if done.paths:
        say(f"written: {' · '.join(map(str, done.paths))}")


def _formats(text: str | None, problems: list[Problem]) -> list[str]:
    from vtune.config.problems import Problem

    names = [name.strip().lower() for name in (text or "").split(",") if name.strip()]
    unknown = [name for name in names if name not in FORMATS]
    if unknown or (text is not None and not names):
        what = f'must be {", ".join(FORMATS[:-1])} or {FORMATS[-1]}, or several of them, got "{text}"'
        problems.append(Problem(message=f"--format {what}", hint="for example --format md,csv"))
    return list(dict.fromkeys(names))


def _put(text: str) -> None:
    """The document as it is: its line ends and its encoding are its own, whatever the terminal's are."""
    import sys

    _plain_stdout()
    sys.stdout.write(text)
    sys.stdout.flush()


def _plain_stdout() -> None:
    import io
    import sys

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="")
