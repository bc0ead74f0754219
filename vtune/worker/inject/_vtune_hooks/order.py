"""In which order a loader's samples come: by its sampler where that is a known one, else by the indices it gives.

Indices that jump about show no random order: those of a sampler that sorts by cost do as well. Nothing is drawn and
nothing is asked of a sampler of the training's own.
"""

from __future__ import annotations

from typing import Any

SHUFFLED, FILE_ORDER, UNKNOWN = "shuffled", "file_order", "unknown"
# So many indices tell an order: sorted ones would come by chance once in 10¹³.
ENOUGH = 16
_BY_SAMPLER = {
    "RandomSampler": SHUFFLED,
    "SubsetRandomSampler": SHUFFLED,
    "WeightedRandomSampler": SHUFFLED,
    # Of Accelerate.
    "SeedableRandomSampler": SHUFFLED,
    "SequentialSampler": FILE_ORDER,
}


class Order:
    """Of one pass."""

    def __init__(self, iterator: Any) -> None:
        sampler = getattr(iterator, "_index_sampler", None)
        # A batch sampler of the training's own may sort what its inner sampler gives.
        self.told = _by_class(_within(sampler))
        self._seen: list[int] = []

    def look(self, index: Any) -> str | None:
        """At what the sampler gave for one batch; the order, once it is known by that."""
        if self.told is not None:
            return None
        for one in index if type(index) in (list, tuple) else (index,):
            if type(one) is not int:
                self.told = UNKNOWN
                return None
            self._seen.append(one)
        if len(self._seen) < ENOUGH:
            return None
        self.told = FILE_ORDER if self._seen == sorted(self._seen) else UNKNOWN
        self._seen.clear()
        return self.told


def _within(sampler: Any) -> Any:
    kind = type(sampler)
    return getattr(sampler, "sampler", None) if kind.__name__ == "BatchSampler" and _is_known(kind) else sampler


def _is_known(kind: type) -> bool:
    return kind.__module__.startswith(("torch.utils.data.", "torchdata.", "accelerate."))


def _by_class(sampler: Any) -> str | None:
    """None where only the indices can tell."""
    kind = type(sampler)
    if not _is_known(kind):
        return None
    if kind.__name__ == "DistributedSampler":
        return SHUFFLED if getattr(sampler, "shuffle", False) else FILE_ORDER
    if kind.__name__ == "_InfiniteConstantSampler":
        # The data set decides by itself.
        return UNKNOWN
    return _BY_SAMPLER.get(kind.__name__)
