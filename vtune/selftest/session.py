"""One self-test from the first run to the bundle."""

from __future__ import annotations

import datetime
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vtune.domain.machine import Machine
from vtune.domain.selftest import CellResult, Colour, colour_of, why_not_validated
from vtune.errors import MachineError
from vtune.journal import validated
from vtune.selftest.bench import STARTUP_S, Bench
from vtune.selftest.bundle import write_bundle
from vtune.selftest.cells import CPU_CELLS, Cell
from vtune.selftest.gpu_cells import ALL_RUNS, GPU_CELLS
from vtune.selftest.run import check_space, run_cells, work_folder
from vtune.selftest.sanitize import this_machines
from vtune.telemetry.host import HostSampler
from vtune.telemetry.survey import Survey
from vtune.version import VERSION

_COUNT = "import torch; print(torch.accelerator.device_count() if torch.accelerator.is_available() else 0)"
ALL_CELLS: tuple[Cell, ...] = (*CPU_CELLS, *GPU_CELLS)
Notify = Callable[[Cell | CellResult], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selftest:
    cells: tuple[CellResult, ...]
    colour: Colour
    bundle: Path
    survey: Survey
    # None: GPUs, driver and torch are now known to be measured rightly; without a GPU it is the CPU cells only.
    why_not_validated: str | None


def run_selftest(
    survey: Survey,
    machine: Machine,
    *,
    results: Path,
    inject: Path,
    notify: Notify = lambda event: None,
    # Tests ask for single cells, and put a sampler here that counts wrongly.
    only: Callable[[Cell], bool] = lambda cell: True,
    sampler: Callable[..., HostSampler] = HostSampler,
) -> Selftest:
    python = survey.python.executable
    check_space(results)
    devices, why_none = _devices(survey)
    asked = [cell for cell in ALL_CELLS if only(cell)]
    run = [cell for cell in asked if cell.gpus_needed <= devices]
    with work_folder(results, machine) as study:
        bench = Bench(
            python=python,
            inject=inject,
            machine=machine,
            study=study,
            records=study.paths.root.absolute() / "records",
            sampler=sampler,
        )
        bench.records.mkdir()
        done = {cell.cell: cell for cell in run_cells(bench, run, ALL_RUNS, notify)}
        cells = tuple(done.get(cell.name) or _not_run(cell, devices, why_none) for cell in asked)
        now = datetime.datetime.now()
        bundle = _free_name(results, now)
        write_bundle(bundle, bench.records, cells, survey, this_machines(results, python), made=now.date().isoformat())
    why_not = "not all cells were asked for" if len(asked) < len(ALL_CELLS) else _remember(survey, cells, devices, now)
    return Selftest(cells=cells, colour=colour_of(cells), bundle=bundle, survey=survey, why_not_validated=why_not)


def _devices(survey: Survey) -> tuple[int, str]:
    """How many the training's torch has: it alone knows. It is only asked when it could have one."""
    python = survey.python
    if python.accelerator is None:
        return 0, "no GPU: this torch is built for the CPU only"
    try:
        told = subprocess.run(
            [python.executable, "-c", _COUNT],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=STARTUP_S,
        )  # fmt: skip
        count = int(told.stdout.split()[-1])
    except subprocess.TimeoutExpired:
        raise MachineError(
            f"torch cannot be imported by {python.executable} within {STARTUP_S:g} s",
            hint="see how long `python -c 'import torch'` takes there, and start the self-test once more",
        ) from None
    except (ValueError, IndexError):
        raise MachineError(
            f"torch cannot be imported by {python.executable}: {(told.stderr.strip().splitlines() or ['no word'])[-1]}",
            hint="see whether the training itself starts there",
        ) from None
    return count, "no GPU: torch finds no device"


def _not_run(cell: Cell, devices: int, why_none: str) -> CellResult:
    why = why_none if devices == 0 else f"{cell.gpus_needed} GPUs are needed, here is {devices}"
    return CellResult(cell=cell.name, title=cell.title, gpu=cell.gpu, status="not_run", sentence=f"not run: {why}")


def _remember(survey: Survey, cells: tuple[CellResult, ...], devices: int, now: datetime.datetime) -> str | None:
    """Only a run in which everything that could be shown here was shown. A wrong value takes an earlier pass back; what
    could not be carried out or decided does not. Returns why it is not validated."""
    names = list(survey.gpus.names) if devices else []
    if devices and not names:
        names = [survey.python.accelerator or "unknown GPU"]
    driver, torch = (survey.gpus.driver if devices else None), survey.python.torch
    why_not = why_not_validated(cells)
    try:
        if colour_of(cells) == "red":
            validated.forget(names, driver, torch=torch)
        elif why_not is None:
            validated.remember(names, driver, torch=torch, vtune=VERSION, when=now.date().isoformat())
    except OSError as error:  # a home that cannot be written to: the table and the bundle tell it all the same
        return why_not or f"it cannot be noted: {validated.validated_file()}: {error.strerror}"
    return why_not


def _free_name(results: Path, now: datetime.datetime) -> Path:
    """Bundles are kept: two of one second get two names."""
    stem = f"selftest-{now:%Y%m%d-%H%M%S}"
    names = [stem, *(f"{stem}-{number}" for number in range(2, 100))]
    return next(path for name in names if not (path := results / f"{name}.zip").exists())
