"""Renewals of promises: each is an event of its launch, and is read from there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vtune.domain.renewal import OtherPace, RarePause, Renewal, RenewedBecause
from vtune.domain.steady import CacheFills, FromStorage, PartOfEpoch, Trend
from vtune.foreign.bounds import BadText
from vtune.foreign.read import read_bytes
from vtune.journal.files import complete_lines, to_json
from vtune.journal.paths import LaunchPaths, StudyPaths
from vtune.journal.records import doubt_from_json
from vtune.journal.sound import is_sound

EVENT = "renewed"


def renewal_to_json(renewal: Renewal) -> dict[str, Any]:
    because = {"kind": type(renewal.because).__name__, **to_json(renewal.because)}
    return {**to_json(renewal), "because": because}


def read_renewals(study: StudyPaths) -> tuple[Renewal, ...]:
    """The renewals of all launches of a study, the earliest first."""
    return tuple(renewal for number in study.launch_numbers() for renewal in renewals_of(study.launch(number)))


def renewals_of(launch: LaunchPaths) -> tuple[Renewal, ...]:
    """The renewals of one launch, also of one that was killed or still runs."""
    try:
        lines = complete_lines(read_bytes(launch.events))
    except (OSError, BadText):
        return ()
    told = (line.get("data") for line in lines if line.get("kind") == EVENT)
    found = (_renewal(item.get("renewal")) for item in told if isinstance(item, Mapping))
    return tuple(one for one in found if one is not None)


def _renewal(item: object) -> Renewal | None:
    """None where only a newer vtune understands it."""
    if not isinstance(item, Mapping) or not isinstance(item.get("because"), Mapping):
        return None
    try:
        because = _because(item["because"])
        if because is None:
            return None
        interval = item.get("steady_samples_per_s_ci95")
        renewal = Renewal(
            trial=item["trial"],
            after_steps=item["after_steps"],
            because=because,
            samples_per_s_before=item["samples_per_s_before"],
            samples_per_s=item["samples_per_s"],
            steady_samples_per_s=item.get("steady_samples_per_s"),
            steady_samples_per_s_ci95=(interval[0], interval[1]) if interval else None,
            launch=item["launch"],
            settings=item["settings"],
        )
    except (KeyError, TypeError, IndexError):
        return None
    pause = (because.seconds, because.every_steps) if isinstance(because, RarePause) else ()
    divisors = (renewal.samples_per_s_before, renewal.samples_per_s, renewal.steady_samples_per_s, *pause)
    return renewal if is_sound(renewal, Renewal) and all(one is None or one > 0 for one in divisors) else None


def _because(item: Mapping[str, Any]) -> RenewedBecause | None:
    for kind in (RarePause, OtherPace):
        if item.get("kind") == kind.__name__:
            return kind(**{name: value for name, value in item.items() if name != "kind"})
    doubt = doubt_from_json(item)
    return doubt if isinstance(doubt, Trend | FromStorage | PartOfEpoch | CacheFills) else None
