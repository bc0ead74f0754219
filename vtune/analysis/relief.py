"""What to do after a trial that gave no answer: the nearest thing that may let it through, where one is known."""

from __future__ import annotations

import math
import re

from vtune.analysis.advice import Again
from vtune.analysis.memory_ended import NO_SIGN_OF_MEMORY
from vtune.analysis.repeated_words import how_to_mend
from vtune.analysis.vram_held import ITSELF_FULL
from vtune.domain.advice import Advice
from vtune.domain.experiment import Limit, Window
from vtune.domain.machine import Machine
from vtune.domain.record import Measurement
from vtune.domain.trial import ENDS_BY_DISK, Passed, TrialOutcome, TrialStatus

# A limit that the peak would just fit under is passed again by the next trial.
HEADROOM = 1.25
# What is offered at least, and twice what was asked: the same again would end the same.
STARTUP_TIME_S, TRIAL_TIME_S, SHM_BYTES = 1800.0, 600.0, 8 * 2**30
FEW_STEPS = 5
# argparse's own words.
UNKNOWN_ARGUMENTS = re.compile(r"unrecognized arguments: (?P<words>[^\n]+)")


def what_to_do(
    status: TrialStatus,
    again: Again,
    measured: Measurement,
    outcome: TrialOutcome,
    window: Window,
    *,
    machine: Machine,
    vram_limit: Limit | None = None,
    detail: str | None = None,
    said: bool = True,
) -> tuple[Advice, ...]:
    if outcome.ended_by == "disk" and status in ENDS_BY_DISK:
        return (Advice(_more_disk(outcome.over)),)
    asked = " ".join(f"{name}={str(value).lower()}" for name, value in again.settings.items())
    match status:
        case TrialStatus.NOT_OBSERVED:
            counts = "vtune counts calls of a torch optimizer's step(): a training without one cannot be measured"
            slowly = f"if it only starts slowly, give it time: {_startup_time(window)}, {_trial_time(window)}"
            lines = (counts,) if outcome.ended_by == "itself" else (slowly, counts)
            return tuple(map(Advice, lines))
        case TrialStatus.TIMED_OUT:
            return (Advice(f"give its steps more time: {_trial_time(window)}"),)
        case TrialStatus.TOO_SHORT:
            size = measured.effective_settings.get("batch_size")
            batch = f", or a smaller batch than {size}" if size is not None else ""
            fewer = f", or ask for fewer steps: --steps {FEW_STEPS}" if window.steps > FEW_STEPS else ""
            return (Advice(f"let the training run longer (more epochs{batch}){fewer}"),)
        case TrialStatus.INVALID if measured.repeated is not None:
            return (Advice(how_to_mend(measured.repeated)),)
        case TrialStatus.INVALID:
            return (Advice(f"{asked} has no effect here: set it in the training itself"),)
        case TrialStatus.HUNG:
            return _after_a_hang(again, measured)
        case TrialStatus.DIVERGED:
            return _after_divergence(asked, again)
        case TrialStatus.CRASHED:
            return _after_a_crash(asked, again, detail or "", measured, said=said)
        case TrialStatus.OUT_OF_RAM:
            if measured.ram_growth:
                # Named beside this, with its remedy: what is offered here would only put off the same end.
                return ()
            higher = _higher_ram_limit(measured, outcome, machine)
            if _without_workers(measured):
                return (Advice(f"{higher} or a smaller batch" if higher else "a smaller batch"),)
            return (Advice(f"{higher} fewer workers, a smaller prefetch_factor or a smaller batch".strip()),)
        case TrialStatus.OUT_OF_VRAM:
            by_limit = vram_limit is not None and ITSELF_FULL not in (detail or "")
            higher = f"a higher --vram-limit than {vram_limit.text}, or " if vram_limit and by_limit else ""
            return (Advice(f"{higher}a smaller batch, with accumulation where the effective batch has to stay"),)
        case TrialStatus.OUT_OF_SHM:
            size_gib = -(-max(SHM_BYTES, 2 * (machine.shm_bytes or 0)) // 2**30)
            less = "" if _without_workers(measured) else ", fewer workers, or a smaller prefetch_factor"
            return (Advice(f"a larger /dev/shm (docker run --shm-size={size_gib}g){less}"),)
        case _:
            return ()


def _more_disk(over: Passed | None) -> str:
    if over is None or over.used_bytes is None or over.limit_bytes is None:
        return "a higher --trial-disk, or vtune.limits.disk in the experiment file"
    # It was ended while it wrote: how much it would have come to, nobody has seen.
    needed_mib = math.ceil(max(HEADROOM * over.used_bytes, 2 * over.limit_bytes) / 2**20)
    needed = f"{needed_mib}MiB" if needed_mib < 2**10 else f"{math.ceil(needed_mib / 2**10)}GiB"
    return f"--trial-disk {needed}, or vtune.limits.disk in the experiment file"


def _startup_time(window: Window) -> str:
    return f"--startup-time {_minutes(max(STARTUP_TIME_S, 2 * window.startup_time_s))}"


def _trial_time(window: Window) -> str:
    return f"--trial-time {_minutes(max(TRIAL_TIME_S, 2 * window.trial_time_s))}"


def _minutes(seconds: float) -> str:
    return f"{math.ceil(seconds / 60)}m"


def _without_workers(measured: Measurement) -> bool:
    return measured.effective_settings.get("workers") == 0


def _higher_ram_limit(measured: Measurement, outcome: TrialOutcome, machine: Machine) -> str:
    """Where the limit was what ended it, and not the machine, whose RAM no limit makes more of."""
    by_limit = outcome.ended_by == "limit" and (outcome.over is None or outcome.over.what != "machine")
    group = outcome.group
    by_group = group is not None and bool(group.oom_kills) and group.at_limit is not False
    if not (by_limit or by_group) or measured.ram_peak_bytes is None:
        return ""
    needed_mib = math.ceil(measured.ram_peak_bytes * HEADROOM / 2**20)
    if machine.ram_bytes is not None and needed_mib * 2**20 > machine.ram_bytes:
        return ""
    if not measured.steps_measured:
        # It was still starting: how much it would have taken, nobody has seen.
        return "a higher --ram-limit,"
    return f"--ram-limit {needed_mib}MiB or more,"


def _after_a_hang(again: Again, measured: Measurement) -> tuple[Advice, ...]:
    lines = [Advice("stacks.txt in the trial's folder has the stack of each of its processes")]
    if measured.effective_settings.get("workers"):
        lines.append(again.with_only({"workers": 0}, before="see whether it runs without workers: "))
    longer = "if it only works for long without a step, give it time: vtune.window.hang_time in the experiment file"
    return (*lines, Advice(longer))


def _after_divergence(asked: str, again: Again) -> tuple[Advice, ...]:
    if asked:
        return (again.with_only({}, before=f"see whether it stays finite without {asked}: "),)
    smaller = "a smaller learning rate, gradient clipping, or another precision"
    return (Advice(f"{smaller}: the rate that was measured still holds"),)


def _after_a_crash(asked: str, again: Again, detail: str, measured: Measurement, *, said: bool) -> tuple[Advice, ...]:
    if "Too many open files" in detail:
        return (Advice("ulimit -n 65536, fewer workers, or torch.multiprocessing.set_sharing_strategy('file_system')"),)
    if "Resource temporarily unavailable" in detail or "can't start new thread" in detail:
        return (Advice("fewer workers, or a higher limit of processes (ulimit -u, pids.max of the container)"),)
    if "EOFError: EOF when reading a line" in detail:
        return (
            Advice("it asks for an answer, and a trial has nobody to give one: name it by a flag or in its config"),
        )
    if NO_SIGN_OF_MEMORY in detail:
        return (
            Advice("whoever ended it may do so again: ask the job scheduler's log, or watch memory with --ram-limit"),
        )
    if (own := _own_arguments(detail, again)) is not None:
        return (Advice(f"the training's own command is wrong: its script knows no {own}"),)
    if asked:
        return (again.with_only({}, before=f"see whether it runs without {asked}: "),)
    if "loader worker" in detail and not _without_workers(measured):
        without = "see whether it runs without workers, and where it fails then: "
        return (again.with_only({"workers": 0}, before=without),)
    words = "; stderr.log in the trial's folder has all of its words" if said else ""
    return (Advice(f"see whether the command runs by itself{words}"),)


def _own_arguments(detail: str, again: Again) -> str | None:
    """What the script refused, where none of it can be what vtune turned."""
    found = UNKNOWN_ARGUMENTS.search(detail)
    if found is None:
        return None
    words = found["words"].strip()
    plain = words.replace("-", "_")
    return None if any(name.rpartition("_")[2] in plain for name in again.settings) else words
