"""`vtune doctor`: what this machine has, what vtune can measure on it, and the proof."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from vtune.cli import options

SelfTest = Annotated[
    bool,
    typer.Option(
        "--selftest",
        help="Measure trainings whose truth is known (1 to 3 minutes) and write a bundle to send.",
        show_default=False,
    ),
]
Python = Annotated[
    str | None,
    typer.Option("--python", metavar="FILE", help="The Python that runs the training (default: as `python` would be)."),
]


def doctor(
    selftest: SelfTest = False,
    results: options.Results = Path("results"),
    python: Python = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Tell what this machine has for a training, and what cannot be measured or enforced on it.

    Cores, memory, GPUs, driver, neighbours and disk as far as this process may use them. Changes nothing.
    """
    from vtune import api
    from vtune.cli import exits
    from vtune.cli.console import console, print_list
    from vtune.cli.interrupts import terminations_as_interrupts
    from vtune.domain.selftest import CellResult, why_not_validated
    from vtune.journal.files import to_json
    from vtune.reporting.doctor_panel import cell_line, doctor_panel, selftest_table

    stderr = console(stderr=True, quiet=quiet)
    done: list[CellResult] = []
    told: dict[str, Any] = {}
    try:
        with terminations_as_interrupts():
            found = api.doctor(results=results, python=python)
            told |= {"machine": to_json(found.survey), "validated": found.validated}
            if not json:
                print_list(doctor_panel(found.survey, validated=found.validated))
            if found.blocked is not None:
                message, hint = found.blocked.because, found.blocked.instead
                raise typer.Exit(exits.report_error(message, hint, exits.MACHINE, as_json=json))
            if not selftest:
                if json:
                    exits.print_json(told)
                return

            def notify(event: object) -> None:
                if isinstance(event, CellResult):
                    done.append(event)
                    stderr.print(cell_line(event), markup=False, soft_wrap=True)

            stderr.print("self-test: 1 to 3 minutes; keep the machine quiet", markup=False, soft_wrap=True)
            result = api.selftest(results=results, survey=found.survey, notify=notify)
    except KeyboardInterrupt:
        if json:
            cells = [to_json(cell) for cell in done]
            exits.print_json(
                {"machine": None, "validated": False, **told, "green": None, "cells": cells, "bundle": None}
            )
        exits.say_interrupted("nothing of the self-test is left", "vtune doctor --selftest")
        raise typer.Exit(exits.INTERRUPTED) from None
    if json:
        cells = [to_json(cell) for cell in result.cells]
        why_not = result.why_not_validated
        told |= {"validated": why_not is None, "why_not_validated": why_not, "green": result.colour == "green"}
        told |= {"cells": cells, "bundle": str(result.bundle)}
        if result.colour != "incomplete":
            exits.print_json(told)
    else:
        print()
        print_list(selftest_table(result.cells, str(result.bundle)))
        if result.why_not_validated is not None and why_not_validated(result.cells) is None:
            stderr.print(f"not validated: {result.why_not_validated}", markup=False, soft_wrap=True)
    if result.colour == "incomplete":
        message, hint = f"self-test incomplete: {result.why_not_validated}", "each cell says what stood in its way"
        raise typer.Exit(exits.report_error(message, f"{hint}: {result.bundle}", exits.MACHINE, as_json=json))
    raise typer.Exit(exits.DONE if result.colour == "green" else exits.SAID_NO)
