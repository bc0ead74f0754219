"""What a probe found, for a terminal: the verdict first, then the numbers, why, and what to try."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from vtune.analysis.doubts import is_calm
from vtune.analysis.others_words import MARK
from vtune.domain.experiment import Price
from vtune.domain.machine_use import GpuUse
from vtune.domain.numbers import bytes_, many, money, rate, seconds
from vtune.domain.record import Measurement, TrialRecord
from vtune.domain.trial import TrialStatus
from vtune.reporting.failures import last_words
from vtune.reporting.inert import harmless
from vtune.reporting.vram_rows import vram_rows
from vtune.reporting.words import repeats_lines, settings_cell

BAR_CELLS = 24


def probe_panel(study: str, record: TrialRecord, price: Price | None) -> RenderableType:
    completed = record.status is TrialStatus.COMPLETED
    parts: list[RenderableType] = []
    if words := last_words(record):
        parts += [*_section("the training's last words", words, bullet="│")[1:], Text()]
    parts.append(Text(harmless(record.diagnosis.verdict), style="bold" if completed else "bold red"))
    if completed and record.detail:
        parts.append(Text(harmless(record.detail)))
    repeated = record.measurement.repeated
    is_shown = repeated is not None and repeated.is_shown
    if is_shown:
        parts += [Text(harmless(line)) for line in repeats_lines(record)]
    if record.measurement.step_time_s is not None:
        parts += [Text(), _numbers(record, price)]
    parts += _section("why", record.diagnosis.why)
    parts += _section("next", record.diagnosis.next)
    parts += _section("note", [*record.notes, *([] if is_shown else repeats_lines(record))])
    title = Text(f"{study} · trial {record.trial}")
    return Panel(Group(*parts), title=title, title_align="left", padding=(1, 2))


def _gpu(gpu: GpuUse) -> str:
    busy = "utilization unknown" if gpu.util_mean is None else f"{gpu.util_mean:.0f} % busy"
    memory = "VRAM unknown"
    if gpu.vram_peak_bytes is not None:
        of = f" of {bytes_(gpu.vram_total_bytes)}" if gpu.vram_total_bytes is not None else ""
        memory = f"{bytes_(gpu.vram_peak_bytes)}{of} VRAM at its peak"
    power = "" if gpu.power_w_mean is None else f", {gpu.power_w_mean:.0f} W"
    name = f"{harmless(gpu.name, 60)}: " if gpu.name else ""
    source = f"; memory as told by {harmless(gpu.vram_from, 120)}" if gpu.vram_from else ""
    return f"{name}{busy}, {memory}{power}{source}"


def _numbers(record: TrialRecord, price: Price | None) -> RenderableType:
    measured = record.measurement
    table = _Numbers(f", {MARK}" if record.on_busy_machine else "")
    if record.settings:
        table.add_row("settings", settings_cell(record, list(record.settings)))
    if measured.samples_per_s is not None:
        doubt = "" if record.on_busy_machine else _spread(measured)
        table.add_row("rate", f"{rate(measured.samples_per_s)} samples/s{doubt}, {_steps(record)}")
    if measured.voxels_per_s is not None:
        table.add_row("", f"{many(measured.voxels_per_s)} voxels/s")
    times = measured.step_time_s
    if times is not None:
        table.add_row(
            "step",
            f"{seconds(times.mean)} in the mean, {seconds(times.p50)} median, {seconds(times.p90)} at the 90th"
            " percentile",
        )
    if measured.data_wait_fraction is not None:
        filled = round(measured.data_wait_fraction * BAR_CELLS)
        bar = "█" * filled + "░" * (BAR_CELLS - filled)
        table.add_row("waiting", f"{bar} {measured.data_wait_fraction:.0%} of a step for data")
    for share, what in ((measured.host_fraction, "the main process"), (measured.transfer_fraction, "the copy to it")):
        if share is not None:
            table.add_row("device idle", f"{share:.0%} of the time for {what}, beside waiting for data")
    # No run comes of a trial that did not complete, and others would be a part of one from a busy machine.
    if record.status is TrialStatus.COMPLETED and not record.on_busy_machine:
        _add_projection(table, measured, price)
    for gpu in measured.gpus:
        table.add_row(f"GPU {gpu.index}", _gpu(gpu))
    for number, line in enumerate(vram_rows(measured)):
        table.add_row("" if number else "VRAM", line)
    if measured.ram_peak_bytes is not None:
        workers = measured.workers_rss_bytes
        peak = f"{bytes_(measured.ram_peak_bytes)} at its peak, shared pages counted once"
        table.add_row("RAM", peak + _to_come(measured))
        if workers:
            alike = len({bytes_(w) for w in workers}) == 1 and len(workers) > 1
            each = ", ".join(bytes_(w) for w in workers[:8]) + (" …" if len(workers) > 8 else "")
            told = f"{len(workers)} × {bytes_(workers[0])}" if alike else each
            table.add_row("", f"{told} resident in each loader worker, shared pages included")
    return table.table


def _spread(measured: Measurement) -> str:
    interval = measured.samples_per_s_ci95
    return f" ({rate(interval[0])} to {rate(interval[1])}, 95 %)" if interval else " (no interval: too few steps)"


def _steps(record: TrialRecord) -> str:
    measured = record.measurement
    steady = ", steady" if measured.steady else "" if is_calm(measured) else ", not steady"
    return f"{measured.steps_measured} steps{'' if record.on_busy_machine else steady}"


class _Numbers:
    """Names and numbers. `mark`: behind each of them."""

    def __init__(self, mark: str) -> None:
        self.table = Table.grid(padding=(0, 2))
        self.table.add_column(style="dim", no_wrap=True)
        self.table.add_column()
        self._mark = mark

    def add_row(self, name: str, text: str) -> None:
        self.table.add_row(name, f"{text}{self._mark}" if name != "settings" else text)


def _to_come(measured: Measurement) -> str:
    if not measured.ram_growth:
        return ""
    projected, interval = measured.ram_projected_bytes, measured.ram_projected_ci95
    if projected is None:
        return "; what a run comes to is not known"
    spread = f" ({bytes_(interval[0])} to {bytes_(interval[1])})" if interval is not None else ""
    if any(one.until == "epoch" and one.who != "workers" for one in measured.ram_growth) and interval is None:
        return f"; {bytes_(projected)} by the end of one epoch, and how many there are was not found"
    return f"; {bytes_(projected)}{spread} in the planned run"


def _add_projection(table: _Numbers, measured: Measurement, price: Price | None) -> None:
    projected = measured.projected
    if projected.epoch_s is None:
        table.add_row("projection", "unknown: neither the length of an epoch nor of the run was found")
        return
    bound = f" of {measured.samples_per_epoch} samples" if measured.samples_per_epoch else ""
    text = f"{seconds(projected.epoch_s)} an epoch{bound}"
    if projected.run_s is not None:
        text += f", {seconds(projected.run_s)} the whole run"
    else:
        text += "; how many epochs was not found (vtune.run.epochs in an experiment file says it)"
    table.add_row("projection", text)
    if price is not None:
        whole = projected.run_s is not None
        hours = (projected.epoch_s if projected.run_s is None else projected.run_s) / 3600
        cost = f"{money(hours * price.per_hour, price)} {'the whole run' if whole else 'an epoch'}"
        table.add_row("cost", f"{cost}, at {money(price.per_hour, price)} an hour")


def _section(title: str, lines: Sequence[str], bullet: str = "·") -> list[RenderableType]:
    if not lines:
        return []
    grid = Table.grid(padding=(0, 1))
    for line in lines:
        grid.add_row(bullet, Text(harmless(line)))
    return [Text(), Text(title, style="dim"), Padding(grid, (0, 0, 0, 1))]
