"""No trial begins while others hold the cores that it would use: a bounded wait, then an error that names them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vtune.analysis.others_words import STOP_THEM, use_text
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment
from vtune.domain.machine import Machine
from vtune.domain.others import OthersOnCores, others_on_cores
from vtune.domain.progress import WaitingForQuiet
from vtune.domain.record import TrialRecord
from vtune.errors import MachineError
from vtune.knobs.values import ranks_of
from vtune.knobs.ways import current_settings
from vtune.telemetry.other_programs import IGNORE, VARIABLE, Load, are_ignored, load_now

# A build or a download is over in a minute; who stays longer stays.
BUSY_WAIT_S = 60.0
# The kernel counts in 10 ms: over a second others are known to a hundredth of a core. A shorter burst is over by the
# second look.
LOOK_S = 1.0
# Behind the hint, for a study that is stopped between two trials.
GO_ON = "; all that was measured is saved, and the same command goes on"
# Who others are changes from second to second while something is built.
TOLD_EVERY_S = 15.0
# A trial that others disturb is launched again, this often in all: who comes back a third time will come again.
LAUNCHES = 3
# Beside its workers, a training on a GPU has its main process and a thread that pins its batches or runs backward.
OF_ITS_OWN = 2
# A training on the CPU computes on every core, and one whose workers are not known may have many. Its own window tells
# later how many it uses: on a large machine these are asked for before.
USUAL_CORES = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    wait_s: float = BUSY_WAIT_S
    # Measure all the same: every figure is marked, and decides nothing.
    anyway: bool = False
    # How often a trial is launched at most while others disturb it.
    launches: int = LAUNCHES
    # Of the error that ends it.
    hint: str = f"{STOP_THEM}{GO_ON}"
    look: Callable[[float], Load] = load_now
    clock: Callable[[], float] = time.monotonic


def wait_for_quiet(quiet: Quiet, cores: float, wanted: float, notify: Callable[[WaitingForQuiet], None]) -> None:
    if quiet.anyway or are_ignored():
        return
    begun_s = told_s = quiet.clock()
    while (others := others_now(quiet, cores, wanted)) is not None and others.busy:
        now_s = quiet.clock()
        if now_s >= begun_s + quiet.wait_s:
            raise MachineError(f"Cannot measure: {use_text(others)}", hint=quiet.hint)
        if told_s == begun_s or now_s >= told_s + TOLD_EVERY_S:
            notify(WaitingForQuiet(others=others, left_s=begun_s + quiet.wait_s - now_s))
            told_s = now_s


def others_now(quiet: Quiet, cores: float, wanted: float) -> OthersOnCores | None:
    load = quiet.look(LOOK_S)
    if load.others_cores is None:
        return None
    used = min(cores, load.others_cores)
    return others_on_cores(
        cores=cores, wanted=wanted, used=used, taken=max(0.0, used - (cores - wanted)), programs=load.programs
    )


def cores_wanted(experiment: Experiment, settings: Mapping[str, Scalar], machine: Machine) -> float:
    """Those that a training with these settings would use, before anything is known of it."""
    workers = settings.get("workers", current_settings(experiment).get("workers"))
    known = isinstance(workers, int) and not isinstance(workers, bool)
    wanted = float(ranks_of(experiment.workload.command) * (OF_ITS_OWN + (workers if isinstance(workers, int) else 0)))
    if not (known and machine.gpus):
        wanted = max(wanted, USUAL_CORES)
    return min(machine.cores, wanted)


def disturbed(record: TrialRecord, *, hint: str) -> MachineError:
    others = record.measurement.others
    assert others is not None
    return MachineError(f"Cannot measure: {use_text(others, 'used')} while trial {record.trial} ran", hint=hint)


def ignored_note() -> tuple[str, ...]:
    """A switch that nobody sees would be forgotten, and its numbers believed."""
    if not are_ignored():
        return ()
    return (f"other programs on the cores were not looked for: {VARIABLE}={IGNORE}",)
