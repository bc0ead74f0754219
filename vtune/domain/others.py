"""Other programs on the cores that a training would use, and whether they leave enough of them to measure by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Others that hold this share of the cores that the training would use make it a busy machine. On full cores a training
# then gets at most four fifths of them, and its rate may be a quarter too low. Less is no reason to refuse: the
# interval of the rate reaches up by it (docs/decisions/0018).
BUSY_SHARE = 0.2
# Whatever the share: on one or two cores less than this is a browser, a terminal, a daemon.
LEAST_BUSY_CORES = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherProgram:
    """A process that is neither vtune nor a part of its trial."""

    pid: int
    name: str
    # Of processor time, in the mean.
    cores: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OthersOnCores:
    # Cores that the training may use: the smaller of affinity and quota.
    cores: float
    # Of them, those that others kept busy, in the mean.
    used: float
    # Of these, those that the training would have used itself.
    taken: float
    # The largest first. Empty where none could be named: too short-lived, or outside of this container.
    programs: tuple[OtherProgram, ...] = ()
    busy: bool = False


def others_on_cores(
    *, cores: float, wanted: float, used: float, taken: float, programs: Sequence[OtherProgram] = ()
) -> OthersOnCores:
    """The only place that says whether a machine is busy. `wanted`: the cores that the training would use."""
    return OthersOnCores(
        cores=cores,
        used=used,
        taken=taken,
        programs=tuple(sorted(programs, key=lambda program: -program.cores)),
        busy=taken >= max(LEAST_BUSY_CORES, BUSY_SHARE * wanted),
    )
