"""What `vtune doctor` shows: the machine in a dozen lines, what cannot be known here, the table of the self-test."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vtune.domain.numbers import bytes_
from vtune.domain.selftest import CellResult, CellStatus, Colour, colour_of, why_not_validated
from vtune.reporting.inert import harmless
from vtune.telemetry.cannot import Cannot
from vtune.telemetry.nvml import DeviceNow
from vtune.telemetry.scratch import Scratch
from vtune.telemetry.survey import Survey

# From here on a neighbour makes every rate a lower bound.
OTHERS_CORES = 0.3
WORDS: dict[CellStatus, str] = {
    "passed": "pass", "failed": "FAIL", "inconclusive": "unclear", "not_judged": "not judged", "not_run": "not run",
}  # fmt: skip
COLOURS: dict[Colour, str] = {"green": "bold green", "red": "bold red", "incomplete": "bold yellow"}
STYLES: dict[CellStatus, str] = {"passed": "green", "failed": "bold red", "inconclusive": "yellow"}


def doctor_panel(survey: Survey, *, validated: bool) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, text in _lines(survey, validated=validated):
        table.add_row(name, Text(harmless(text)))
    parts: list[RenderableType] = [table]
    if survey.cannot:
        parts += [Text(), Text("what cannot be enforced or measured here", style="dim")]
        lacking = Table.grid(padding=(0, 1))
        for one in survey.cannot:
            lacking.add_row("·", _cannot(one))
        parts.append(Padding(lacking, (0, 0, 0, 1)))
    return Group(*parts)


def selftest_table(cells: Sequence[CellResult], bundle: str | None) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column()
    shown = [cell for cell in cells if cell.status != "not_run"]
    for cell in shown:
        table.add_row(*_row(cell))
    parts: list[RenderableType] = [table]
    # Twenty equal lines would hide the others.
    for why in dict.fromkeys(cell.sentence for cell in cells if cell.status == "not_run"):
        names = [cell.cell for cell in cells if cell.status == "not_run" and cell.sentence == why]
        parts.append(Text(harmless(f"{why} ({len(names)} cells: {', '.join(names)})", 1000), style="dim"))
    parts += [Text(), Text(summary(cells), style=COLOURS[colour_of(cells)])]
    if bundle is not None:
        parts.append(Text(harmless(f"bundle to attach to an issue: {bundle}")))
    return Group(*parts)


def summary(cells: Sequence[CellResult]) -> str:
    counts = {status: sum(cell.status == status for cell in cells) for status in WORDS}
    told = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in counts.items() if count)
    colour, why_not = colour_of(cells), why_not_validated(cells)
    told = told or "nothing was run"
    if colour == "red" or why_not is None:
        return f"self-test {colour}: {told}"
    return harmless(f"self-test {colour}, {'but ' if colour == 'green' else ''}not validated: {why_not} · {told}", 1000)


def cell_line(cell: CellResult) -> str:
    seconds = f", {cell.seconds:.0f} s" if cell.seconds is not None and cell.seconds >= 1 else ""
    return harmless(f"{WORDS[cell.status]}: {cell.title}{seconds}")


def _row(cell: CellResult) -> tuple[Text, Text]:
    again = " (repeated: others disturbed the first)" if cell.repeated and cell.status == "passed" else ""
    told = Text(cell.title)
    told.append("\n" + harmless(cell.sentence + again, 1000), style="dim" if cell.status == "passed" else "")
    return Text(WORDS[cell.status], style=STYLES.get(cell.status, "")), told


def _lines(survey: Survey, *, validated: bool) -> list[tuple[str, str]]:
    return [
        ("cores", _cores(survey)),
        ("RAM", _memory(survey)),
        ("/dev/shm", _shm(survey)),
        *_gpus(survey),
        ("neighbours", _neighbours(survey)),
        ("scratch", _scratch(survey.scratch)),
        ("kernel", _kernel(survey)),
        ("torch", _torch(survey)),
        ("self-test", _validated(survey, validated=validated)),
    ]


def _cores(survey: Survey) -> str:
    cores = survey.cores
    of = f" of {cores.logical} in the machine" if cores.logical is not None and cores.logical != cores.allowed else ""
    shared = ""
    if cores.physical is not None:
        shared = f", {cores.physical} physical" + (", two threads each" if cores.physical < cores.allowed else "")
    by = f"quota {cores.quota:g}" if cores.quota is not None else "no quota"
    model = f" · {survey.cpu_model}" if survey.cpu_model else ""
    return f"{cores.usable:g} usable: {by}, affinity {cores.allowed}{of}{shared}{model}"


def _memory(survey: Survey) -> str:
    memory = survey.memory
    group = memory.group_limit_bytes
    limit = f", the control group's limit; the machine has {bytes_(memory.machine_bytes)}" if group is not None else ""
    by = f" and a {survey.kernel.memory_group} of the trial's own" if survey.kernel.memory_group_writable else ""
    enforced = f"a limit is enforced by watching{by}"
    return f"{bytes_(memory.usable_bytes)}{limit} · {bytes_(memory.available_bytes)} available now · {enforced}"


def _shm(survey: Survey) -> str:
    if survey.shm is None:
        return "none"
    return f"{bytes_(survey.shm.size_bytes)} · {bytes_(survey.shm.free_bytes)} free"


def _gpus(survey: Survey) -> list[tuple[str, str]]:
    gpus = survey.gpus
    if not gpus.devices:
        return [("GPU", f"none: {gpus.why_none or 'the driver names no device'}")]
    driver = f"{gpus.driver or 'unknown'}, runs CUDA up to {gpus.cuda or 'unknown'}"
    return [*((f"GPU {one.gpu.index}", _gpu(one)) for one in gpus.devices), ("driver", driver)]


def _gpu(one: DeviceNow) -> str:
    mig = ", a MIG slice" if one.gpu.mig else ""
    used = f"{bytes_(one.used_bytes)} of {bytes_(one.gpu.memory_bytes)} in use"
    if one.processes is None:
        users = "by whom is not told"
    elif not one.processes:
        users = "by no process that the driver names"
    else:
        each = ", ".join(f"{process.pid} ({bytes_(process.used_bytes)})" for process in one.processes[:4])
        users = f"by {len(one.processes)} processes: {each}{' …' if len(one.processes) > 4 else ''}"
    busy = f" · busy for {one.util_percent:.0f} % of the time" if one.util_percent is not None else ""
    return f"{one.gpu.name or 'unnamed'}{mig} · {used} {users}{busy}"


def _neighbours(survey: Survey) -> str:
    seen = survey.neighbours
    cores = "unknown" if seen.others_cores is None else f"{seen.others_cores:.1f} cores kept busy by others"
    if seen.others_cores is not None and seen.others_cores >= OTHERS_CORES:
        cores += ": every rate measured now is a lower bound"
    load = f" · load average {seen.load_average:.1f}" if seen.load_average is not None else ""
    gpu = f" · {seen.gpu_processes} processes on the GPUs" if seen.gpu_processes else ""
    return f"{cores}{load}{gpu}"


def _scratch(speed: Scratch) -> str:
    where = f"results folder on {speed.filesystem or 'an unknown file system'}, {bytes_(speed.free_bytes)} free"
    if speed.why_unknown is not None:
        return f"{where} · speed unknown: {speed.why_unknown}"
    ways = {"direct": "past the page cache", "evicted": "evicted from the page cache first", "cached": "in memory"}
    read, write = f"{bytes_(speed.read_bytes_per_s)}/s read", f"{bytes_(speed.write_bytes_per_s)}/s written"
    return f"{where} · {write}, {read} ({bytes_(speed.tried_bytes)}, {ways.get(speed.way or '', 'unknown')})"


def _kernel(survey: Survey) -> str:
    facts = survey.kernel
    named = {
        "schedstat": facts.schedstat, "Pss_Anon": facts.pss_anon, "io by process": facts.process_io,
        "pidfd": facts.pidfd,
    }  # fmt: skip
    return f"{facts.release} · " + ", ".join(f"{name} {'yes' if has else 'no'}" for name, has in named.items())


def _torch(survey: Survey) -> str:
    python = survey.python
    if python.torch is None:
        return python.problem or f"none in {python.executable}"
    return f"{python.torch}, {python.accelerator or 'for the CPU only'} · Python {python.python} · {python.executable}"


def _validated(survey: Survey, *, validated: bool) -> str:
    what = "these GPUs, this driver and this torch" if survey.gpus.devices else "this torch, on the CPU"
    if validated:
        return f"passed with {what}"
    return f"not validated here: nobody has run vtune doctor --selftest with {what}"


def _cannot(one: Cannot) -> Text:
    instead = f"; instead: {one.instead}" if one.instead else ""
    return Text(harmless(f"{one.what}: {one.because}{instead}", 1000), style="bold red" if one.blocks else "")
