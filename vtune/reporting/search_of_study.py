"""search.json: how far a search is, as plain data. Written after every trial and read by every report; the trials
themselves stand in the journal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vtune.domain.effects import Scalar
from vtune.domain.experiment import Limits
from vtune.domain.search import Dimension, Guess, Hunt, Importance, Sampler, Space
from vtune.files import write_atomically
from vtune.foreign.read import read_json
from vtune.journal.files import to_json
from vtune.journal.records import prediction_from_json
from vtune.journal.sound import is_sound

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOfStudy:
    """Trials by their numbers."""

    sampler: Sampler
    # What was asked for: trials, the user's own settings among them, and the launches' own seconds.
    trials_asked: int
    budget_s: float | None = None
    stage: str
    stopped: str | None = None
    ended: str | None = None
    counted: int = 0
    given_back: int = 0
    # Launches still to come.
    left: tuple[int, int] = (0, 0)
    baseline: int | None = None
    best: int | None = None
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    trials: tuple[int, ...] = ()
    # Trials of the journal that ran another command, config or code, and count for nothing.
    left_out: tuple[int, ...] = ()
    # The limits that it was searched under, as typed.
    ram_limit: str | None = None
    vram_limit: str | None = None
    dimensions: tuple[Dimension, ...] = ()
    not_turned: tuple[str, ...] = ()
    settings_in_all: int = 0
    over_a_limit: int = 0
    ruled_out_by_failures: int = 0
    remarks: tuple[str, ...] = ()
    next_best: tuple[Guess, ...] = ()
    importance: tuple[Importance, ...] = ()


def search_of(
    hunt: Hunt,
    space: Space,
    *,
    trials: int,
    budget_s: float | None = None,
    limits: Limits | None = None,
    left_out: frozenset[int] = frozenset(),
    importance: tuple[Importance, ...] = (),
) -> SearchOfStudy:
    limits = limits or Limits()
    return SearchOfStudy(
        sampler=hunt.sampler,
        trials_asked=trials,
        budget_s=budget_s,
        stage=hunt.stage,
        stopped=hunt.stopped,
        ended=hunt.ended,
        counted=hunt.counted,
        given_back=hunt.given_back,
        left=hunt.left,
        baseline=hunt.baseline.trial if hunt.baseline is not None else None,
        best=hunt.best.trial if hunt.best is not None else None,
        settings=hunt.settings,
        trials=hunt.trials,
        left_out=tuple(sorted(left_out)),
        ram_limit=limits.ram.text if limits.ram is not None else None,
        vram_limit=limits.vram.text if limits.vram is not None else None,
        dimensions=space.dimensions,
        not_turned=space.left_out,
        settings_in_all=hunt.settings_in_all or len(space.settings),
        over_a_limit=hunt.over_a_limit,
        ruled_out_by_failures=hunt.ruled_out_by_failures,
        remarks=hunt.remarks,
        next_best=hunt.next_best,
        importance=importance,
    )


def write_search(path: Path, search: SearchOfStudy) -> None:
    write_atomically(path, json.dumps({"schema": SCHEMA, **search_to_json(search)}, indent=1, allow_nan=False) + "\n")


def read_search(path: Path) -> SearchOfStudy | None:
    """None where there is none, or a newer vtune wrote it."""
    try:
        item = to_json(read_json(path))
        if item["schema"] != SCHEMA:
            return None
        found = _search(item)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return found if is_sound(found, SearchOfStudy) else None


def search_to_json(search: SearchOfStudy) -> dict[str, Any]:
    plain: dict[str, Any] = to_json(
        {
            "sampler": search.sampler,
            "asked": {"trials": search.trials_asked, "budget_s": search.budget_s},
            "stage": search.stage,
            "stopped": search.stopped,
            "ended": search.ended,
            "counted": search.counted,
            "given_back": search.given_back,
            "left": {"least": search.left[0], "most": search.left[1]},
            "baseline": search.baseline,
            "best": search.best,
            "settings": search.settings,
            "trials": search.trials,
            "left_out": search.left_out,
            "limits": {"ram": search.ram_limit, "vram": search.vram_limit},
            "space": {
                "knobs": search.dimensions,
                "not_turned": search.not_turned,
                "settings": search.settings_in_all,
                "over_a_limit": search.over_a_limit,
                "ruled_out_by_failures": search.ruled_out_by_failures,
            },
            "remarks": search.remarks,
            "next_best": search.next_best,
            "importance": search.importance,
        }
    )
    return plain


def _search(item: Mapping[str, Any]) -> SearchOfStudy:
    asked, space, limits, left = item["asked"], item["space"], item["limits"], item["left"]
    same = ("sampler", "stage", "stopped", "ended", "counted", "given_back", "baseline", "best", "settings")
    return SearchOfStudy(
        **{name: item[name] for name in same},
        trials_asked=asked["trials"],
        budget_s=asked["budget_s"],
        left=(left["least"], left["most"]),
        trials=tuple(item["trials"]),
        left_out=tuple(item["left_out"]),
        ram_limit=limits["ram"],
        vram_limit=limits["vram"],
        dimensions=tuple(Dimension(**{**one, "choices": tuple(one["choices"])}) for one in space["knobs"]),
        not_turned=tuple(space["not_turned"]),
        settings_in_all=space["settings"],
        over_a_limit=space["over_a_limit"],
        ruled_out_by_failures=space["ruled_out_by_failures"],
        remarks=tuple(item["remarks"]),
        next_best=tuple(
            Guess(**{**one, "predicted": prediction_from_json(one["predicted"])}) for one in item["next_best"]
        ),
        importance=tuple(Importance(**one) for one in item["importance"]),
    )
