"""A full run with chosen settings: what it was promised to do, what happened to it, how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from vtune.domain.effects import Scalar
from vtune.domain.renewal import Renewal
from vtune.domain.trial import TrialStatus

LaunchStatus = Literal["completed", "failed", "stopped"]
# What ran out, or what is suspected, when settings have to be left for safer ones.
Trouble = Literal["ram", "shm", "vram", "workers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What the trial that a launch comes from has shown."""

    trial: int
    samples_per_s: float | None = None
    samples_per_s_ci95: tuple[float, float] | None = None
    # The trial showed that a long run has that rate.
    steady: bool = False
    samples_per_s_whole_run: float | None = None
    run_s: float | None = None
    # Samples of one optimizer step over all ranks.
    effective_batch: int | None = None
    # With the user's own settings.
    effective_batch_before: int | None = None
    # In the mean, for rates in samples, where the steps have no one batch.
    samples_per_step: float | None = None
    # Optimizer steps of the run that is launched; None where its length is not known.
    steps: int | None = None

    @property
    def mean_batch(self) -> float | None:
        return self.samples_per_step or self.effective_batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """Of the whole run, in optimizer steps."""

    steps: int
    # Exit code 0 after fewer is not its planned end: last batches may be left out, a scaler may skip some.
    least: int
    # What launches that this one goes on from may have done of them; None where nobody knows.
    most_before: int | None = 0

    def falls_short(self, most: int) -> bool:
        """Of what this launch has done at most."""
        return most > 0 and self.most_before is not None and self.most_before + most < self.least

    def words(self, steps: int, most: int) -> str:
        or_more = " or more" if most > steps else ""
        before = f", with {self.most_before} at most before it," if self.most_before else ""
        return f"{steps}{or_more}{before} of {self.steps} steps"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """Stored as launch.json, without its secrets: all that is needed to understand the run."""

    launch: int
    study: str
    promise: Promise
    # None where it is not known.
    length: Length | None = None
    settings: Mapping[str, Scalar]
    command: tuple[str, ...]
    cwd: str
    # Only what is set on top of the inherited environment.
    env: Mapping[str, str]
    # The resolved copy of the training's config; None where the command names its own and no key of it is changed.
    config: str | None = None
    # Words that make the command go on from its last checkpoint; empty where nobody said them.
    resume: tuple[str, ...] = ()
    step_down: bool = False
    grace_s: float = 120.0
    # Folders that the training writes to, as far as its config and its command tell.
    output: tuple[str, ...] = ()
    # What only vtune's hooks set, as the lines of Python that would do the same.
    by_hook: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchEvent:
    # Seconds since 1970: a launch of days outlives reboots of whoever reads it.
    at: float
    kind: str
    text: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDown:
    settings_before: Mapping[str, Scalar]
    settings: Mapping[str, Scalar]
    trial: int
    why: str
    # Optimizer steps done at the last checkpoint that was seen; None where none was.
    resumed_from_step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """With the same settings once more."""

    why: str
    resumed_from_step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Achieved:
    """As the counters tell: of one attempt; in a result, of the whole launch."""

    steps: int = 0
    # Steady, and always of one attempt: the one that runs, or ran last.
    samples_per_s: float | None = None
    # From the start of the process, pauses and start-up included.
    samples_per_s_whole: float | None = None
    seconds: float = 0.0
    # Until the planned end, pauses included; None where either is not known. 0 of what has completed.
    left_s: float | None = None
    ram_peak_bytes: int | None = None
    shm_peak_bytes: int | None = None
    vram_peak_bytes: int | None = None
    # Somebody removed the files that it counts in: then `steps` tells nothing.
    counters_gone: bool = False
    # It went on from a checkpoint, and nobody saw just how many were done at that: `steps` are the least, and the rate
    # of the whole with them.
    or_more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchResult:
    study: str
    launch: int
    settings: Mapping[str, Scalar]
    status: LaunchStatus
    # As a trial's status: what ended it.
    ended: TrialStatus
    detail: str | None
    promise: Promise
    achieved: Achieved
    step_downs: tuple[StepDown, ...] = ()
    retries: tuple[Retry, ...] = ()
    # How the run itself has renewed the promise, the earliest first.
    renewals: tuple[Renewal, ...] = ()
    # How to go on, where there is a way.
    next_command: str | None = None
    # What it costs, and that it begins again where it does.
    next_note: str | None = None

    @property
    def run_s(self) -> float | None:
        """What the whole run takes: projected where it has not completed."""
        left_s = self.achieved.left_s
        return None if left_s is None else self.achieved.seconds + left_s
