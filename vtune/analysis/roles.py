"""Which process trains, which optimizer counts the steps, which loader feeds them: by co-occurrence."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vtune.domain.events import BatchDelivered, Fact, OptimizerStepped

# Relative to the best loader: several optimizers or a loader that runs ahead halve the share of the right one too.
SHARE_OF_THE_BEST = 0.75
# Below this even the best loader feeds something else than the steps.
LEAST_SHARE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader:
    """All loaders of one key in the training process: one made anew each epoch is still the same loader."""

    key: str
    numbers: frozenset[int]
    where: str
    dataset: str
    # Share of the windows between steps in which it delivered.
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    pid: int
    # The primary optimizer's steps in the leading process, in order.
    steps: tuple[OptimizerStepped, ...]
    optimizer: int
    train: Loader | None
    # The training loader's batches in the leading process, in order of delivery.
    batches: tuple[BatchDelivered, ...]
    others: tuple[Loader, ...]
    # Processes that step the same training: one, or the ranks of a distributed run.
    ranks: tuple[int, ...]


def find_roles(
    steps: Sequence[OptimizerStepped], delivered: Sequence[BatchDelivered], facts: Sequence[Fact]
) -> Roles | None:
    """None before the first optimizer step."""
    by_process: dict[tuple[int, int], list[OptimizerStepped]] = defaultdict(list)
    for step in steps:
        by_process[step.pid, step.optimizer].append(step)
    if not by_process:
        return None
    parameters = {
        (fact.pid, fact.data.get("optimizer")): int(fact.data.get("parameters") or 0)
        for fact in facts
        if fact.name == "optimizer"
    }
    primary: dict[int, tuple[int, int, int]] = {}
    for (pid, optimizer), own in by_process.items():
        rank = (len(own), parameters.get((pid, optimizer), 0), -optimizer)
        if pid not in primary or rank > primary[pid]:
            primary[pid] = rank
    most = max(count for count, _, _ in primary.values())
    # A helper process that stepped a little (a warm-up, an evaluation) is not a rank.
    ranks = tuple(sorted(pid for pid, (count, _, _) in primary.items() if count >= max(1, most // 2)))
    declared = {fact.pid: fact.data.get("rank") for fact in facts if fact.name == "hello"}
    pid = min(ranks, key=lambda p: (declared.get(p) if isinstance(declared.get(p), int) else 2**31, p))
    optimizer = -primary[pid][2]
    own_steps = tuple(by_process[pid, optimizer])
    own_batches = [batch for batch in delivered if batch.pid == pid and not batch.nested]
    loaders = _loaders(own_steps, own_batches, [fact for fact in facts if fact.pid == pid])
    best = max(loaders, key=lambda loader: loader.share, default=None)
    train = best if best is not None and best.share >= LEAST_SHARE else None
    return Roles(
        pid=pid,
        steps=own_steps,
        optimizer=optimizer,
        train=train,
        batches=tuple(b for b in own_batches if train is not None and b.loader in train.numbers),
        others=tuple(loader for loader in loaders if loader is not train),
        ranks=ranks,
    )


def _loaders(
    steps: Sequence[OptimizerStepped], batches: Sequence[BatchDelivered], facts: Sequence[Fact]
) -> list[Loader]:
    known: dict[int, Mapping[str, object]] = {
        int(fact.data["loader"]): fact.data for fact in facts if fact.name == "loader" and "loader" in fact.data
    }
    ends = [step.ended_s for step in steps]
    windows: dict[str, set[int]] = defaultdict(set)
    numbers: dict[str, set[int]] = defaultdict(set)
    seen: Counter[str] = Counter()
    for batch in batches:
        key = str(known.get(batch.loader, {}).get("key", f"loader {batch.loader}"))
        numbers[key].add(batch.loader)
        seen[key] += 1
        window = bisect_right(ends, batch.returned_s)
        # After the last step nothing is known yet: the batch may belong to a step that has not ended.
        if window < len(ends):
            windows[key].add(window)
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
            )
        )
    return sorted(found, key=lambda loader: -loader.share)
