"""A joint search as data: what may be turned, how far it has come, and what it found out about the knobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from vtune.domain.effects import Scalar
from vtune.domain.prediction import Prediction
from vtune.domain.record import TrialRecord
from vtune.domain.trial import Proposal

# auto is vtune's own, guided by its model of the training; the others are Optuna's.
Sampler = Literal["auto", "tpe", "gp", "random", "grid"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One knob that is turned, or several that only make sense together (batch_size × accumulate_steps)."""

    # The knob's name; of several that of the first.
    name: str
    # In rising order, the user's own among them. Each is what it sets; what it does not name stays as it is.
    choices: tuple[Mapping[str, Scalar], ...]
    # Meaningless without workers: left out where there are none.
    needs_workers: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    dimensions: tuple[Dimension, ...]
    # Every combination once, as it would be asked for: what the training is set to anyway is left out, and what only
    # workers could use where there are none. The user's own comes first.
    settings: tuple[Mapping[str, Scalar], ...]
    # Knobs that are not turned, and why, a line each.
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """What has not been measured and looks good."""

    settings: Mapping[str, Scalar]
    predicted: Prediction
    # Over the best that was measured.
    gain: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunt:
    """How far a search has come by a journal. The same journal comes to the same place: nothing else is remembered."""

    sampler: Sampler
    stage: Literal["baseline", "searching", "confirm", "done"]
    # None when there is nothing left to launch.
    proposal: Proposal | None
    baseline: TrialRecord | None
    best: TrialRecord | None
    # Settings to ask for to have what is best.
    settings: Mapping[str, Scalar]
    # Trials that it rests on, those from before it among them.
    trials: tuple[int, ...] = ()
    # Of what `--trials` allows: launched by it, the baseline included, and given back because nothing untried can win.
    counted: int = 0
    given_back: int = 0
    # Of its budget: seconds of its launches, of those that confirmed and of a scout run.
    used_s: float = 0.0
    # Launches still to come, with confirmations, at least and at most.
    left: tuple[int, int] = (0, 0)
    # Why no more settings are tried, in one sentence; None while they are.
    ended: str | None = None
    # What it may set, by all that the journal says; None before its first trial has told what the training runs with.
    space: Space | None = None
    # Of it: how many settings there are, how many are predicted over a limit, how many fell with a failure.
    settings_in_all: int = 0
    over_a_limit: int = 0
    ruled_out_by_failures: int = 0
    # What the reader must know of the search itself: a model that does not fit, and what was done about it.
    remarks: tuple[str, ...] = ()
    # Trials that have a rate and pass a limit, and in which words.
    over: Mapping[int, str] = field(default_factory=dict)
    # Trials of the journal that count for nothing: they ran another command, config or code than now.
    left_out: tuple[int, ...] = ()
    # Why it cannot go on, where no baseline could be measured.
    stopped: str | None = None
    next_best: tuple[Guess, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Importance:
    """How much one knob matters around the best: the best over the same with this knob as the user has it, and over its
    worst value that fits."""

    knob: str
    over_own: float
    over_worst: float
    # Share of the differences among all settings that fit; of each sampler by its own means.
    share: float | None = None
    by: Literal["model", "optuna"] = "model"
    # Whether measured trials had more than one of its values; else it is known by the model alone.
    turned: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """Trials that no other beats in both: more samples a second with no more memory. By rising memory."""

    memory: Literal["RAM", "VRAM"]
    trials: tuple[int, ...] = ()
    needs_bytes: Mapping[int, int] = field(default_factory=dict)
