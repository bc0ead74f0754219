"""Before a launch: is this still what was tuned, and is there room for it now?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from vtune.analysis.guard.room import Free, lacking
from vtune.config.output import resumes_by
from vtune.config.planned_run import says_only_how_long
from vtune.config.program import resolve_program, torch_of
from vtune.domain.machine import Machine
from vtune.domain.trial import TrialStatus
from vtune.errors import MachineError, UsageError
from vtune.execution.launch_running import left_unguarded, running_launch
from vtune.execution.named_data import changed_data, data_prints
from vtune.execution.ram_limits import ram_limits
from vtune.journal.code import changed_code
from vtune.journal.journal import Journal
from vtune.journal.links import refuse_links
from vtune.journal.machine import differences, read_machine
from vtune.journal.step_log import StepLog
from vtune.journal.study import used_by
from vtune.launcher.left_behind import Left, left_behind
from vtune.launcher.plan import PlannedLaunch, say_how_it_resumes
from vtune.strategies.left_out import changed_values
from vtune.strategies.relaunch import changed_since
from vtune.strategies.turned import turned
from vtune.telemetry.disk import free_bytes
from vtune.telemetry.free_gpus import free_gpus
from vtune.telemetry.host import available_ram_bytes
from vtune.telemetry.memory import shared_memory

MOST_NAMED = 6
OUT_OF_MEMORY = (TrialStatus.OUT_OF_RAM, TrialStatus.OUT_OF_SHM, TrialStatus.OUT_OF_VRAM)


class Stale(UsageError):
    """What was measured is not what would run."""


class NoRoom(MachineError):
    """The machine cannot carry it now."""


class Overwrites(UsageError):
    """It would begin again where there is something to go on from."""


def check_nothing_runs(planned: PlannedLaunch) -> list[str]:
    """Never two trainings of one study; how a launch ended whose guard was killed is told."""
    refuse_links(planned.study)
    running = running_launch(planned.study)
    if running is not None:
        guard = f"guarded by vtune with pid {running.guard_pid}" if running.guard_pid else "unguarded"
        raise UsageError(
            f"launch {running.number} of study {planned.spec.study} still runs as process {running.pid}, {guard}",
            hint=f"wait for its end, or end it: kill {running.guard_pid or running.pid} lets it save",
        )
    return [f"launch {left.number} {left.how}" for left in left_unguarded(planned.study)]


def check_stale(planned: PlannedLaunch, machine: Machine) -> list[str]:
    found = list(_changed(planned, machine))
    if found:
        raise Stale(
            f"trial {planned.record.trial} no longer stands for this run: {'; '.join(found)}",
            hint=f"measure it again: vtune probe --study {planned.spec.study}; or launch it all the same with --force",
        )
    longer = [
        one for one in changed_values(planned.record, planned.experiment, planned.study) if says_only_how_long(one)
    ]
    if longer:
        return [f"the length of the run was changed since trial {planned.record.trial}, by {_named(longer)}: it stands"]
    return []


def check_nobody_measures(planned: PlannedLaunch, machine: Machine) -> list[str]:
    """Beside trials of the same training neither would run as it does alone, and both may write to one folder."""
    owner = used_by(planned.study)
    if owner is not None:
        raise UsageError(
            f"trials of study {planned.spec.study} are measured at this moment, by vtune with pid {owner}",
            hint="wait for their end; --force launches all the same",
        )
    return []


def check_room(planned: PlannedLaunch, machine: Machine) -> list[str]:
    measured, planned_run = planned.record.measurement, planned.experiment.planned_run
    shm = shared_memory()
    asked = planned.experiment.limits.ram
    limits = ram_limits(asked.resolve(machine.ram_bytes) if asked is not None else None)
    places = tuple(Path(one) for one in planned.spec.output) or (Path(planned.spec.cwd),)
    disk = [(str(place), free) for place in places if (free := free_bytes(place)) is not None]
    found = lacking(
        measured,
        Free(
            ram_bytes=available_ram_bytes(),
            ram_limit_bytes=limits.ram_bytes,
            shm_bytes=shm.free_bytes if shm is not None else None,
            disk=min(disk, key=lambda one: one[1], default=None),
            gpus=free_gpus() if machine.gpus else (),
        ),
        epochs=planned_run.epochs,
    )
    if found:
        raise NoRoom(
            f"there is no room for it now: {'; '.join(found)}", hint="make room, or launch it all the same with --force"
        )
    return []


def check_overwrites(planned: PlannedLaunch, machine: Machine) -> list[str]:
    """Refused where days may be lost; what has completed is run again on purpose, and told."""
    if planned.resume:
        return []
    experiment = planned.experiment
    left = left_behind(planned.study, planned.spec.output, experiment.workload)
    if left is None:
        return []
    by = resumes_by(experiment.workload)
    if by is not None and _finds_it(by[1], left, Path(planned.spec.cwd)):
        return [f"{left.name} {left.status} and left {left.words}: {by[0]} of the training's own goes on from there"]
    if left.status == "completed":
        return [f"{left.name} completed and left {left.words}: this one begins again over it"]
    known = bool(experiment.resume)
    go_on = "--resume goes on from it" if known else f"to go on from it, {say_how_it_resumes(experiment)}"
    raise Overwrites(
        f"{left.name} {left.status} after {left.steps} steps and left {left.words}",
        hint=f"{go_on}; --force begins again and overwrites it",
    )


def _finds_it(said: object, left: Left, cwd: Path) -> bool:
    """A file or a folder that it resumes from may be one that others wrote."""
    if not isinstance(said, str) or not left.places or not (os.sep in said or Path(said).suffix):
        return True
    named = (cwd / said).resolve()
    return any(named.is_relative_to(place.resolve()) for place in left.places)


def _changed(planned: PlannedLaunch, machine: Machine) -> Iterator[str]:
    record, study, experiment = planned.record, planned.study, planned.experiment
    known = read_machine(study.machine)
    if known is not None:
        yield from (f"the machine: {one}" for one in differences(known, machine))
    yield from _another_torch(planned)
    code = changed_code(record, {})
    if code:
        yield f"the script: {_named(code)} changed since"
    command = changed_since(record.trial, turned(record), experiment, study)
    if command is not None:
        yield f"the command: {(command.hint or command.message).partition('. Probe ')[0]}"
    values = [one for one in changed_values(record, experiment, study) if not says_only_how_long(one)]
    if values:
        yield f"the config: {_named(values)} changed since"
    later = [one for one in Journal(study.journal).read() if one.trial > record.trial]
    data = changed_data(record, later, data_prints(experiment.workload, study.root.parent))
    if data:
        yield f"the data: {_named(data)} changed since"
    failed = [one for one in later if one.asked == record.asked and one.status in OUT_OF_MEMORY]
    if failed:
        yield f"the same settings failed since, in trial {failed[-1].trial}: {failed[-1].detail}"


def _another_torch(planned: PlannedLaunch) -> Iterator[str]:
    log = StepLog(planned.study.trial(planned.record.trial))
    log.refresh()
    hello = next((fact.data for fact in log.facts if fact.name == "hello"), None)
    if hello is None or not isinstance(then := hello.get("torch"), str) or not isinstance(hello.get("executable"), str):
        return
    cwd, env = Path(planned.spec.cwd), planned.spec.env
    command, _ = resolve_program(planned.spec.command, cwd, env, ask=False)
    program = command[0] if "python" in os.path.basename(command[0]) else str(hello["executable"])
    # By its files: a study of somebody else names a program, and nothing has been launched yet.
    now = torch_of(str(cwd / program), cwd, env)
    if now is not None and now != then:
        yield f"torch: was {then}, is {now}"
    elif not (cwd / program).exists():
        yield f"torch: there is no {program} any more"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
