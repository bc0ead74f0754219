"""How a trial ended, as a status with its evidence: one sentence that a user can act on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from vtune.domain.effects import Scalar
from vtune.domain.experiment import Window
from vtune.domain.numbers import bytes_
from vtune.domain.record import Measurement
from vtune.domain.trial import TrialOutcome, TrialStatus

# A training that ends by itself after fewer measured steps says too little about a long run.
ENOUGH_STEPS = 20
# With this many steps the time cap leaves a usable, if wide, answer: 18 s a step gives ten of them in three minutes.
PROVISIONAL_STEPS = 5

# Linux's numbers on every architecture that torch runs on; analysis asks no operating system.
SIGNAL_NAMES = {
    1: "SIGHUP",
    2: "SIGINT",
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    15: "SIGTERM",
}

OUT_OF_MEMORY = (
    (TrialStatus.OUT_OF_VRAM, r"OutOfMemoryError|CUDA out of memory|HIP out of memory|CUBLAS_STATUS_ALLOC_FAILED"),
    (
        TrialStatus.OUT_OF_SHM,
        r"(?i)bus error[^\n]*shared memory"
        r"|unable to (?:write|allocate|resize|mmap)[^\n]*(?:/dev/shm|shared memory|torch_)",
    ),
    (TrialStatus.OUT_OF_RAM, r"(?m)^MemoryError|can't allocate memory|Cannot allocate memory|ArrayMemoryError"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen of the training before it ended."""

    pythons: int
    hello: bool
    steps: int
    measured: int
    backwards: int
    batches: int
    last_words: str
    ram_peak_bytes: int | None = None
    ram_limit_bytes: int | None = None
    # The fullest device over the VRAM limit, what was used of it, and what the limit is there.
    over_vram: tuple[int, int, int] | None = None


def status_of(outcome: TrialOutcome, window: Window, seen: Seen) -> tuple[TrialStatus, str | None]:
    match outcome.ended_by:
        case "interrupt":
            return TrialStatus.INTERRUPTED, f"ended by hand after {seen.measured} measured steps"
        case "window":
            return TrialStatus.COMPLETED, None
        case "trial_time":
            return _time_is_up(window, seen)
        case "startup_time":
            return TrialStatus.NOT_OBSERVED, _nothing_seen(seen, f"within {window.startup_time_s:g} s")
        case "hang":
            return TrialStatus.HUNG, f"no step, batch or backward for a long time after {seen.steps} steps"
        case "limit":
            return _over_a_limit(seen)
        case "lost" | "parent_lost":
            return TrialStatus.INTERRUPTED, "vtune or its supervisor was killed while the trial ran"
        case "itself":
            return _ended_itself(outcome, window, seen)


def what_to_do(status: TrialStatus, settings: Mapping[str, Scalar], measured: Measurement) -> tuple[str, ...]:
    """After a trial that gave no answer."""
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
        case TrialStatus.CRASHED if asked:
            return (f"see whether it runs without {asked}: vtune probe",)
        case TrialStatus.CRASHED:
            return ("see whether the command runs by itself; stderr.log in the trial's folder has all of its words",)
        case TrialStatus.OUT_OF_RAM:
            peak = measured.ram_peak_bytes
            more = f"--ram-limit {-(-int(peak * 1.25) // 2**20)}MiB or more, " if peak else ""
            return (f"{more}fewer workers, a smaller prefetch_factor or a smaller batch",)
        case TrialStatus.OUT_OF_VRAM:
            return ("a smaller batch, with accumulation where the effective batch has to stay",)
        case TrialStatus.OUT_OF_SHM:
            return ("a larger /dev/shm (docker run --shm-size=8g), fewer workers, or a smaller prefetch_factor",)
        case _:
            return ()


def _over_a_limit(seen: Seen) -> tuple[TrialStatus, str]:
    stopped = f"stopped by vtune after {seen.steps} steps"
    ram, limit = seen.ram_peak_bytes, seen.ram_limit_bytes
    over_ram = limit is not None and ram is not None and ram > limit
    if seen.over_vram is not None and not over_ram:
        index, used, most = seen.over_vram
        return TrialStatus.OUT_OF_VRAM, (
            f"{stopped}: {bytes_(used)} of VRAM in use on GPU {index}, over the limit of {bytes_(most)}"
        )
    return TrialStatus.OUT_OF_RAM, f"{stopped}: {bytes_(ram)} of RAM in use, over the limit of {bytes_(limit)}"


def _time_is_up(window: Window, seen: Seen) -> tuple[TrialStatus, str]:
    if seen.measured >= PROVISIONAL_STEPS:
        return TrialStatus.COMPLETED, (
            f"ended by the trial time of {window.trial_time_s:g} s after {seen.measured} of {window.steps} steps"
        )
    if seen.steps == 0:
        return TrialStatus.NOT_OBSERVED, _nothing_seen(seen, f"within the trial time of {window.trial_time_s:g} s")
    return TrialStatus.TIMED_OUT, (
        f"only {seen.measured} measured steps within the trial time of {window.trial_time_s:g} s"
    )


def _ended_itself(outcome: TrialOutcome, window: Window, seen: Seen) -> tuple[TrialStatus, str | None]:
    if outcome.start_error is not None:
        return TrialStatus.CRASHED, f"the command could not be started: {outcome.start_error}"
    if outcome.exit_code != 0 or outcome.signal is not None:
        how = _how(outcome)
        for status, pattern in OUT_OF_MEMORY:
            # The last one: a traceback shows the source before it tells the error.
            for found in [*re.finditer(pattern, seen.last_words)][-1:]:
                return status, f"{how} after {seen.steps} steps: {_line_of(seen.last_words, found.start())}"
        words = _last_line(seen.last_words)
        return TrialStatus.CRASHED, f"{how} after {seen.steps} steps" + (f": {words}" if words else "")
    if seen.steps == 0:
        return TrialStatus.NOT_OBSERVED, _nothing_seen(seen, "before the training ended by itself with exit code 0")
    if seen.measured < min(ENOUGH_STEPS, window.steps):
        return TrialStatus.TOO_SHORT, (
            f"the training ended by itself after {seen.steps} steps, {seen.measured} of them measured"
        )
    return TrialStatus.COMPLETED, f"the training ended by itself after {seen.measured} measured steps"


def _how(outcome: TrialOutcome) -> str:
    if outcome.signal is None:
        return f"the training ended with exit code {outcome.exit_code}"
    return f"the training was killed by {SIGNAL_NAMES.get(outcome.signal, f'signal {outcome.signal}')}"


def _nothing_seen(seen: Seen, when: str) -> str:
    if not seen.hello:
        if seen.pythons == 0:
            return f"no Python process could be instrumented {when}: is it started with -E, -I or -S, or not Python?"
        return f"torch's loader and optimizers were never imported {when}"
    what = []
    if seen.backwards:
        what.append(f"{seen.backwards} backward passes")
    if seen.batches:
        what.append(f"{seen.batches} batches from loaders")
    return f"no optimizer step was seen {when}; seen instead: {' and '.join(what) or 'nothing of a training'}"


def _last_line(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def _line_of(words: str, position: int) -> str:
    begin = words.rfind("\n", 0, position) + 1
    end = words.find("\n", position)
    return words[begin : end if end >= 0 else None].strip()[:300]
