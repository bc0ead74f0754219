"""The knobs for a terminal: each with its class and values in one line, and below it what it is and how it takes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from rich.console import ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment
from vtune.domain.machine import Machine
from vtune.domain.numbers import bytes_
from vtune.knobs.describe import KnobView
from vtune.reporting.inert import harmless
from vtune.reporting.words import setting_word

FOR_YOURS = "for your workload: pass --config FILE or -- CMD"
INDENT = "  "
# The longest words of their columns; what is longer comes from outside and is cut.
NAME_CELLS, CLASS_CELLS, NOW_CELLS = 25, 9, 9


def knobs_table(machine: Machine, experiment: Experiment | None, views: Sequence[KnobView]) -> RenderableType:
    parts: list[RenderableType] = [Text(line) for line in _head(machine, experiment)]
    for view in views:
        parts += [Text(), _line(view, with_now=experiment is not None)]
        parts += [_Indented(harmless(line)) for line in _below(view)]
    parts += [
        Text(),
        Text("same: the same samples and mathematics · close: rounded or ordered otherwise"),
        Text("different: may change the result"),
    ]
    return Group(*parts)


class _Indented:
    """Wrapped with its indent on every line, and without the blanks behind it that a pipe would carry on."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(self, console: object, options: ConsoleOptions) -> Iterator[Text]:
        for line in textwrap.wrap(self._text, max(1, options.max_width - len(INDENT)), break_on_hyphens=False):
            yield Text(INDENT + line)


def _head(machine: Machine, experiment: Experiment | None) -> list[str]:
    memory = f", {bytes_(machine.ram_bytes)} of memory" if machine.ram_bytes is not None else ""
    here = f"on this machine ({machine.cores_text}{memory})"
    if experiment is None:
        return [f"knobs {here}; {FOR_YOURS}"]
    return [
        f"knobs of {harmless(experiment.study)} {here}",
        f"command: {harmless(' '.join(experiment.workload.command))}",
    ]


def _line(view: KnobView, *, with_now: bool) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    table.add_column(width=NAME_CELLS, no_wrap=True)
    table.add_column(width=CLASS_CELLS, no_wrap=True)
    cells = [Text(view.knob.name, style="bold"), Text(view.knob.numerics.lower())]
    if with_now:
        table.add_column(width=NOW_CELLS, no_wrap=True)
        cells.append(Text(f"now {_word(view.way.current if view.way is not None else None)}"))
    table.add_column()
    values = " ".join(_word(value) for value in view.values)
    cells.append(Text(", ".join(filter(None, (values and f"try {values}", harmless(view.values_note or ""))))))
    table.add_row(*cells)
    return table


def _below(view: KnobView) -> list[str]:
    lines = [view.knob.doc, f"{view.knob.numerics.lower()}: {view.knob.numerics_reason}"]
    if view.way is not None:
        lines.append(f"set by: {view.way.how}" if view.way.how is not None else f"cannot be set: {view.way.why_not}")
    return lines


def _word(value: Scalar) -> str:
    return "?" if value is None else setting_word(value, 12)
