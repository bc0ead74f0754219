"""What each loader worker's first batches were made from, as its hooks told it (docs/decisions/0019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vtune.analysis.roles import Roles
from vtune.domain.events import Fact

START = -1
Key = int | str


class State(NamedTuple):
    """Of a random generator: checksums of all of it, and of the part that drawing leaves as it is."""

    whole: int
    stream: int | None
    # How far along its sequence.
    place: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReads:
    """Checksums of the first samples of one batch, and of what they were drawn from."""

    # None where nothing in the sample could be summed.
    contents: tuple[int | None, ...] = ()
    # Of the parts that augmentation leaves as they are.
    kept: tuple[int | None, ...] = ()
    # Indices that the sampler asked for; empty for an iterable data set.
    keys: tuple[Key, ...] = ()
    # Plain values of an iterable data set's generators, by name.
    cursor: Mapping[str, int]
    # Of each generator, once the batch was made.
    states: Mapping[str, State]
    # What is left in the containers of the data set.
    takes: Mapping[str, int]
    # Whole numbers that the data set holds and that are others than before its first batch.
    numbers: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReads:
    pid: int
    worker: int
    pass_number: int
    start: BatchReads
    batches: tuple[BatchReads, ...]
    # Generator -> the line that makes it.
    places: Mapping[str, str]
    # Where the data set's own code that returns a sample begins, and the worker_init_fn.
    reads_at: str | None
    prepared_at: str | None
    says_it_splits: bool
    # Of a data set that never reads its index: the counters that choose its next record, each with a checksum of what
    # it walks along.
    walks: Mapping[str, int]
    # Beside other ranks: the length of a data set by index, and a checksum of its attributes.
    items: int | None = None
    attributes: int | None = None


def reads_of(roles: Roles, facts: Sequence[Fact]) -> tuple[WorkerReads, ...]:
    """Of the training loader's workers, in the order of their passes and numbers."""
    passes: dict[int, int] = {}
    for walk in roles.passes:
        for pid in walk.worker_pids:
            passes.setdefault(pid, walk.number)
    told: dict[int, list[Fact]] = {}
    for fact in facts:
        if fact.name == "reads" and fact.pid in passes:
            told.setdefault(fact.pid, []).append(fact)
    found = [one for pid, own in told.items() if (one := _worker(pid, passes[pid], own)) is not None]
    return tuple(sorted(found, key=lambda one: (one.pass_number, one.worker)))


def reads_of_ranks(roles: Roles, facts: Sequence[Fact]) -> tuple[tuple[WorkerReads, ...], ...]:
    """Of each rank's training loader in its first pass, the leading rank's first: by its workers, or by itself."""
    key = roles.train.key if roles.train is not None else None
    told: dict[int, list[Fact]] = {}
    for fact in facts:
        if fact.name == "reads":
            told.setdefault(fact.pid, []).append(fact)
    loaders = {
        (fact.pid, fact.data.get("loader")) for fact in facts if fact.name == "loader" and fact.data.get("key") == key
    }
    found = []
    for rank in sorted(roles.ranks, key=lambda pid: pid != roles.pid):
        passes = (one for one in facts if one.name == "pass" and (one.pid, one.data.get("loader")) in loaders)
        first = next((one for one in passes if one.pid == rank), None)
        if first is None:
            continue
        pids = [pid for pid in _list(first.data.get("worker_pids")) if isinstance(pid, int)]
        number = first.data.get("pass")
        own = [told.get(pid, []) for pid in pids]
        own = own or [[fact for fact in told.get(rank, []) if fact.data.get("pass") == number]]
        workers = [_worker(facts_of[0].pid, _number(number), facts_of) for facts_of in own if facts_of]
        found.append(tuple(sorted((one for one in workers if one is not None), key=lambda one: one.worker)))
    return tuple(found)


def main_reads(roles: Roles, facts: Sequence[Fact]) -> tuple[BatchReads, ...]:
    """Of a main process that loads by itself."""
    passes = {one.number for one in roles.passes}
    return tuple(
        _batch(fact.data)
        for fact in facts
        if fact.name == "reads" and fact.pid == roles.pid and fact.data.get("pass") in passes
    )


def _worker(pid: int, pass_number: int, facts: Sequence[Fact]) -> WorkerReads | None:
    ordered = sorted(facts, key=lambda fact: _number(fact.data.get("order")))
    first = ordered[0].data
    if _number(first.get("order")) != START:
        return None
    places = {name: str(line) for fact in ordered for name, line in _items(fact.data.get("places"))}
    return WorkerReads(
        pid=pid,
        worker=_number(first.get("worker")),
        pass_number=pass_number,
        start=_batch(first),
        batches=tuple(_batch(fact.data) for fact in ordered[1:]),
        places=places,
        reads_at=_text(first.get("reads_at")),
        prepared_at=_text(first.get("prepared_at")),
        says_it_splits=bool(first.get("says_it_splits")),
        items=first["items"] if isinstance(first.get("items"), int) else None,
        attributes=first["attributes"] if isinstance(first.get("attributes"), int) else None,
        walks={name: value for fact in ordered for name, value in _whole(fact.data.get("walks")).items()},
    )


def _batch(data: Mapping[str, object]) -> BatchReads:
    return BatchReads(
        contents=_numbers(data.get("contents")),
        kept=_numbers(data.get("kept")),
        keys=tuple(key for key in _list(data.get("keys")) if isinstance(key, (int, str))),
        cursor=_whole(data.get("cursor")),
        states={
            name: State(value[0], *(one if isinstance(one, int) else None for one in value[1:]))
            for name, value in _items(data.get("states"))
            if isinstance(value, list) and len(value) in (2, 3) and isinstance(value[0], int)
        },
        takes=_whole(data.get("takes")),
        numbers=_whole(data.get("numbers")),
    )


def _whole(value: object) -> dict[str, int]:
    return {name: one for name, one in _items(value) if isinstance(one, int)}


def _numbers(value: object) -> tuple[int | None, ...]:
    return tuple(one if isinstance(one, int) else None for one in _list(value))


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _items(value: object) -> list[tuple[str, object]]:
    return [(str(name), one) for name, one in value.items()] if isinstance(value, Mapping) else []


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
