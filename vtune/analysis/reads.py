"""What each loader worker's first batches were made from, as its hooks told it (docs/decisions/0019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vtune.analysis.roles import Roles
from vtune.domain.events import Fact

START = -1
Key = int | str


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
    # Once the batch was made: of each generator its state, and the part that drawing leaves as it is.
    states: Mapping[str, tuple[int, int | None]]
    # What is left in the containers of the data set.
    takes: Mapping[str, int]


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
    )


def _batch(data: Mapping[str, object]) -> BatchReads:
    return BatchReads(
        contents=_numbers(data.get("contents")),
        kept=_numbers(data.get("kept")),
        keys=tuple(key for key in _list(data.get("keys")) if isinstance(key, (int, str))),
        cursor={name: value for name, value in _items(data.get("cursor")) if isinstance(value, int)},
        states={
            name: (int(value[0]), value[1] if isinstance(value[1], int) else None)
            for name, value in _items(data.get("states"))
            if isinstance(value, list) and len(value) == 2 and isinstance(value[0], int)
        },
        takes={name: value for name, value in _items(data.get("takes")) if isinstance(value, int)},
    )


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
