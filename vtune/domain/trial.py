"""A trial: what was proposed, what is to be run, how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from vtune.domain.compared import Beat
from vtune.domain.effects import Effect, Scalar
from vtune.domain.prediction import Prediction

# Origins of launches at the end of a walk or a search, each for a purpose of its own.
# The winner for longer, and the rounds of a race.
CONFIRM = "confirm"
# A usual trial of settings that train as the user's do, beside another training that leads.
SAME_TRAINING = "confirm:same"
# The user's own settings, where another trial looks faster than their single launch and nothing shows it.
OWN_AGAIN = "confirm:own"
CONFIRMATIONS = (CONFIRM, SAME_TRAINING, OWN_AGAIN)


def confirms(origin: str) -> bool:
    return origin in CONFIRMATIONS


def tunes(origin: str) -> bool:
    """A trial of a walk, of a search, or of the end of one."""
    return origin.startswith(("phase:", "search", CONFIRM))


class TrialStatus(StrEnum):
    COMPLETED = "completed"
    OUT_OF_VRAM = "out_of_vram"
    OUT_OF_RAM = "out_of_ram"
    OUT_OF_SHM = "out_of_shm"
    CRASHED = "crashed"
    HUNG = "hung"
    TIMED_OUT = "timed_out"
    DIVERGED = "diverged"
    NOT_OBSERVED = "not_observed"
    TOO_SHORT = "too_short"
    INVALID = "invalid"
    REFUSED = "refused"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceLeg:
    """Which launch of which race a trial is: launches of one round are compared with each other."""

    id: str
    # From 1 on.
    round: int
    # Its place among the contestants; 0 is the baseline.
    contestant: int
    # What the race was planned as: an interval after several looks depends on it.
    contestants: int
    rounds: int
    # What counts as equal, as a logarithm; None in records that do not say it.
    delta: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    settings: Mapping[str, Scalar]
    reason: str
    origin: str
    race: RaceLeg | None = None
    predicted: Prediction | None = None
    # Measured steps at least and at most, where whoever proposes it wants another window than usual.
    steps: tuple[int, int] | None = None
    # Where it surely stays below this, it is ended early.
    beat: Beat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSpec:
    """Everything a trial needs to run again; stored as spec.json in the trial's folder."""

    trial: int
    origin: str
    reason: str
    settings: Mapping[str, Scalar]
    effects: tuple[Effect, ...]
    # The command with `{config}` and `{python}` filled in.
    command: tuple[str, ...]
    cwd: str
    # Only what is set on top of the inherited environment.
    env: Mapping[str, str]
    # Marks every process of this trial in its environment, so that a sweep never touches what is not ours.
    token: str
    race: RaceLeg | None = None
    # What it was expected to do, before it was run.
    predicted: Prediction | None = None
    beat: Beat | None = None
    # A full run, which goes on without the vtune that started it; and the files that it alone holds meanwhile.
    outlives: bool = False
    locks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryGroupEnd:
    """What the kernel counted in the control group that the trial had for itself."""

    kind: Literal["cgroup v2", "cgroup v1"]
    # A little above the trial's limit: the wall behind the watchdog. Page cache is pushed out before anybody is killed.
    limit_bytes: int | None = None
    # Page cache included.
    peak_bytes: int | None = None
    # Processes that the kernel killed for passing the limit.
    oom_kills: int | None = None
    # It stood at its limit once: then page cache was taken from it, or somebody was killed.
    at_limit: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RamGuard:
    """What watched over the trial's memory, and by which limit."""

    by: Literal["cgroup v2", "cgroup v1", "watchdog"]
    limit_bytes: int | None = None
    # Nobody named the limit: it is what the machine had left at the start, without the reserve.
    is_default: bool = False
    reserve_bytes: int | None = None
    # The most of anonymous and shared memory, each page once, that was seen for sure; it knows more than the samples.
    peak_bytes: int | None = None
    # The defect of vtune's by which the watchdog ended before the trial did.
    failed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """The limit that ended a trial, and what was seen at that moment."""

    # Its own RAM limit, as the watchdog saw it, or the kernel in the trial's group; the least that the machine has to
    # have left; room in /dev/shm; space on the disk.
    what: Literal["ram", "kernel", "machine", "shm", "disk"]
    used_bytes: int | None = None
    limit_bytes: int | None = None
    left_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelKill:
    """A process of the trial that the kernel's log names as killed for memory."""

    pid: int
    # Of the whole machine, or of a control group.
    of_group: bool
    words: str


# Why the trial was ended, seen from vtune.
# `standstill`: its time was up, and it had not moved for long. `beaten`: another trial is surely faster. `disk`: it
# filled the space that a trial may fill.
EndedBy = Literal[
    "itself",
    "window",
    "beaten",
    "trial_time",
    "standstill",
    "startup_time",
    "hang",
    "limit",
    "disk",
    "interrupt",
    "parent_lost",
    "lost",
]


# Ends that a machine without free cores can bring about, or falsify.
MEASURES_TIME = (TrialStatus.COMPLETED, TrialStatus.TIMED_OUT, TrialStatus.HUNG)


# How a trial can end of which the disk limit said all: what diverged or had no effect before has an answer of its own.
ENDS_BY_DISK = (TrialStatus.COMPLETED, TrialStatus.TOO_SHORT, TrialStatus.NOT_OBSERVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutcome:
    """How the processes ended; what it means for the trial is decided later, from files."""

    ended_by: EndedBy
    exit_code: int | None
    signal: int | None
    seconds: float
    # Processes that were still there after the leader's end and were stopped.
    stragglers: int = 0
    shm_removed: tuple[str, ...] = ()
    # What appeared in /dev/shm meanwhile and stays: nobody was seen using it, so it may be somebody else's.
    shm_left: tuple[str, ...] = ()
    # Why the command could not be started at all, in the operating system's words.
    start_error: str | None = None
    # Because another run holds what this one was to hold alone.
    held_elsewhere: bool = False
    group: MemoryGroupEnd | None = None
    # None where nothing watched, or in records that do not say it.
    ram_guard: RamGuard | None = None
    # What the supervisor ended it for; limits that vtune's own samples show are not among it.
    over: Passed | None = None
    kernel_killed: tuple[KernelKill, ...] = ()
    # Processes of the whole machine that the kernel killed for memory meanwhile, whosever they were.
    machine_oom_kills: int | None = None
    # A defect of vtune's that its supervisor met at its end, or died of.
    defect: str | None = None
    # For a moment at least, the disk of its folder had no room: what the training was seen doing may be missing.
    disk_was_full: bool = False
    # At the end the trial's folder was not there any more, and with it all that the training was seen doing.
    folder_removed: bool = False
