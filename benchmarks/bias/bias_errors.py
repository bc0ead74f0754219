"""How far a probe's rate is from the long runs beside it, and the mean of that over trainings."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import t


@dataclass(frozen=True)
class Launch:
    samples_per_s: float
    # A long run's rate is true; a probe's is to be judged, with its 95 % interval if there is one.
    is_probe: bool = False
    ci95: tuple[float, float] | None = None


@dataclass(frozen=True)
class CellError:
    mean: float
    by_probe: tuple[float, ...]
    # A standard error by the differences between launches of a kind; None where there is one of a kind only.
    spread: float | None
    # Probes whose interval holds the rate of the long runs beside them.
    covered: int


@dataclass(frozen=True)
class MeanError:
    mean: float
    # 95 %, by Student's t over the trainings; None of one training.
    low: float | None
    high: float | None
    cells: int


def turns(pairs: int) -> list[bool]:
    """Whether each launch is a probe: a long run and a probe, and then the other way round, and so on."""
    return [is_probe for number in range(pairs) for is_probe in ((False, True), (True, False))[number % 2]]


def rate_beside(launches: Sequence[Launch], place: int) -> float:
    """The mean of the nearest long runs before and after this launch, or of the one that there is."""
    before = next((launch for launch in reversed(launches[:place]) if not launch.is_probe), None)
    after = next((launch for launch in launches[place + 1 :] if not launch.is_probe), None)
    return statistics.fmean(launch.samples_per_s for launch in (before, after) if launch is not None)


def error_of(launches: Sequence[Launch]) -> CellError:
    errors, covered = [], 0
    for place, launch in enumerate(launches):
        if launch.is_probe:
            true = rate_beside(launches, place)
            errors.append(launch.samples_per_s / true - 1)
            covered += launch.ci95 is not None and launch.ci95[0] <= true <= launch.ci95[1]
    return CellError(statistics.fmean(errors), tuple(errors), _spread(launches), covered)


def _spread(launches: Sequence[Launch]) -> float | None:
    kinds = [
        [math.log(launch.samples_per_s) for launch in launches if launch.is_probe is kind] for kind in (False, True)
    ]
    if min(map(len, kinds)) < 2:
        return None
    return math.sqrt(sum(statistics.variance(logs) / len(logs) for logs in kinds))


def mean_error(errors: Sequence[float]) -> MeanError:
    mean, count = statistics.fmean(errors), len(errors)
    if count < 2:
        return MeanError(mean, None, None, count)
    half = float(t.ppf(0.975, count - 1)) * statistics.stdev(errors) / math.sqrt(count)
    return MeanError(mean, mean - half, mean + half, count)
