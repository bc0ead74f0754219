"""How an attempt of a full run ended, in the words and by the rules of a trial's end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vtune.analysis.ending import Seen, status_of
from vtune.analysis.guard.trouble import LEAST_FREE, disk_is_full, trouble_of
from vtune.analysis.memory_ended import least_available
from vtune.analysis.root_cause import failures_of, root_of, worker_slots
from vtune.domain.experiment import Window
from vtune.domain.launch import Length, Trouble
from vtune.domain.machine import Machine
from vtune.domain.numbers import bytes_
from vtune.domain.secrets import masked
from vtune.domain.trial import TrialStatus
from vtune.execution.launch_guard import AttemptEnd
from vtune.execution.read import LAST_WORDS_CHARS
from vtune.journal.paths import TrialPaths
from vtune.journal.trial_files import read_trial_files
from vtune.telemetry.disk import existing, free_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    status: TrialStatus
    detail: str | None
    # Of what safer settings would need less; None where that would not help.
    trouble: Trouble | None = None
    last_words: str = ""
    # It left with exit code 0 far from its planned end.
    early: bool = False


def ended(
    end: AttemptEnd,
    folder: TrialPaths,
    machine: Machine,
    window: Window,
    output: Sequence[Path],
    cwd: Path,
    *,
    secrets: Sequence[str] = (),
) -> Ended:
    """`secrets`: those that the training was given, which its words may hold."""
    how = _ended(end, folder, machine, window, output, cwd)
    detail = None if how.detail is None else masked(how.detail, secrets)
    how = replace(how, detail=detail, last_words=masked(how.last_words, secrets))
    return how if end.killed is None else replace(how, detail="; ".join(filter(None, (how.detail, end.killed))))


def _ended(
    end: AttemptEnd, folder: TrialPaths, machine: Machine, window: Window, output: Sequence[Path], cwd: Path
) -> Ended:
    if end.verdict is not None and end.outcome.ended_by != "interrupt":
        return Ended(status=end.verdict.status, detail=end.verdict.why, trouble=end.verdict.trouble)
    outcome, steps = end.outcome, end.achieved.steps
    if outcome.ended_by == "itself" and outcome.exit_code == 0 and outcome.start_error is None:
        # However short it was: it is a run of its own and no measurement.
        gone = "how far it came is unknown, its counters are gone" if end.achieved.counters_gone else None
        return Ended(status=TrialStatus.COMPLETED, detail=gone)
    if outcome.ended_by in ("lost", "parent_lost"):
        why = outcome.defect or "it was killed"
        return Ended(status=TrialStatus.CRASHED, detail=f"its supervisor was lost after {steps} steps: {why}")
    files = read_trial_files(folder)
    facts = files.log.facts
    words = files.stderr_tail[-LAST_WORDS_CHARS:] or files.stdout_tail[-LAST_WORDS_CHARS:]
    seen = Seen(
        pythons=files.pythons,
        hello=any(fact.name == "hello" for fact in facts),
        steps=steps,
        measured=steps,
        backwards=0,
        batches=0,
        last_words=words,
        stdout_words=files.stdout_tail[-LAST_WORDS_CHARS:],
        ram_peak_bytes=end.achieved.ram_peak_bytes,
        leader=next((fact.pid for fact in facts if fact.name == "optimizer"), None),
        failures=failures_of(facts),
        workers=worker_slots(facts),
        stacks=files.stacks,
        ram_available_bytes=least_available(end.samples),
        ram_bytes=machine.ram_bytes,
        shm_used_bytes=end.achieved.shm_peak_bytes,
        shm_bytes=machine.shm_bytes,
    )
    status, detail = status_of(outcome, window, seen)
    # Its own words go to the attempt's folder.
    fullest = min(((free, place) for place, free in _by_disk((*output, cwd, folder.root))), default=None)
    root = root_of(outcome, words, seen.failures, seen.workers)
    told = root.error if root.pid is not None or root.who is not None else ""
    full = disk_is_full(words, None if fullest is None else fullest[0], told)
    if outcome.ended_by == "itself" and status is TrialStatus.CRASHED and full:
        return Ended(status=status, detail=f"{detail}; {full_where(fullest, output)}", last_words=words)
    return Ended(status=status, detail=detail, trouble=trouble_of(status, words), last_words=words)


def against_plan(how: Ended, steps: int, length: Length | None, *, most: int = 0) -> Ended:
    """Exit code 0 is also that of a training that somebody's SIGTERM ended, or its own patience. `most`: what it may
    have done, where `steps` is only what it has done at least."""
    most = max(steps, most)
    if how.status is not TrialStatus.COMPLETED or length is None or not length.falls_short(most):
        return how
    why = f"it ended by itself, with exit code 0, after {length.words(steps, most)}"
    return replace(how, detail=f"{why}: a signal from elsewhere, or its own decision", early=True)


def full_where(fullest: tuple[int, Path] | None, output: Sequence[Path]) -> str:
    """And whether its largest file there would find room once more."""
    if fullest is None:
        return "a disk that it writes to is full"
    free, place = fullest
    largest = max((_largest(one) for one in output if _disk(one) == _disk(place)), default=0)
    missing = ""
    if free < largest:
        missing = f", too little for another file as large as its largest there, {bytes_(largest)}"
    elif free < LEAST_FREE:
        missing = f", less than {bytes_(LEAST_FREE)}"
    return f"a disk that it writes to is full: of those that are known {place} has least room, {bytes_(free)}{missing}"


def _by_disk(places: Sequence[Path]) -> list[tuple[Path, int]]:
    """The first place of each disk: what is free there changes from one look to the next."""
    found: dict[int, tuple[Path, int]] = {}
    for place in places:
        if (free := free_bytes(existing(place))) is not None:
            found.setdefault(_disk(place), (place, free))
    return list(found.values())


def _disk(place: Path) -> int:
    return existing(place).stat().st_dev


def _largest(folder: Path) -> int:
    largest = seen = 0
    for root, _, names in os.walk(folder):
        for name in names:
            seen += 1
            try:
                largest = max(largest, os.stat(os.path.join(root, name)).st_size)
            except OSError:
                continue
        if seen > 10_000:
            break
    return largest
