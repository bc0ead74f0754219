"""A comparison for a terminal: the verdict first, then both sides, what differs, and what to know of it."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from vtune.analysis.others_words import use_text
from vtune.domain.numbers import tells_nothing, times
from vtune.domain.others import LEAST_BUSY_CORES
from vtune.reporting.comparison import Comparison, measure_text, rates_text, share, side_text
from vtune.reporting.inert import harmless
from vtune.reporting.words import setting_word


def compare_panel(found: Comparison) -> RenderableType:
    failed = found.gate is not None and found.gate.failed
    parts: list[RenderableType] = [Text(harmless(verdict_text(found)), style="bold red" if failed else "bold")]
    if found.two_trainings is not None:
        parts.append(Text(harmless(found.two_trainings, 1000), style="bold"))
    if (said := gate_text(found)) is not None:
        parts.append(Text(said, style="bold red" if failed else ""))
    parts.append(Text(measure_text(found)))
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    met = found.compared.met
    # A race is told as B over A.
    raced = (met.legs[1], met.legs[0]) if met is not None else ((), ())
    for name, side, rate, legs in zip("AB", (found.a, found.b), rates_text(found), raced, strict=True):
        table.add_row(name, Text(harmless(f"{rate}: {side_text(side, legs)}")))
    for name, (one, other) in found.differing.items():
        table.add_row(Text(harmless(name)), Text(f"{_word(one)} in A, {_word(other)} in B"))
    parts += [Text(), table]
    if found.against_it:
        parts += [Text(), Text("compared by force, though", style="bold")]
        parts += [Padding(Text(harmless(line)), (0, 0, 0, 1)) for line in found.against_it]
    if found.notes:
        parts += [Text(), Text("note", style="dim")]
        parts += [Padding(Text(f"· {harmless(line)}"), (0, 0, 0, 1)) for line in found.notes]
    return Panel(Group(*parts), title=Text("B against A"), title_align="left", padding=(1, 1))


def verdict_text(found: Comparison) -> str:
    compared = found.compared
    said = times(compared.ratio.value, compared.ratio.ci95)
    by = f", by {compared.paired.pairs} rounds of a race" if compared.paired is not None else ""
    match compared.verdict:
        case "faster":
            return f"B is faster: {said} the rate of A{by}"
        case "slower":
            return f"B is slower: {said} the rate of A{by}"
        case "tie":
            assert compared.resolvable is not None
            met = compared.paired
            if tells_nothing(compared.ratio.ci95):
                return f"too noisy to compare{_beside(found)}"
            if met is not None and (met.ratio.shown_faster or met.ratio.shown_slower):
                return f"no difference that counts: B comes to {said} of A{by}, and up to {share(met.delta)} is equal"
            if compared.ratio.shown_faster or compared.ratio.shown_slower:
                said += ", whose interval of 99 % holds 1,"
            return (
                f"not distinguishable: B comes to {said} of A{by};"
                f" a difference of less than {share(compared.resolvable)} could not have been seen"
            )
        case "unknown":
            return f"not judged: B comes to {said} of A, and a rate without an interval shows nothing"


def _beside(found: Comparison) -> str:
    """Who else used the cores, where that is known."""
    launches = (record for side in (found.a, found.b) for record in (side.record, *side.launches))
    known = [others for record in launches if (others := record.measurement.others) is not None]
    most = max(known, key=lambda others: others.used, default=None)
    return f": {use_text(most, 'used')}" if most is not None and most.used >= LEAST_BUSY_CORES else ""


def gate_text(found: Comparison) -> str | None:
    """What --fail-if-slower came to."""
    if found.gate is None:
        return None
    most = share(found.gate.most)
    if found.gate.failed:
        by = share(1 - found.compared.ratio.value)
        return f"gate: no; B is shown to be slower, and by {by} of A's rate ({most} or more)"
    if not found.gate.could_be_seen:
        raced = found.compared.paired is not None
        how = "give the race more --rounds" if raced else "launch both anew, in turns, with --race"
        return (
            f"gate: passed, but BLIND: a slow-down of {most} could not have been seen here; {how},"
            " or measure while nothing else runs"
        )
    return f"gate: passed; a slow-down of {most} would have been seen"


def _word(value: object) -> str:
    return "unknown" if value is None else setting_word(value)
