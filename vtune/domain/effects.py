"""What a setting does to a training, as data: stored in spec.json, replayed by launch, printed by reports.

The parent edits the config, the command and the environment before the start; the worker turns loader options inside
the training, looks for its ceiling there, and holds it to a limit of its devices' memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Scalar = bool | int | float | str | None
# A config may list an edge or a width for each axis or level: such a list is set as a whole.
ConfigValue = Scalar | tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetConfigKey:
    """Set one key of the copy of the training's config that the trial gets."""

    path: tuple[str, ...]
    # As the training writes it: "bf16-mixed" where vtune says bf16.
    value: ConfigValue


@dataclass(frozen=True, slots=True, kw_only=True)
class SetArgument:
    """Replace the value of a flag that the training's command carries; none is ever added."""

    # As the user typed it, for people.
    argument: str
    # The word of the command that holds the value, and that word with the new one.
    position: int
    word: str
    value: Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class SetEnv:
    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDataLoaderOption:
    """Turn one option of one loader from the hook. `loader` is its key as learnt by the scout run."""

    loader: str
    option: Literal["num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "in_order", "batch_size"]
    value: Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCeiling:
    """Drain one loader, then feed the training from one kept batch and double it: no settings, and no run's rate."""

    loader: str
    # For all sizes together.
    ladder_s: float = 60.0
    # What the trial's processes may hold together; no larger batch is tried that might come near it.
    ram_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitVram:
    """Hold the training's own allocator to a limit on each device that it opens: bytes, or a share of the device. What
    is over it dies of torch's error, and not at its neighbours' expense. No setting, and no number changes by it."""

    bytes: int | None = None
    fraction: float | None = None


Effect = SetConfigKey | SetArgument | SetEnv | SetDataLoaderOption | FindCeiling | LimitVram
