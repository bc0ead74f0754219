"""Which loaders feed the steps: one, several in each step, or several in turns. The others validate."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from vtune.domain.events import BatchDelivered, Fact, OptimizerStepped

# Below this even the best loader feeds something else than the steps. Several optimizers, or a loader that runs ahead,
# leave the right one at about a half; validation loaders reach a third.
LEAST_SHARE = 0.2
# Another loader that delivers, with gradients on, in this share of the steps is no validation.
FEEDS_TOO = 0.4
# Loaders in turns together deliver in this share of the steps, and each of them mostly alone.
MOSTLY = 0.9
# Deliveries this far apart, in times of the usual distance, are no steady feed; and so few show none.
STEADILY = 2.0
LEAST_DELIVERIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader:
    """All loaders of one key in the training process: one made anew each epoch is still the same loader."""

    key: str
    numbers: frozenset[int]
    where: str
    dataset: str
    # Share of the windows between steps in which it delivered.
    share: float
    # What the script itself asked for, before anything was turned.
    asked_batch_size: int | None = None
    # Numbers of the windows in which it delivered with gradients on.
    learns_in: frozenset[int] = field(default=frozenset(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feeding:
    # Those that feed the steps, the one that settings turn first.
    loaders: tuple[Loader, ...]
    others: tuple[Loader, ...]


def find_feeding(
    steps: Sequence[OptimizerStepped], batches: Sequence[BatchDelivered], facts: Sequence[Fact]
) -> Feeding:
    loaders = _loaders(steps, batches, facts)
    learning = [loader for loader in loaders if loader.learns_in]
    feeding = _in_turns(learning, len(steps)) or _in_each(loaders, len(steps))
    most = max((loader.share for loader in feeding), default=0.0)
    # Of equals the first that was iterated: a step more or less must not turn another one.
    feeding.sort(key=lambda loader: (loader.share < MOSTLY * most, min(loader.numbers)))
    return Feeding(loaders=tuple(feeding), others=tuple(loader for loader in loaders if loader not in feeding))


def _in_each(loaders: Sequence[Loader], steps: int) -> list[Loader]:
    best = max(loaders, key=lambda loader: loader.share, default=None)
    if best is None or best.share < LEAST_SHARE:
        only = [loader for loader in loaders if loader.learns_in]
        return only if len(only) == 1 and _delivers_steadily(only[0], steps) else []
    alike = [one for one in loaders if one is not best and one.share >= FEEDS_TOO and one.learns_in]
    return [best, *alike]


def _delivers_steadily(loader: Loader, steps: int) -> bool:
    """Many steps of one batch, and the next batch as many steps later: to the last step that was seen."""
    windows = sorted(loader.learns_in)
    apart = [after - before for before, after in pairwise([*windows, max(steps, windows[-1] + 1)])]
    return len(windows) >= LEAST_DELIVERIES and max(apart) <= STEADILY * median(apart)


def _in_turns(learning: Sequence[Loader], steps: int) -> list[Loader]:
    """Tasks that each have a loader: a step has to be fed by something, and each of them mostly comes alone."""
    by_window: dict[int, int] = defaultdict(int)
    for loader in learning:
        for window in loader.learns_in:
            by_window[window] += 1
    alone = [
        loader
        for loader in learning
        if sum(by_window[window] == 1 for window in loader.learns_in) >= MOSTLY * len(loader.learns_in)
    ]
    fed = {window for loader in alone for window in loader.learns_in}
    return alone if len(alone) > 1 and len(fed) >= MOSTLY * steps else []


def _loaders(
    steps: Sequence[OptimizerStepped], batches: Sequence[BatchDelivered], facts: Sequence[Fact]
) -> list[Loader]:
    """The one that delivers in most windows first."""
    known: dict[int, Mapping[str, object]] = {
        int(fact.data["loader"]): fact.data for fact in facts if fact.name == "loader" and "loader" in fact.data
    }
    ends = [step.ended_s for step in steps]
    windows: dict[str, set[int]] = defaultdict(set)
    learns_in: dict[str, set[int]] = defaultdict(set)
    numbers: dict[str, set[int]] = defaultdict(set)
    for batch in batches:
        key = str(known.get(batch.loader, {}).get("key", f"loader {batch.loader}"))
        numbers[key].add(batch.loader)
        window = bisect_right(ends, batch.returned_s)
        # After the last step nothing is known yet: the batch may belong to a step that has not ended.
        if window < len(ends):
            windows[key].add(window)
            if batch.grad:
                learns_in[key].add(window)
    found = []
    for key, own in numbers.items():
        fact = known.get(min(own), {})
        found.append(
            Loader(
                key=key,
                numbers=frozenset(own),
                where=str(fact.get("where", "")),
                dataset=str(fact.get("dataset", "")),
                share=len(windows[key]) / len(ends),
                asked_batch_size=_asked_batch_size(fact),
                learns_in=frozenset(learns_in[key]),
            )
        )
    return sorted(found, key=lambda loader: -loader.share)


def _asked_batch_size(fact: Mapping[str, object]) -> int | None:
    if fact.get("own_batch_sampler"):
        # torch's own default, which the loader does not use then.
        return None
    asked = fact.get("asked")
    size = asked.get("batch_size") if isinstance(asked, Mapping) else None
    return size if isinstance(size, int) else None
