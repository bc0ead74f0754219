"""Did what was asked take effect? A setting that was ignored must not look like a gain or a tie."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from vtune.analysis.roles import Roles
from vtune.domain.effects import Scalar

# Of the batches of one size, the last ones of short epochs apart.
MOSTLY = 0.6
LOADER_KNOBS = ("workers", "prefetch_factor", "persistent_workers", "pin_memory", "in_order", "batch_size")


def mismatch(asked: Mapping[str, Scalar], roles: Roles) -> str | None:
    """One sentence with both values and the place, or None."""
    effective = roles.settings
    where = f" (made at {roles.train.where})" if roles.train is not None and roles.train.where else ""
    for name in LOADER_KNOBS:
        if name not in asked:
            continue
        wanted, seen = asked[name], effective.get(name)
        if name == "batch_size" and not isinstance(seen, int):
            # A sampler of the script's own makes the batches: count what came out, but for the epoch's last ones.
            sizes = Counter(batch.samples for batch in roles.batches if batch.samples)
            usual, times = sizes.most_common(1)[0] if sizes else (None, 0)
            if times < MOSTLY * sizes.total():
                # They vary: which size was asked for is not to be seen.
                continue
            seen = usual
        only_with_workers = name in ("prefetch_factor", "persistent_workers") or (
            name == "in_order" and wanted is False
        )
        if only_with_workers and effective.get("workers") == 0:
            return f"asked for {name}={_text(wanted)}, but the training's loader{where} runs without workers"
        if roles.train is None:
            return f"asked for {name}={_text(wanted)}, but no loader was seen to feed the steps"
        if seen != wanted:
            return f"asked for {name}={_text(wanted)}, the training's loader{where} ran with {_text(seen)}"
    return None


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
