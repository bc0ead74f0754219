"""The traps: which training, which settings may be chosen, and under which limits."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TRAININGS = HERE / "trainings"
MIB = 2**20

# Told to every tuner that asks for the number of cores: the costs are waited for, so two real ones carry them.
DECLARED_CORES = 8

Value = int | bool
Settings = dict[str, Value]
KNOBS = ("workers", "batch_size", "prefetch_factor", "persistent_workers")


@dataclass(frozen=True, kw_only=True)
class Trap:
    name: str
    words: str
    # What the training's author wrote, in full; and the values that a tuner may choose from, by knob.
    baseline: Mapping[str, Value]
    space: Mapping[str, Sequence[Value]]
    # Settings that a short trial flatters.
    bait: Mapping[str, Value]
    # The bait's end, where a whole run of it does not come to its own: see `sight.py`.
    bait_ends: str | None = None
    ram_limit_bytes: int | None = None
    shm_bytes: int | None = None
    has_files: bool = False
    has_neighbour: bool = False
    is_iterable: bool = False
    epochs: int = 1
    # In a short trial only: the truth is that of a run so long that its first step and what lay ready then are nothing.
    first_step_s: float = 0.0
    # Shorter runs for --quick, as flags.
    quick: Sequence[str] = ()

    @property
    def script(self) -> Path:
        return TRAININGS / f"{self.name}.py"

    @property
    def fingerprint(self) -> str:
        """Of all that its truth hangs on: a kept figure of another training is none."""
        told = repr((self.baseline, self.space, self.ram_limit_bytes, self.shm_bytes, self.epochs, self.first_step_s))
        parts = (self.script.read_bytes(), (TRAININGS / "loop.py").read_bytes(), told.encode())
        return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


def grid(trap: Trap) -> list[Settings]:
    """Every setting that may be chosen, the baseline first; without workers, what belongs to workers is one."""
    found: dict[str, Settings] = {}
    points = itertools.product(*trap.space.values())
    for point in [dict(trap.baseline), *(dict(zip(trap.space, values, strict=True)) for values in points)]:
        settings = settled(trap, point)
        found.setdefault(key_of(settings), settings)
    return list(found.values())


def settled(trap: Trap, settings: Mapping[str, Value]) -> Settings:
    """In full, with the author's values for what is left open, and one spelling for what makes no difference."""
    full: Settings = {**trap.baseline, **settings}
    if not full["workers"]:
        full["prefetch_factor"], full["persistent_workers"] = 2, False
    return {knob: full[knob] for knob in KNOBS}


def key_of(settings: Mapping[str, Value]) -> str:
    """Short, for tables and for looking up: 4×2, batch 8, persistent."""
    words = [f"{settings['workers']}×{settings['prefetch_factor']}" if settings["workers"] else "0 workers"]
    if settings["batch_size"] != 1:
        words.append(f"batch {settings['batch_size']}")
    if settings["workers"]:
        words.append("persistent" if settings["persistent_workers"] else "anew")
    return ", ".join(words)


def flags(settings: Mapping[str, Value]) -> list[str]:
    words: list[str] = []
    for knob in KNOBS:
        value = settings[knob]
        words += [f"--{knob.replace('_', '-')}", str(value).lower()]
    return words


def _author(
    workers: int, *, batch_size: int = 1, prefetch_factor: int = 2, persistent_workers: bool = True
) -> Settings:
    return {
        "workers": workers,
        "batch_size": batch_size,
        "prefetch_factor": prefetch_factor,
        "persistent_workers": persistent_workers,
    }


TRAPS = (
    Trap(
        name="full_queue",
        words="full queue after a slow first step",
        baseline=_author(2),
        space={"workers": (2, 4, 6), "prefetch_factor": (2, 32)},
        bait={"prefetch_factor": 32},
        first_step_s=3.0,
        quick=("--epoch-samples", "200"),
    ),
    Trap(
        name="lock",
        words="a lock that makes workers useless",
        baseline=_author(4),
        space={"workers": (0, 1, 2, 4, 6)},
        bait={"workers": 6},
        first_step_s=1.0,
        quick=("--epoch-samples", "120"),
    ),
    Trap(
        name="leak",
        words="memory growing until it kills after an epoch",
        baseline=_author(2, persistent_workers=False),
        space={"workers": (2, 4, 6), "persistent_workers": (False, True)},
        bait={"workers": 6, "persistent_workers": True},
        bait_ends="ram",
        ram_limit_bytes=900 * MIB,
        epochs=6,
        quick=("--epochs", "2", "--epoch-samples", "60"),
    ),
    Trap(
        name="half_batch",
        words="a batch slower than its half",
        baseline=_author(4),
        space={"workers": (4,), "batch_size": (1, 2, 4, 8, 16)},
        bait={"batch_size": 16},
        quick=("--epoch-samples", "200"),
    ),
    Trap(
        name="short_epochs",
        words="short epochs with costly restarts",
        baseline=_author(2, persistent_workers=False),
        space={"workers": (0, 2, 6), "persistent_workers": (False, True)},
        bait={"workers": 6, "persistent_workers": False},
        epochs=10,
        quick=("--epochs", "2"),
    ),
    Trap(
        name="heavy_tail",
        words="heavy-tailed samples",
        baseline=_author(2),
        space={"workers": (2, 4, 6), "prefetch_factor": (2, 8)},
        bait={"workers": 6},
        quick=("--epoch-samples", "200"),
    ),
    Trap(
        name="page_cache",
        words="page cache warming from trial to trial",
        baseline=_author(1),
        space={"workers": (1, 2, 4, 6)},
        bait={"workers": 2},
        has_files=True,
        quick=("--epoch-samples", "120"),
    ),
    Trap(
        name="vram_validation",
        words="VRAM spike in validation (emulated device)",
        baseline=_author(2),
        space={"workers": (2,), "batch_size": (1, 2, 4, 8)},
        bait={"batch_size": 8},
        bait_ends="vram",
        quick=("--epoch-samples", "80"),
    ),
    Trap(
        name="nothing_to_gain",
        words="nothing to gain",
        baseline=_author(2),
        space={"workers": (1, 2, 4, 6)},
        bait={"workers": 6},
        quick=("--epoch-samples", "100"),
    ),
    Trap(
        name="cpu_loss",
        words="CPU loss that looks like data wait",
        baseline=_author(2),
        space={"workers": (1, 2, 4, 6)},
        bait={"workers": 6},
        quick=("--epoch-samples", "60"),
    ),
    Trap(
        name="dies_at_four",
        words="a worker that dies at 4",
        baseline=_author(2, batch_size=4),
        space={"workers": (1, 2, 3, 4, 6)},
        bait={"workers": 4},
        bait_ends="worker",
        quick=("--epoch-samples", "800"),
    ),
    Trap(
        name="neighbour",
        words="noise from a neighbour process",
        baseline=_author(2),
        space={"workers": (1, 2, 4)},
        bait={"workers": 4},
        has_neighbour=True,
        quick=("--epoch-samples", "150"),
    ),
    Trap(
        name="shm_small",
        words="/dev/shm too small",
        baseline=_author(2, batch_size=4),
        space={"workers": (2, 4, 6), "prefetch_factor": (2, 8)},
        bait={"workers": 4, "prefetch_factor": 8},
        bait_ends="shm",
        shm_bytes=44 * MIB,
        quick=("--epoch-samples", "400"),
    ),
    Trap(
        name="iterable_twice",
        words="an iterable data set that would be read twice",
        baseline=_author(0),
        space={"workers": (0, 1, 2, 4)},
        bait={"workers": 4},
        bait_ends="twice",
        epochs=3,
        is_iterable=True,
        quick=("--epochs", "1", "--epoch-samples", "80"),
    ),
)
BY_NAME = {trap.name: trap for trap in TRAPS}
