"""Trials that did not complete, the alike ones together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vtune.domain.numbers import trials_text
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Trials that ended alike, with what one of them said last."""

    status: TrialStatus
    detail: str
    trials: tuple[int, ...]
    last_words: tuple[str, ...]


def failures(records: Iterable[TrialRecord]) -> list[Failure]:
    """Alike ones together: twenty trials out of memory are one story."""
    groups: dict[tuple[TrialStatus, str], list[TrialRecord]] = {}
    for record in records:
        if record.status is not TrialStatus.COMPLETED:
            groups.setdefault((record.status, record.detail or "no detail is known"), []).append(record)
    return [
        Failure(
            status=status,
            detail=detail,
            trials=tuple(record.trial for record in group),
            last_words=next((words for record in group if (words := last_words(record))), ()),
        )
        for (status, detail), group in groups.items()
    ]


def failure_line(failure: Failure) -> str:
    return f"{trials_text(failure.trials)}: {failure.detail}"


def count_of_failed(failed: Sequence[TrialRecord]) -> str:
    return f"{len(failed)} {'trial' if len(failed) == 1 else 'trials'} did not complete: {statuses_text(failed)}"


def statuses_text(failed: Sequence[TrialRecord]) -> str:
    counts = Counter(record.status.value.replace("_", " ") for record in failed).most_common()
    return counts[0][0] if len(failed) == 1 else ", ".join(f"{count} {status}" for status, count in counts)


def last_words(record: TrialRecord) -> tuple[str, ...]:
    """Of a training that did not complete. Of data that repeats, which vtune found by itself, it said nothing."""
    found_by_vtune = record.status is TrialStatus.INVALID and record.measurement.repeated is not None
    if record.status is TrialStatus.COMPLETED or found_by_vtune:
        return ()
    words = record.evidence.get("last_words")
    return tuple(map(str, words)) if isinstance(words, list | tuple) else ()
