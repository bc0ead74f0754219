"""What to do after a trial that gave no answer: the nearest thing that may let it through, where one is known."""

from __future__ import annotations

from collections.abc import Mapping

from vtune.domain.effects import Scalar
from vtune.domain.record import Measurement
from vtune.domain.trial import TrialStatus

# A limit that the peak would just fit under is passed again by the next trial.
HEADROOM = 1.25


def what_to_do(
    status: TrialStatus, settings: Mapping[str, Scalar], measured: Measurement, detail: str | None = None
) -> tuple[str, ...]:
    asked = " ".join(f"--set {name}={str(value).lower()}" for name, value in settings.items())
    match status:
        case TrialStatus.NOT_OBSERVED:
            return (
                "if it only starts slowly, give it time: --startup-time 30m, --trial-time 10m",
                "vtune counts calls of a torch optimizer's step(): a training without one cannot be measured",
            )
        case TrialStatus.TIMED_OUT:
            return ("give its steps more time: --trial-time 10m",)
        case TrialStatus.TOO_SHORT:
            epoch = measured.effective_settings.get("batch_size")
            batch = f", or a smaller batch than {epoch}" if epoch is not None else ""
            return (f"let the training run longer (more epochs{batch}), or ask for fewer steps: --steps 5",)
        case TrialStatus.INVALID:
            return (f"{asked} has no effect here: set it in the training itself",)
        case TrialStatus.HUNG:
            return _after_a_hang(asked, measured)
        case TrialStatus.DIVERGED:
            return _after_divergence(asked)
        case TrialStatus.CRASHED:
            return _after_a_crash(asked, detail or "")
        case TrialStatus.OUT_OF_RAM:
            peak = measured.ram_peak_bytes
            more = f"--ram-limit {-(-int(peak * HEADROOM) // 2**20)}MiB or more, " if peak else ""
            return (f"{more}fewer workers, a smaller prefetch_factor or a smaller batch",)
        case TrialStatus.OUT_OF_VRAM:
            return ("a smaller batch, with accumulation where the effective batch has to stay",)
        case TrialStatus.OUT_OF_SHM:
            return ("a larger /dev/shm (docker run --shm-size=8g), fewer workers, or a smaller prefetch_factor",)
        case _:
            return ()


def _after_a_hang(asked: str, measured: Measurement) -> tuple[str, ...]:
    lines = ["stacks.txt in the trial's folder has the stack of each of its processes"]
    if measured.effective_settings.get("workers"):
        lines.append("see whether it runs without workers: vtune probe --set workers=0")
    lines.append(
        "if it only works for long without a step, give it time: vtune.window.hang_time in the experiment file"
    )
    return tuple(lines)


def _after_divergence(asked: str) -> tuple[str, ...]:
    if asked:
        return (f"see whether it stays finite without {asked}: vtune probe",)
    return ("a smaller learning rate, gradient clipping, or another precision: the rate that was measured still holds",)


def _after_a_crash(asked: str, detail: str) -> tuple[str, ...]:
    if "Too many open files" in detail:
        return ("ulimit -n 65536, fewer workers, or torch.multiprocessing.set_sharing_strategy('file_system')",)
    if "Resource temporarily unavailable" in detail or "can't start new thread" in detail:
        return ("fewer workers, or a higher limit of processes (ulimit -u, pids.max of the container)",)
    if "no sign of memory" in detail:
        return ("whoever ended it may do so again: ask the job scheduler's log, or watch memory with --ram-limit",)
    if asked:
        return (f"see whether it runs without {asked}: vtune probe",)
    return ("see whether the command runs by itself; stderr.log in the trial's folder has all of its words",)
