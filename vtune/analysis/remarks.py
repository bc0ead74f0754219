"""What the reader must know of a comparison as a whole: neighbours, caches, launches that disagree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from vtune.analysis.comparable import Settings, lost_of
from vtune.analysis.compare import RUN_TO_RUN_SD, Z95
from vtune.domain.choice import RankedBy
from vtune.domain.numbers import rate, trials_text
from vtune.domain.record import TrialRecord

# Widening that is worth a word.
WORTH_SAYING = 1.05


def disturbed(measured: Sequence[TrialRecord], lost: Mapping[int, float], cores: float | None) -> list[str]:
    """Where it is more than launches on a quiet machine differ by. `lost` as logarithms."""
    trials = [record for record in measured if lost[record.trial] > Z95 * RUN_TO_RUN_SD]
    if not trials:
        return []
    return [
        f"{kept_busy(trials, cores)} during {trials_text([record.trial for record in trials])}: without them a rate may"
        f" be up to {higher(max(lost.values()))}, and what is compared with it is judged by that"
    ]


def disturbed_side(launches: Sequence[TrialRecord], cores: float | None) -> str | None:
    """Of one side of a comparison; None where it was quiet enough."""
    lost = {record.trial: lost_of(record, cores) for record in launches}
    trials = [record for record in launches if lost[record.trial] > Z95 * RUN_TO_RUN_SD]
    if not trials:
        return None
    beside = f"{kept_busy(trials, cores)} beside {trials_text([record.trial for record in trials])}"
    one = "it" if len(trials) == 1 else "each"
    return f"{beside}: {one} may have been up to {math.exp(max(lost.values())):.3g}× as fast without them"


def kept_busy(trials: Sequence[TrialRecord], cores: float | None) -> str:
    most = max(record.measurement.others_cores or 0.0 for record in trials)
    up_to = "up to " if len(trials) > 1 else ""
    return f"other programs kept {up_to}{most:.1f}{f' of {cores:g}' if cores else ''} cores busy"


def higher(lost: float) -> str:
    """Of a logarithm; by half and more it is told as a factor."""
    return f"{math.exp(lost):.1f}× as high" if lost > math.log(1.5) else f"{math.expm1(lost):.0%} higher"


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
    if len(measured) > 1 and ranked_by == "samples_per_s_epoch":
        lines.append(
            "ranked by the rate of an epoch with its restart: how many epochs the run has was not found"
            " (vtune.run.epochs says it)"
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
