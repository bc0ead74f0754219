"""What the reader must know of a comparison as a whole: neighbours, caches, launches that disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vtune.analysis.comparable import Settings
from vtune.analysis.compare import RUN_TO_RUN_SD, Z95, lost_to_others
from vtune.domain.choice import RankedBy
from vtune.domain.numbers import rate, trials_text
from vtune.domain.record import TrialRecord

# Widening that is worth a word.
WORTH_SAYING = 1.05


def disturbed(measured: Sequence[TrialRecord], shares: Mapping[int, float], cores: float | None) -> list[str]:
    """Where it is more than launches on a quiet machine differ by."""
    trials = [record for record in measured if lost_to_others(shares[record.trial]) > Z95 * RUN_TO_RUN_SD]
    if not trials:
        return []
    most = max(record.measurement.others_cores or 0.0 for record in trials)
    loss = max(lost_to_others(shares[record.trial]) for record in trials)
    kept = f"{'up to ' if len(trials) > 1 else ''}{most:.1f}{f' of {cores:g}' if cores else ''} cores"
    return [
        f"other programs kept {kept} busy during {trials_text([record.trial for record in trials])}:"
        f" without them a rate may be up to {loss:.0%} higher, and what is compared with it is judged by that"
    ]


def remarks_on(
    measured: Sequence[TrialRecord],
    ranked_by: RankedBy,
    spread: float,
    groups: Mapping[tuple[Settings, str], Sequence[TrialRecord]],
    feasible: Sequence[TrialRecord],
) -> list[str]:
    lines = []
    lacking = [record.trial for record in measured if (record.measurement.samples_per_s_whole_run or 0) <= 0]
    if len(measured) > 1 and ranked_by == "samples_per_s":
        lines.append(
            "ranked by the steady rate, without start-up and epoch restarts: the rate of a whole run is not known for "
            + trials_text(lacking)
        )
    if spread > WORTH_SAYING:
        again = max(groups.values(), key=_range)
        slowest, fastest = (pick(again, key=_steady) for pick in (min, max))
        lines.append(
            f"the same settings measured again spread more than their intervals say ({rate(_steady(slowest))} samples/s"
            f" in trial {slowest.trial}, {rate(_steady(fastest))} in trial {fastest.trial}): something else changed"
            f" between them, and all intervals of ratios are widened by {spread:.{0 if spread >= 10 else 1}f}×"
        )
    regimes = {record.measurement.cache for record in feasible} - {"unknown"}
    if len(regimes) > 1:
        lines.append(
            f"some trials read their data {' and some '.join(sorted(regimes))}: only like is compared with like"
        )
    return lines


def _steady(record: TrialRecord) -> float:
    return record.measurement.samples_per_s or 0.0


def _range(group: Sequence[TrialRecord]) -> float:
    return max(map(_steady, group)) / min(map(_steady, group))
