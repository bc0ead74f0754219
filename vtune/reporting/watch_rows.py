"""A running training on a terminal, and on one line where nobody looks."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from rich.cells import cell_len, set_cell_size

from vtune.analysis.renewal_words import renewal_text
from vtune.domain.numbers import bytes_, rate, seconds
from vtune.domain.watching import GpuRow, Growth, LaunchSeen, LogProgress, ProcessRow, Watched
from vtune.reporting.inert import harmless
from vtune.reporting.words import settings_text

# Of a pool of a hundred workers the rest is counted.
MOST_WORKERS = 16
_INDENT = " " * 10
_TABLE = f"{'pid':>8}  {'role':<9}{'CPU':>6}{'queued':>8}{'storage':>9}{'RAM':>10}{'reads/s':>11}  asleep in"


def watch_rows(seen: Watched) -> list[str]:
    """What matters most first: a small terminal cuts the end."""
    state = f"ended, ran for {seconds(seen.ran_s)}" if seen.ended else f"runs for {seconds(seen.ran_s)}"
    rows = [
        f"process {seen.pid} · {state} · {harmless(seen.command, 120)}",
        "",
        *(_launch(seen.launch, ended=seen.ended) if seen.launch is not None else ()),
        f"verdict   {seen.verdict.sentence}",
        *(f"{_INDENT}{line}" for line in seen.verdict.evidence),
    ]
    if seen.costs is not None:
        rows.append(f"cost      {seen.costs}")
    rows += [f"tuning    {seen.tuning}", f"steps     {_progress(seen.progress, seen.no_log_because)}"]
    rows += [f"error     {harmless(text, 160)}" for text in seen.errors]
    rows += [f"GPU       {text}" for text in _gpus(seen)]
    rows += [
        f"RAM       {_ram(seen)}",
        f"shm       {_shm(seen)}",
        f"disk      {_disk(seen)}",
        f"cores     {_cores(seen)}",
    ]
    rows += [f"missing   {text}" for text in seen.missing]
    return [*rows, "", *_processes(seen)]


def fitted(rows: list[str], width: int, height: int) -> list[str]:
    """A sentence goes on below itself, in the table the end of a row is cut. In a window that is too small for all of
    it the command gets one row, and the last row says what is missing."""
    table = rows.index(_TABLE) if _TABLE in rows else len(rows)
    first, *others = [wrap(row, width, subsequent_indent=_INDENT) or [""] for row in rows[:table]] or [[""]]
    below = [*(line for lines in others for line in lines), *rows[table:]]
    lines = [*first, *below] if len(first) + len(below) <= height else [rows[0], *below]
    if len(lines) > height:
        lines = [*lines[: height - 1], f"… {len(lines) - height + 1} more rows: in a taller window, or by --once"]
    # A wide character takes two columns.
    return [set_cell_size(line, min(cell_len(line), width)) for line in lines]


def watch_line(seen: Watched) -> str:
    parts = [seconds(seen.ran_s), seen.verdict.sentence]
    if seen.ended:
        parts[0] = f"ended, ran for {parts[0]}"
    if seen.launch is not None:
        parts += _launch_parts(seen.launch, ended=seen.ended)
    elif seen.progress.step is not None:
        parts.append(_progress(seen.progress, None))
    trainings = [row.cores for row in seen.processes if row.role == "training" and row.cores is not None]
    workers = [row.cores for row in seen.processes if row.role == "worker" and row.cores is not None]
    if trainings:
        parts.append(f"main process {sum(trainings) / len(trainings):.0%} of a core")
    if workers:
        busy = f"{sum(workers) / len(workers):.0%}"
        parts.append(f"1 worker {busy}" if len(workers) == 1 else f"{len(workers)} workers {busy} each")
    parts += [f"GPU {text}" for text in _gpus(seen) if seen.gpus]
    parts.append(f"RAM {_ram(seen)}")
    parts.append(f"disk {_disk(seen)}")
    if seen.errors:
        parts.append(f"error: {harmless(seen.errors[-1], 120)}")
    return " · ".join(parts)


def _launch(launch: LaunchSeen, *, ended: bool) -> Iterator[str]:
    which = f"launch {launch.launch} of study {launch.study}"
    if launch.attempt > 1:
        which += f", attempt {launch.attempt}{_after(launch)}"
    whose = "unknown settings" if launch.trial is None else f"the settings of trial {launch.trial}"
    yield f"launch    {which}, with {whose}: {settings_text(launch.settings) or 'nothing turned'}"
    yield f"promise   {_promise(launch)}"
    if launch.renewed is not None:
        yield f"renewed   {renewal_text(launch.renewed)}"
    yield f"done      {_done(launch)}" + (f"; asked to save and end ({launch.ending})" if launch.ending else "")
    if ended:
        return
    if launch.guard_lives:
        yield f"guard     process {launch.guard_pid} lives"
        return
    was = "" if launch.guard_pid is None else f": process {launch.guard_pid} is gone"
    yield f"guard     none lives{was}. The training goes on, held to its RAM limit by its supervisor;"
    yield f"{_INDENT}nobody ends it for a hang, VRAM or growing memory, and nothing of it goes into the journal"
    yield f"{_INDENT}to let it save and end: kill -TERM {launch.supervisor_pid or 'PID'}"


def _after(launch: LaunchSeen) -> str:
    downs, again = launch.step_downs, launch.retries
    parts = [f"{downs} step-down{'s' if downs > 1 else ''}"] if downs else []
    parts += [f"{again} {'retries' if again > 1 else 'retry'}"] if again else []
    return f" after {' and '.join(parts)}" if parts else ""


def _launch_parts(launch: LaunchSeen, *, ended: bool) -> list[str]:
    parts = [f"launch {launch.launch} of {launch.study}", _done(launch), _promise(launch)]
    return parts if launch.guard_lives or ended else [*parts, "no guard lives"]


def _promise(launch: LaunchSeen) -> str:
    promised, achieved = launch.promised_samples_per_s, launch.achieved_samples_per_s
    if achieved is None:
        return f"{rate(promised)} samples/s promised, not known yet what is achieved"
    share = f" ({achieved / promised:.0%})" if promised else ""
    return f"{rate(achieved)} of {rate(promised)} samples/s promised{share}"


def _done(launch: LaunchSeen) -> str:
    of = f" of {launch.steps_at_end}" if launch.steps_at_end is not None else ""
    text = f"step {launch.steps}{' since it was resumed' if launch.resumed else of}"
    return text + (f", about {seconds(launch.left_s)} left" if launch.left_s is not None else "")


def _progress(told: LogProgress, why_none: str | None) -> str:
    if why_none is not None:
        return f"unknown: {why_none}"
    if told.step is None and told.epoch is None:
        return "its log names none"
    parts = []
    if told.epoch is not None:
        parts.append(f"epoch {told.epoch}" + (f" of {told.epochs}" if told.epochs is not None else ""))
    if told.step is not None:
        parts.append(f"step {told.step}" + (f" of {told.steps}" if told.steps is not None else ""))
    if told.steps_per_s is not None:
        slow = told.steps_per_s < 1
        parts.append(f"{seconds(1 / told.steps_per_s)} a step" if slow else f"{rate(told.steps_per_s)} steps/s")
    if told.left_s is not None:
        parts.append(f"about {seconds(told.left_s)} left")
    return ", ".join(parts)


def _gpus(seen: Watched) -> Iterator[str]:
    if not seen.gpus:
        yield f"none is read: {seen.gpu_unread_because or 'the driver shows none'}"
    for gpu in seen.gpus:
        yield _gpu(gpu)


def _gpu(gpu: GpuRow) -> str:
    util = "utilization unknown" if gpu.util_percent is None else f"busy {gpu.util_percent:.0f} %"
    text = f"{gpu.name} {util}, VRAM {bytes_(gpu.used_bytes)} of {bytes_(gpu.limit_bytes)}"
    if gpu.others_bytes:
        text += f", {bytes_(gpu.others_bytes)} of it others'"
    return text + (f", clocks throttled: {', '.join(gpu.throttled_by)}" if gpu.throttled_by else "")


def _ram(seen: Watched) -> str:
    text = bytes_(seen.ram_bytes)
    if seen.ram_limit_bytes is not None:
        text += f" of {bytes_(seen.ram_limit_bytes)}"
    text += _growth(seen.ram_growth)
    if seen.ram_limit_in_s is not None:
        text += f", full in about {seconds(seen.ram_limit_in_s)}"
    return text


def _growth(growth: Growth | None) -> str:
    if growth is None:
        return ""
    by_minute = growth.bytes_per_s * 60 / 1e6
    if abs(by_minute) < 1 or abs(growth.bytes_per_s) <= growth.give_or_take:
        return ""
    return f", {by_minute:+.0f} MB/min"


def _shm(seen: Watched) -> str:
    if seen.shm_bytes is None:
        return "there is no /dev/shm"
    return f"{bytes_(seen.shm_used_bytes)} of {bytes_(seen.shm_bytes)} (by everybody)"


def _disk(seen: Watched) -> str:
    def each(value: float | None) -> str:
        return "unknown" if value is None else f"{bytes_(value)}/s"

    return f"reads {each(seen.read_bytes_per_s)}, writes {each(seen.written_bytes_per_s)}"


def _cores(seen: Watched) -> str:
    own = sum(row.cores or 0.0 for row in seen.processes)
    others = "" if seen.others_cores is None else f", others {seen.others_cores:.1f}"
    return f"{own:.1f} of {seen.cores:g} used by it{others}"


def _processes(seen: Watched) -> Iterator[str]:
    yield _TABLE
    workers = [row for row in seen.processes if row.role == "worker"]
    for row in seen.processes:
        if row.role != "other" and row not in workers[MOST_WORKERS:]:
            yield _process(row)
    if workers[MOST_WORKERS:]:
        rest = workers[MOST_WORKERS:]
        many = "worker" if len(rest) == 1 else "workers"
        yield f"{'':>8}  and {len(rest)} more {many}, RAM {bytes_(sum(row.ram_bytes or 0 for row in rest))}"
    others = [row for row in seen.processes if row.role == "other"]
    if others:
        many = "other" if len(others) == 1 else "others"
        yield f"{'':>8}  and {len(others)} {many}, RAM {bytes_(sum(row.ram_bytes or 0 for row in others))}"


def _process(row: ProcessRow) -> str:
    def share(value: float | None) -> str:
        return "?" if value is None else f"{value:.0%}"

    reads = "?" if row.read_bytes_per_s is None else bytes_(row.read_bytes_per_s)
    line = (
        f"{row.pid:>8}  {row.role:<9}{share(row.cores):>6}{share(row.queued_share):>8}{share(row.disk_share):>9}"
        f"{bytes_(row.ram_bytes):>10}{reads:>11}  {row.sleeps_in or ''}"
    )
    return (line + _growth(row.growth)).rstrip()
