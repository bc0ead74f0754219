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
    from rich.console import Console

    from vtune import api
    from vtune.cli import exits
    from vtune.cli.interrupts import terminations_as_interrupts
    from vtune.domain.selftest import CellResult, is_green
    from vtune.journal.files import to_json
    from vtune.reporting.doctor_panel import cell_line, doctor_panel, selftest_table

    stderr = Console(stderr=True, quiet=quiet, highlight=False)
    stdout = Console(highlight=False)
    done: list[CellResult] = []
    told: dict[str, Any] = {}
    try:
        with terminations_as_interrupts():
            found = api.doctor(results=results, python=python)
            told |= {"machine": to_json(found.survey), "validated": found.validated}
            if not json:
                stdout.print(doctor_panel(found.survey, validated=found.validated))
            if found.blocked is not None:
                message, hint = found.blocked.because, found.blocked.instead
                raise typer.Exit(exits.report_error(message, hint, exits.MACHINE, as_json=json, **told))
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
        told |= {"validated": result.remembered, "green": is_green(result.cells), "cells": cells}
        exits.print_json(told | {"bundle": str(result.bundle)})
    else:
        stdout.print()
        stdout.print(selftest_table(result.cells, str(result.bundle)))
    raise typer.Exit(exits.DONE if result.green else exits.SAID_NO)
