"""What the ceiling is, for a terminal: the training with data for free, its loader alone, and each batch size."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from vtune.analysis.ceiling import fastest_rung
from vtune.analysis.others_words import MARK
from vtune.domain.numbers import bytes_, rate, seconds
from vtune.domain.record import Ceiling, Rung, TrialRecord
from vtune.domain.trial import TrialStatus
from vtune.journal.files import to_json
from vtune.reporting.inert import harmless

# A larger batch that wins less is within what launches differ by.
WORTH_SAYING = 1.05


def ceiling_panel(study: str, found: TrialRecord, ordinary: TrialRecord) -> RenderableType | None:
    """None where nothing was learnt: `ceiling_note` says why."""
    ceiling = found.measurement.ceiling
    if ceiling is None or found.status is not TrialStatus.COMPLETED:
        return None
    busy = found.on_busy_machine or ordinary.on_busy_machine
    parts: list[RenderableType] = [_numbers(ceiling, ordinary, busy=busy)]
    if ceiling.ladder:
        parts += [Text(), _ladder(ceiling)]
    if ceiling.ended_because:
        parts += [Text(), Text(f"no larger batch: {harmless(ceiling.ended_because)}", style="dim")]
    parts += [Text(harmless(f"note: {note}"), style="dim") for note in found.notes if note not in ordinary.notes]
    title = Text(f"{study} · trial {found.trial} · fed from memory{f' · {MARK}' if busy else ''}")
    return Panel(Group(*parts), title=title, title_align="left", padding=(1, 2))


def ceiling_note(found: TrialRecord | None, ordinary: TrialRecord) -> str | None:
    """For the ordinary trial, where a ceiling was asked for and is not there."""
    if ordinary.status is not TrialStatus.COMPLETED:
        return "the ceiling was not looked for: the trial itself did not complete"
    if found is None:
        return "the ceiling was not looked for: no loader was seen to feed the steps"
    if found.status is TrialStatus.COMPLETED:
        return None
    return f"trial {found.trial}: {found.diagnosis.verdict}"


def ceiling_to_json(found: TrialRecord | None) -> dict[str, Any] | None:
    if found is None or found.measurement.ceiling is None:
        return None
    return {"trial": found.trial, "status": found.status.value, **to_json(found.measurement.ceiling)}


def _numbers(ceiling: Ceiling, ordinary: TrialRecord, *, busy: bool) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    now = ordinary.measurement.samples_per_s
    own = ceiling.ladder[0] if ceiling.ladder else None
    if ceiling.compute_samples_per_s is not None and own is not None:
        table.add_row(
            "compute alone",
            f"{rate(ceiling.compute_samples_per_s)} samples/s with data for free, at batch {own.batch_size}",
        )
    if ceiling.loader_samples_per_s is not None:
        table.add_row("loader alone", f"{rate(ceiling.loader_samples_per_s)} samples/s with computing for free")
    if now:
        table.add_row("now", f"{rate(now)} samples/s, as trial {ordinary.trial} measured it")
        table.add_row("left to win", f"not told: {MARK}" if busy else _left_to_win(ceiling, now))
    return table


def _left_to_win(ceiling: Ceiling, now: float) -> str:
    compute = ceiling.compute_samples_per_s
    if compute is None:
        return "unknown: what the training could compute was not measured"
    gain = compute / now
    said = (
        f"{_times(gain)} at most by better data loading" if gain >= WORTH_SAYING else "nothing by better data loading"
    )
    fastest = fastest_rung(ceiling)
    assert fastest is not None and fastest.samples_per_s is not None
    if fastest.samples_per_s >= WORTH_SAYING * compute:
        more = _times(fastest.samples_per_s / now)
        said += f", {more} with batch {fastest.batch_size} as well, which is another training"
    return said


def _ladder(ceiling: Ceiling) -> RenderableType:
    rungs = ceiling.ladder
    vram = any(rung.vram_peak_bytes is not None for rung in rungs)
    ram = any(rung.ram_peak_bytes is not None for rung in rungs)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False, header_style="dim")
    titles = ["batch", "samples/s", "a step", *(["VRAM"] if vram else []), *(["RAM"] if ram else [])]
    for title in titles:
        table.add_column(title, justify="right")
    fastest = fastest_rung(ceiling)
    for rung in rungs:
        memory = [rung.vram_peak_bytes] * vram + [rung.ram_peak_bytes] * ram
        cells = [str(rung.batch_size), *_rate_and_step(rung)]
        cells += [bytes_(size) if size is not None else "" for size in memory]
        table.add_row(*cells, style="bold" if rung is fastest else None)
    return table


def _rate_and_step(rung: Rung) -> list[str]:
    if not rung.fits:
        return ["does not fit", ""]
    return [rate(rung.samples_per_s), seconds(rung.step_s)]


def _times(gain: float) -> str:
    return f"{gain:.0f}×" if gain >= 10 else f"{gain:.2g}×"
