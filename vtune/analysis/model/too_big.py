"""What ran out of memory once: nothing that asks for more of it is called feasible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vtune.analysis.comparable import has_rate
from vtune.analysis.model.memory import Bytes, ram_needed, vram_needed
from vtune.analysis.model.rungs import SeenRung
from vtune.analysis.model.setup import Setup
from vtune.domain.experiment import Limit
from vtune.domain.numbers import bytes_
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus

MEMORY_OF = {
    TrialStatus.OUT_OF_VRAM: "VRAM",
    TrialStatus.OUT_OF_RAM: "RAM",
    TrialStatus.OUT_OF_SHM: "/dev/shm",
    # Before its start: full queues would have found no room.
    TrialStatus.REFUSED: "/dev/shm",
}
# A trial that a limit ended was going to take more than it was seen to hold.
BEYOND_WHAT_WAS_SEEN = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class TooBig:
    # In words, with the numbers.
    why: str
    # A trial that asked for no more has run out; else it is predicted.
    by_failure: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    memory: str
    setup: Setup
    # What ran out of it, in words.
    what: str
    # Where a limit of the user's ended it: nothing is known of what lies beyond.
    up_to_bytes: float | None = None

    def rules_out(self, setup: Setup, allowed_bytes: Mapping[str, int | None]) -> str | None:
        """`allowed_bytes`: by memory, the limit of today; None where there is none."""
        if not asks_as_much(self.memory, setup, self.setup):
            return None
        allowed = allowed_bytes.get(self.memory)
        if self.up_to_bytes is not None and (allowed is None or allowed > self.up_to_bytes):
            return None
        return f"{self.what} ran out of {self.memory}, and this asks for no less of it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """What completed trials of one setup held at the least, by memory; and the trial that did."""

    setup: Setup
    needs: Mapping[str, tuple[int, int]]

    def over(self, memory: str, allowed: int) -> bool:
        return memory in self.needs and self.needs[memory][0] > allowed


def took_by(known: Sequence[tuple[TrialRecord, Setup]]) -> list[Took]:
    least: dict[Setup, dict[str, tuple[int, int]]] = {}
    for record, setup in known:
        if not has_rate(record) or record.beaten is not None:
            continue
        for memory, needed in (("RAM", ram_needed(record.measurement)), ("VRAM", vram_needed(record.measurement))):
            if needed is not None:
                found = least.setdefault(setup, {})
                found[memory] = min(found.get(memory, (needed, record.trial)), (needed, record.trial))
    return [Took(setup=setup, needs=needs) for setup, needs in least.items()]


def measured_over(taken: Sequence[Took], memory: str, allowed: int | None) -> list[Took]:
    """Those that passed the limit of today, the ones that asked for least; none that a trial contradicts which asked
    for as much and kept within it."""
    if allowed is None:
        return []
    over_it = {one.setup: one for one in taken if one.over(memory, allowed)}
    kept = (one.setup for one in taken if memory in one.needs and one.setup not in over_it)
    within = _extremes(memory, kept, most=True)
    surely = [one for one in over_it if not any(asks_as_much(memory, other, one) for other in within)]
    return [over_it[one] for one in _extremes(memory, surely, most=False)]


def shortages_of(known: Sequence[tuple[TrialRecord, Setup]], rungs: Sequence[SeenRung]) -> list[Shortage]:
    """Those that no completed trial contradicts by having taken more."""
    # What was ended early has not shown what it takes in the end.
    completed = {setup for record, setup in known if has_rate(record) and record.beaten is None}
    found = [
        Shortage(memory=memory, setup=setup, what=f"trial {record.trial}", up_to_bytes=_up_to(record, memory))
        for record, setup in known
        if (memory := MEMORY_OF.get(record.status)) is not None
    ]
    for one in rungs:
        # It says that it did not fit, and not into what: on a device it is the device's memory.
        if not one.rung.fits and any(other.rung.vram_peak_bytes for other in rungs):
            what = f"batch {one.rung.batch_size} of trial {one.trial}"
            found.append(Shortage(memory="VRAM", setup=one.setup, what=what))
    most = {memory: _extremes(memory, completed, most=True) for memory in {one.memory for one in found}}
    return _telling([s for s in found if not any(_asks_more(s.memory, setup, s.setup) for setup in most[s.memory])])


def _telling(found: Sequence[Shortage]) -> list[Shortage]:
    """Of those under the same limits, the ones that asked for least: they rule out all that the others do."""
    kinds = dict.fromkeys((one.memory, one.up_to_bytes) for one in found)
    least = {
        kind: _extremes(kind[0], {s.setup for s in found if (s.memory, s.up_to_bytes) == kind}, most=False)
        for kind in kinds
    }
    # Of several alike the first one is named.
    firsts: dict[tuple[str, float | None, Setup], Shortage] = {}
    for one in found:
        if one.setup in least[one.memory, one.up_to_bytes]:
            firsts.setdefault((one.memory, one.up_to_bytes, one.setup), one)
    return list(firsts.values())


def _extremes(memory: str, setups: Iterable[Setup], *, most: bool) -> set[Setup]:
    """Those beyond which no other goes: thousands of trials come to a few dozen."""
    sign = -1 if most else 1
    kept: list[Setup] = []
    # What asks for less comes first, or for more, so that little has to be compared and nothing taken back.
    for one in sorted(setups, key=lambda s: (sign * s.batch * (s.workers + 1) * (s.prefetch + 1), repr(s))):
        if not any(asks_as_much(memory, *((other, one) if most else (one, other))) for other in kept):
            kept = [other for other in kept if not asks_as_much(memory, *((one, other) if most else (other, one)))]
            kept.append(one)
    return set(kept)


def _up_to(record: TrialRecord, memory: str) -> float | None:
    measured = record.measurement
    if memory == "RAM":
        guard = record.evidence.get("ram_guard") or {}
        limit = guard.get("limit_bytes")
        by_user = record.evidence.get("ended_by") == "limit" and not guard.get("is_default")
        return float(limit) if by_user and isinstance(limit, int) else None
    guard = record.evidence.get("vram_guard") or {}
    if memory == "VRAM" and isinstance(limit := guard.get("limit_bytes"), int):
        return float(limit)
    by_limit = record.evidence.get("ended_by") == "limit" or "the VRAM limit" in (record.detail or "")
    peak = vram_needed(measured)
    return BEYOND_WHAT_WAS_SEEN * peak if memory == "VRAM" and by_limit and peak else None


def asks_as_much(memory: str, one: Setup, than: Setup) -> bool:
    if one.regime != than.regime:
        return False
    if memory == "VRAM":
        return one.batch >= than.batch
    if memory == "/dev/shm":
        return bool(one.workers) and _in_flight(one) >= _in_flight(than)
    return (
        one.batch >= than.batch
        and one.workers >= than.workers
        and (one.prefetch >= than.prefetch or not than.workers)
        and one.persistent >= than.persistent
    )


def _asks_more(memory: str, one: Setup, than: Setup) -> bool:
    return asks_as_much(memory, one, than) and not asks_as_much(memory, than, one)


def _in_flight(setup: Setup) -> int:
    return (setup.workers * setup.prefetch + 2) * setup.batch


def over(
    memory: str, needs: Bytes | None, limit: Limit | None, total: int | None, *, surely: bool = True
) -> str | None:
    """By the least that it takes, or by what is likely."""
    if needs is None:
        return None
    least = needs.low if surely else needs.middle
    allowed = limit.resolve(total) if limit is not None else None
    if allowed is not None and least > allowed:
        return f"predicted to need at least {bytes_(least)} of {memory}, the limit is {bytes_(allowed)}"
    if total is not None and least > total:
        return f"predicted to need at least {bytes_(least)} of {memory}, there are {bytes_(total)}"
    return None
