"""The self-test: run what is known, judge it from its records, pack the records."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vtune.domain.machine import Machine
from vtune.domain.numbers import bytes_
from vtune.domain.selftest import CellResult, Verdict
from vtune.errors import MachineError, StorageError, UsageError, VtuneError
from vtune.execution.sweep import sweep_stale
from vtune.files import MAKE_ROOM
from vtune.journal.paths import StudyPaths
from vtune.journal.study import Study, open_study
from vtune.selftest.bench import Bench
from vtune.selftest.cells import Cell, Run
from vtune.selftest.readings import Records
from vtune.selftest.verdicts import DISTURBED_CORES, not_carried_out
from vtune.telemetry.scratch import nearest_existing

WORK_FOLDER = ".selftest"
# The mapped file of 192 MiB, 10 MiB of records and the bundle; the rest is the neighbours' in these minutes.
NEEDED_BYTES = 256 * 2**20
# Below this the hooks may have lost a record, which would look as if they could not count.
FULL_BYTES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    seconds: float = 0.0
    repeated: bool = False


def check_space(results: Path, needed_bytes: int = NEEDED_BYTES) -> None:
    free_bytes = _free_bytes(results)
    if free_bytes < needed_bytes:
        raise MachineError(
            f"the self-test needs {bytes_(needed_bytes)} free in {results}, there are {bytes_(free_bytes)}",
            hint=MAKE_ROOM,
        )


@contextlib.contextmanager
def work_folder(results: Path, machine: Machine) -> Iterator[Study]:
    """A study that nobody goes on with: gone at the end, on every path; a killed one is swept by the next self-test."""
    root, was_there = results / WORK_FOLDER, results.is_dir()
    _sweep(root)
    name = f"cells-{os.getpid()}"
    try:
        with open_study(root, name, machine) as study:
            yield study
    finally:
        shutil.rmtree(root, ignore_errors=True)
        if not was_there:
            with contextlib.suppress(OSError):  # not empty: the bundle is in it
                results.rmdir()


def run_cells(
    bench: Bench, cells: Sequence[Cell], runs: Mapping[str, Run], notify: Callable[[CellResult | Cell], None]
) -> tuple[CellResult, ...]:
    """Each run once, and those of a cell that did not pass and may have been disturbed once more; then all are judged
    again, so that the verdicts are those of the records that are kept."""
    records = Records(bench.records)
    timed: dict[str, Timed] = {}
    for cell in cells:
        notify(cell)
        begun = time.monotonic()
        _run(bench, records, [name for name in cell.runs if not records.has(name)], runs)
        _still_writable(bench)
        repeated = False
        if _worth_repeating(cell, records):
            repeated = True
            _run(bench, records, cell.runs, runs)
            _still_writable(bench)
        timed[cell.name] = Timed(seconds=time.monotonic() - begun, repeated=repeated)
        # Provisional: what it needs may fail yet.
        notify(_result(cell, _judge(cell, records), records, timed[cell.name]))
    return judge_cells(records, cells, timed)


def judge_cells(
    records: Records, cells: Sequence[Cell], timed: Mapping[str, Timed] | None = None
) -> tuple[CellResult, ...]:
    """From the records alone: what a bundle is replayed by."""
    verdicts = {cell.name: _judge(cell, records) for cell in cells}
    found = []
    for cell in cells:
        verdict = verdicts[cell.name]
        open_ = [name for name in cell.needs if name in verdicts and verdicts[name].status in ("failed", "not_judged")]
        if open_ and verdict.status not in ("not_run", "not_judged"):
            how = "failed" if verdicts[open_[0]].status == "failed" else "was not judged"
            verdict = Verdict(status="not_judged", sentence=f"not judged: {open_[0]} {how}, and this rests on it")
        found.append(_result(cell, verdict, records, (timed or {}).get(cell.name, Timed())))
    return tuple(found)


def _run(bench: Bench, records: Records, names: Sequence[str], runs: Mapping[str, Run]) -> None:
    for name in names:
        records.forget(name)
        try:
            runs[name](bench)
        except VtuneError as error:
            if not isinstance(error, MachineError):
                raise
            bench.note(bench.folder(name), problem=error.message)
        except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError) as error:
            # A cell fails alone, also by a defect of ours: the others and the bundle are what helps to find it.
            bench.note(bench.folder(name), problem=f"a defect of vtune: {type(error).__name__}: {error}")


def _still_writable(bench: Bench) -> None:
    """The disk filled up meanwhile: what was recorded may be torn, so nothing of it is judged."""
    free_bytes = _free_bytes(bench.records)
    if free_bytes < FULL_BYTES:
        raise StorageError(
            f"the disk of {bench.records} was filled while the self-test ran: {bytes_(free_bytes)} are left",
            hint=MAKE_ROOM,
        )


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(nearest_existing(folder)).free


def _judge(cell: Cell, records: Records) -> Verdict:
    for run in cell.runs:
        if not records.has(run):
            return Verdict(status="not_run", sentence=f"not run: no record of {run}")
        problem = records.note(run).get("problem")
        if problem is not None:
            return not_carried_out(str(problem))
    try:
        return cell.judge(records)
    except (OSError, KeyError, ValueError, TypeError, IndexError) as error:
        return not_carried_out(f"its records cannot be read: {type(error).__name__}: {error}")


def _result(cell: Cell, verdict: Verdict, records: Records, timed: Timed) -> CellResult:
    others = others_cores(cell, records)
    sentence = verdict.sentence
    if verdict.status in ("failed", "inconclusive") and others is not None and others >= DISTURBED_CORES:
        again = ", also when it was repeated" if timed.repeated else ""
        sentence += f" (disturbed by others: {others:.1f} cores{again})"
    return CellResult(
        cell=cell.name,
        title=cell.title,
        gpu=cell.gpu,
        status=verdict.status,
        sentence=sentence,
        seconds=timed.seconds or None,
        others_cores=others,
        repeated=timed.repeated,
    )


def others_cores(cell: Cell, records: Records) -> float | None:
    seen = [records.note(run).get("others_cores") for run in cell.runs if records.has(run)]
    return max((float(cores) for cores in seen if cores is not None), default=None)


def _worth_repeating(cell: Cell, records: Records) -> bool:
    status, others = _judge(cell, records).status, others_cores(cell, records)
    disturbed = others is not None and others >= DISTURBED_CORES
    return (status == "failed" and (disturbed or cell.compares_times)) or (status == "inconclusive" and disturbed)


def _sweep(root: Path) -> None:
    """What a self-test left that was killed. One that runs now refuses: two would disturb each other."""
    import fcntl  # there is none on Windows, where reports can be read all the same

    for folder in sorted(root.glob("cells-*")) if root.is_dir() and not root.is_symlink() else ():
        try:
            lock = os.open(folder / ".lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                f"another self-test runs in {root.parent}", hint="wait for it: two would disturb each other"
            ) from None
        finally:
            os.close(lock)
        sweep_stale(StudyPaths(folder).trials)
        shutil.rmtree(folder, ignore_errors=True)
