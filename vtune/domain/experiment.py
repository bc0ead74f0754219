"""What is asked: a training, its limits, how long a trial may look at it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from vtune.domain.effects import Scalar

# How long a full run that is told to end may take to save.
GRACE_S = 120.0
Numerics = Literal["SAME", "CLOSE", "DIFFERENT"]
# It becomes a folder's name. A dot in front would hide it, a dash make it look like an option.
_STUDY_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")


def is_study_name(text: str) -> bool:
    return _STUDY_NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigWord:
    """Where a command names its config: which word, and what stands before the path in it."""

    position: int
    prefix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The training as the user runs it. `{config}` in the command stands for the copy made for each trial."""

    command: tuple[str, ...]
    cwd: Path
    config_path: Path | None = None
    # The training's own config as parsed, without the `vtune:` section; None when there is no config file.
    config: Mapping[str, Any] | None = None
    # The command names the config itself, and not by `{config}`: it runs as it is, but for a trial that changes a key.
    config_word: ConfigWord | None = None
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Bytes, or a share of what the machine has."""

    bytes: int | None = None
    fraction: float | None = None
    text: str

    def resolve(self, total_bytes: int | None) -> int | None:
        if self.bytes is not None:
            return self.bytes
        if self.fraction is None or total_bytes is None:
            return None
        return int(self.fraction * total_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    vram: Limit | None = None
    ram: Limit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Writes:
    """Where a trial's writes go. A full run writes for real."""

    # Folders that a trial leaves as they are, beside its working folder and its outputs.
    protect: tuple[Path, ...] = ()
    # Space that one trial may fill.
    disk: Limit | None = None
    # The user lets trials write to their files.
    real: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How long one trial looks. Times are wall-clock seconds."""

    steps: int = 50
    # The window grows to max_steps until the interval is narrow enough; equal to steps when the user fixed them.
    max_steps: int = 100
    # Narrow enough: half of the interval, as a share of the rate. Two launches differ by 3 % whatever the window says.
    narrow: float = 0.05
    trial_time_s: float = 180.0
    # It goes on until it has seen enough for its rate to be called steady, where the trial time allows that.
    ground: bool = False
    # The window is not full before a validation was seen: to its end, or as much of it as tells what it takes.
    validation: bool = False
    # From the start of the process to its first batch or backward; model building and data indexing take minutes.
    startup_time_s: float = 600.0
    # No event for this long, and for ten times the slowest step so far, is a hang.
    hang_time_s: float = 120.0
    # What the first trial read from its disk, the later ones shall, too, where a run does.
    keep_cold: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """The full run that a trial stands for, as far as it could be found; sources say where from."""

    epochs: int | None = None
    epochs_source: str | None = None
    # Optimizer steps by epoch where the training bounds its epochs by iterations, not by its data.
    iterations_per_epoch: int | None = None
    iterations_source: str | None = None
    samples_per_epoch: int | None = None
    # Optimizer steps from one to the next, where the training's own words count them in steps.
    checkpoint_every_steps: int | None = None
    validation_every_steps: int | None = None

    @property
    def every_steps(self) -> Mapping[Literal["checkpoint", "validation"], int]:
        """Of what is known to come in the middle of an epoch."""
        found: dict[Literal["checkpoint", "validation"], int] = {}
        if self.checkpoint_every_steps is not None:
            found["checkpoint"] = self.checkpoint_every_steps
        if self.validation_every_steps is not None:
            found["validation"] = self.validation_every_steps
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Money by hour; the currency is only what the user typed in front of the number."""

    per_hour: float
    currency: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobBinding:
    """How the user's config names a knob, when they said so in `vtune.knobs`; of a name that vtune does not know, all
    that there is to know."""

    name: str
    key: tuple[str, ...] | None = None
    values: tuple[Scalar, ...] = ()
    # Of a knob of the user's own only: the command's flag, as it stands there, in place of a key.
    flag: str | None = None
    # What they say it does to the numbers.
    numerics: Numerics | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    study: str
    workload: Workload
    limits: Limits = field(default_factory=Limits)
    writes: Writes = field(default_factory=Writes)
    window: Window = field(default_factory=Window)
    planned_run: PlannedRun = field(default_factory=PlannedRun)
    # Of the machine that the experiment stands for, as its file says; None: those that are found here.
    declared_cores: int | None = None
    price: Price | None = None
    allow: Numerics = "SAME"
    knobs: tuple[KnobBinding, ...] = ()
    # What the user asked for beyond the config: `--set workers=4`.
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    # The file the user named; None for `-- CMD`.
    source: Path | None = None
    # For full runs: words that make the command go on from its last checkpoint, and how long it may take to save.
    resume: tuple[str, ...] = ()
    grace_s: float = GRACE_S
    # Flags of the command that an earlier trial of the study turned without effect, as typed.
    ignored_flags: frozenset[str] = frozenset()
    _bindings: Mapping[str, KnobBinding] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_bindings", {binding.name: binding for binding in self.knobs})

    def binding_of(self, knob: str) -> KnobBinding | None:
        """What `vtune.knobs` says of it. Asked of each knob of each setting, and there may be thousands."""
        return self._bindings.get(knob)
