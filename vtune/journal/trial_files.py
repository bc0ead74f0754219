"""A finished trial's folder, read back whole: what analysis judges."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vtune.domain.events import GpuSample, ProcessSample, ProcessStack, StackFrame, TelemetrySample
from vtune.domain.machine import Gpu
from vtune.domain.others import OtherProgram
from vtune.domain.trial import KernelKill, MemoryGroupEnd, Passed, RamGuard, TrialOutcome
from vtune.foreign.json_text import parse_json
from vtune.foreign.read import open_regular, read_bytes, read_json, read_text
from vtune.journal.files import complete_lines
from vtune.journal.paths import TrialPaths
from vtune.journal.step_log import StepLog

# Enough for the longest traceback of a framework; the files stay for whoever wants all of it.
TAIL_BYTES = 32 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFiles:
    log: StepLog
    telemetry: tuple[TelemetrySample, ...]
    gpus: tuple[Gpu, ...]
    # When the supervisor started the training.
    started_s: float | None
    pythons: int
    stdout_tail: str
    stderr_tail: str
    # Where its processes were when it had been silent for too long.
    stacks: tuple[ProcessStack, ...] = ()


def read_trial_files(folder: TrialPaths) -> TrialFiles:
    log = StepLog(folder)
    while log.refresh():
        pass
    return TrialFiles(
        log=log,
        telemetry=read_telemetry(folder.telemetry),
        gpus=_gpus(folder.gpus),
        started_s=_started_s(folder),
        pythons=len(complete_lines(_bytes_of(folder.pythons))),
        stdout_tail=_tail(folder.stdout),
        stderr_tail=_tail(folder.stderr),
        stacks=_stacks(folder.stacks),
    )


def saw_loader(folder: TrialPaths, key: str) -> bool:
    """Whether a loader of this key was made in the trial at all."""
    log = StepLog(folder)
    while log.refresh():
        pass
    return any(fact.data.get("key") == key for fact in log.facts_named("loader"))


def read_telemetry(path: Path) -> tuple[TelemetrySample, ...]:
    return tuple(_sample(item) for item in complete_lines(_bytes_of(path)) if "t_s" in item)


def read_outcome(folder: TrialPaths) -> TrialOutcome | None:
    try:
        return outcome_from(read_text(folder.outcome))
    except (OSError, ValueError):
        return None


def outcome_from(text: str) -> TrialOutcome | None:
    try:
        item = parse_json(text)
        group, killed = item.get("group"), item.get("kernel_killed", ())
        return TrialOutcome(
            **{
                **item,
                "shm_removed": tuple(item.get("shm_removed", ())),
                "shm_left": tuple(item.get("shm_left", ())),
                "group": MemoryGroupEnd(**group) if group else None,
                "ram_guard": RamGuard(**guard) if (guard := item.get("ram_guard")) else None,
                "over": Passed(**over) if (over := item.get("over")) else None,
                "kernel_killed": tuple(KernelKill(**one) for one in killed),
            }
        )
    except (ValueError, TypeError):
        return None


def _started_s(folder: TrialPaths) -> float | None:
    try:
        started = read_json(folder.supervisor)["started_s"]
    except (OSError, ValueError, KeyError):
        return None
    return float(started) if isinstance(started, (int, float)) else None


def _gpus(path: Path) -> tuple[Gpu, ...]:
    try:
        return tuple(Gpu(**item) for item in read_json(path))
    except (OSError, ValueError, TypeError):
        return ()


def _stacks(path: Path) -> tuple[ProcessStack, ...]:
    def frames(items: list[dict[str, Any]]) -> tuple[StackFrame, ...]:
        return tuple(StackFrame(**item) for item in items)

    try:
        found = read_json(path)
        return tuple(
            ProcessStack(
                **{
                    **item,
                    "frames": frames(item["frames"]),
                    "threads": tuple(frames(thread) for thread in item["threads"]),
                }
            )
            for item in found
        )
    except (OSError, ValueError, TypeError, KeyError):
        return ()


def _sample(item: Mapping[str, Any]) -> TelemetrySample:
    gpus = (
        GpuSample(**{**gpu, "throttled_by": tuple(gpu.get("throttled_by") or ())}) for gpu in item.get("gpus") or ()
    )
    programs = item.get("programs")
    return TelemetrySample(
        **{
            **item,
            "processes": tuple(ProcessSample(**p) for p in item["processes"]),
            "gpus": tuple(gpus),
            "programs": None if programs is None else tuple(OtherProgram(**p) for p in programs),
        }
    )


def _bytes_of(path: Path) -> bytes:
    try:
        return read_bytes(path, most=None)
    except (OSError, ValueError):
        return b""


def _tail(path: Path) -> str:
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - TAIL_BYTES))
            return file.read().decode("utf-8", errors="replace")
    except (OSError, ValueError):
        return ""
