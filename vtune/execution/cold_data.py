"""Data that a study's first trial read from their disk are read from there by its later ones, too, where that is how a
long run reads them: else each trial finds warm what the ones before it have read, and the later one always wins."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from vtune.domain.experiment import Experiment
from vtune.domain.machine import Machine
from vtune.domain.record import TrialRecord
from vtune.execution.named_data import named_data
from vtune.execution.written import files_below

# Of the machine's memory: a run and its workers leave no more of it to the files.
CACHE_SHARE = 0.8
# Of the bytes read: with more of them from the disk, a warm trial beside it is another training.
MOSTLY = 0.5
# Between two trials; whoever has more files than that keeps them as they are.
LONGEST_S = 5.0


def keep_cold(
    experiment: Experiment, machine: Machine, history: Sequence[TrialRecord], results: Path
) -> tuple[str, ...]:
    """Before a trial: gives the pages of the named data back to the kernel, which loses nothing by it. Returns what a
    reader of the trial must know of it."""
    first = next((one for one in history if one.measurement.cache != "unknown"), None)
    if not experiment.window.keep_cold or first is None or not _read_mostly_cold(first):
        return ()
    until = time.monotonic() + LONGEST_S
    files = list(_files(experiment, results))
    if experiment.planned_run.epochs == 1:
        because = "a run of one epoch"
    elif machine.ram_bytes is not None and sum(size for _, size in files) > CACHE_SHARE * machine.ram_bytes:
        because = "a run over more data than memory holds"
    else:
        return ()
    for number, (path, _) in enumerate(files):
        if time.monotonic() > until:
            return (f"only {number} of {len(files)} files of its data could be taken out of the page cache in time",)
        _forget(path)
    read = f"trial {first.trial} read them from their disk, as {because} does"
    return (f"its data were taken out of the page cache first: {read}",)


def _read_mostly_cold(record: TrialRecord) -> bool:
    """What is counted of a cold read is a share of it, now and then less than what is called cold."""
    cold = record.measurement.cold_fraction
    return record.measurement.cache == "cold" or (cold is not None and cold > MOSTLY)


def _files(experiment: Experiment, results: Path) -> Iterator[tuple[Path, int]]:
    for _, path in named_data(experiment.workload):
        try:
            if os.path.isfile(path):
                yield path, path.stat().st_size
        except OSError:
            continue
        for name, (_, size) in files_below(path, results).items():
            yield path / name, size


def _forget(path: Path) -> None:
    """Dirty pages stay, and those that somebody has mapped."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError:
        pass
    finally:
        os.close(descriptor)
