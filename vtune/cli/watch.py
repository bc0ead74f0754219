"""`vtune watch`: a running training, whoever started it, looked at without touching it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vtune.cli import options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vtune.execution.watching import Asked, Watching
    from vtune.journal.paths import StudyPaths

# A verdict within ten seconds, the start of the program among them.
VERDICT_S = 8.5
LINE_EVERY_S = 5.0


def watch(
    what: Annotated[
        str | None, typer.Argument(metavar="[STUDY|PID]", help="A study whose training runs, or a process.")
    ] = None,
    results: options.Results = Path("results"),
    once: Annotated[
        bool, typer.Option("--once", help="Look for 10 seconds, tell, and end.", show_default=False)
    ] = False,
    epochs: Annotated[
        str | None, typer.Option("--epochs", metavar="N", help="Epochs of the run, where its log does not say.")
    ] = None,
    vram_limit: options.VramLimit = None,
    ram_limit: options.RamLimit = None,
    price: options.PriceOption = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show a running training, also one that vtune did not start: what it waits for, its memory, its steps.

    It is only looked at: nothing is sent, traced or written. Twice a second on a terminal, a line each 5 seconds
    elsewhere; --json gives one object after 10 seconds and ends. Ctrl-C leaves; the training goes on.
    """
    import contextlib
    import sys

    from vtune.cli.interrupts import terminations_as_interrupts
    from vtune.execution.watch_find import find_training
    from vtune.execution.watching import Watching

    # Whoever stops looking interrupts nothing.
    with contextlib.suppress(KeyboardInterrupt), terminations_as_interrupts():
        typed = _typed(epochs, vram_limit, ram_limit, price)
        found = find_training(what, results)
        if what is None and not quiet:
            study = f" of study {found.study.root.name}" if found.study is not None else ""
            print(f"watching process {found.pid}{study}", file=sys.stderr)
        with Watching(found.pid, _asked(typed, found.study)) as watching:
            if json or once:
                _tell_once(watching, as_json=json)
            else:
                _show(watching)


def _typed(epochs: str | None, vram_limit: str | None, ram_limit: str | None, price: str | None) -> Asked:
    from vtune.config.command_line import CommandLine, read_command_line
    from vtune.config.problems import ConfigErrors, Problem
    from vtune.config.quantities import parse_count
    from vtune.execution.watching import Asked

    problems: list[Problem] = []
    typed = read_command_line(CommandLine(vram_limit=vram_limit, ram_limit=ram_limit, price=price), problems)
    count = None
    try:
        count = parse_count(epochs) if epochs is not None else None
    except ValueError as error:
        problems.append(Problem(message=f"--epochs {error}", hint="for example --epochs 30"))
    if problems:
        raise ConfigErrors(problems)
    return Asked(vram=typed.vram, ram=typed.ram, price=typed.price, epochs=count)


def _asked(typed: Asked, study: StudyPaths | None) -> Asked:
    """What was typed goes before what the study was asked with."""
    from dataclasses import replace

    from vtune.config.remembered import remember
    from vtune.errors import UsageError

    if study is None:
        return typed
    try:
        known = remember(study.experiment)
    except (UsageError, OSError):  # its config is not here any more: it would only be a convenience
        return typed
    limits = known.limits
    return replace(typed, vram=typed.vram or limits.vram, ram=typed.ram or limits.ram, price=typed.price or known.price)


def _tell_once(watching: Watching, *, as_json: bool) -> None:
    import contextlib

    from vtune.cli import exits
    from vtune.reporting.watch_json import watched_to_json
    from vtune.reporting.watch_rows import watch_rows

    # Left before, it tells what it has seen so far.
    with contextlib.suppress(KeyboardInterrupt):
        for seen_s in _looks(watching):
            if seen_s >= VERDICT_S:
                break
    seen = watching.picture()
    if as_json:
        exits.print_json(watched_to_json(seen))
    else:
        print("\n".join(watch_rows(seen)))


def _show(watching: Watching) -> None:
    import sys

    from vtune.cli.closed_pipe import nobody_reads
    from vtune.cli.console import console

    out = console()
    if out.is_terminal and not out.is_dumb_terminal:
        _draw(watching)
        return
    from vtune.reporting.watch_rows import watch_line, watch_rows

    due_s = LINE_EVERY_S
    for seen_s in _looks(watching):
        if nobody_reads(sys.stdout):
            return
        if seen_s >= due_s:
            due_s += LINE_EVERY_S
            print(watch_line(watching.picture()), flush=True)
    print("\n".join(watch_rows(watching.picture())))


def _draw(watching: Watching) -> None:
    """Its own few escape codes: a renderer of tables takes more of a core than all that is measured."""
    import shutil
    import sys

    from vtune.reporting.watch_rows import fitted, watch_rows

    drawn = 0
    for _ in _looks(watching):
        width, height = shutil.get_terminal_size()
        shown = fitted(watch_rows(watching.picture()), width - 1, max(1, height - 1))
        up = f"\x1b[{drawn}A" if drawn else ""
        sys.stdout.write(up + "".join(f"\r{row}\x1b[K\n" for row in shown) + "\x1b[J")
        sys.stdout.flush()
        drawn = len(shown)
    rows = watch_rows(watching.picture())
    sys.stdout.write((f"\x1b[{drawn}A\x1b[J" if drawn else "") + "\n".join(rows) + "\n")


def _looks(watching: Watching) -> Iterator[float]:
    """Seconds since the first look, at each look; ends with the training."""
    import time

    from vtune.execution.watching import LOOK_EVERY_S

    begun_s = due_s = time.monotonic()
    while True:
        watching.look()
        if not watching.lives:
            return
        yield time.monotonic() - begun_s
        due_s += LOOK_EVERY_S * (1 + max(0.0, time.monotonic() - due_s) // LOOK_EVERY_S)
        time.sleep(max(0.0, due_s - time.monotonic()))
