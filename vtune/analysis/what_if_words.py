"""The replay's counterfactuals and the tail, in sentences for the report."""

from __future__ import annotations

from vtune.domain.numbers import rate
from vtune.domain.record import Bottleneck, Change, Measurement

WORDS: dict[Change, str] = {
    "data_free": "data for free",
    "compute_free": "compute for free",
    "storage_free": "storage for free",
    "twice_the_workers": "twice the workers",
    "twice_the_prefetch": "twice the prefetch",
    "order_not_kept": "batches in any order",
}


def what_if_lines(measured: Measurement) -> list[str]:
    # Workers that make the same data are no gain.
    no_gain = "twice_the_workers" if measured.repeated is not None else None
    changes = [one for one in measured.what_if if one.change != no_gain]
    if not changes:
        return []
    parts = ", ".join(f"{WORDS[one.change]} {rate(one.samples_per_s)}" for one in changes)
    return [f"replayed with one thing changed, in samples/s: {parts}"]


def tail_lines(measured: Measurement, bottleneck: Bottleneck) -> list[str]:
    tail = measured.tail
    if tail is None or bottleneck not in ("data", "storage", "balanced"):
        return []
    if tail.slow:
        return [f"{tail.slow} of {tail.batches} batches took more than four times as long as usual: all wait for them"]
    if tail.share_at_most is None or tail.samples_per_s_at_worst is None:
        return []
    return [
        f"none of {tail.batches} batches was slow, but up to {tail.share_at_most:.1%} may be (95 %): if they took ten"
        f" times as long, {rate(tail.samples_per_s_at_worst)} samples/s would be left"
    ]
