"""The sentences a renter wants: what an hour costs, and whether to stop and tune."""

from __future__ import annotations

from vtune.domain.experiment import Price
from vtune.domain.numbers import money, seconds
from vtune.domain.watching import Verdict

# Four phases of bounded trials and their start-ups, on a training of ordinary size.
TUNING_S = 1200.0
# The saving is what data for free would bring; what tuning reaches is a part of it, and a stop loses work, too.
_PAYS_BEYOND = 3.0


def costs_text(price: Price | None, verdict: Verdict) -> str | None:
    if price is None:
        return None
    text = f"{money(price.per_hour, price)} an hour"
    if verdict.kind == "still":
        return f"{text}, for nothing while it stands still"
    if verdict.wait_share is not None and verdict.wait_share >= 0.05:
        text += f", of which about {money(price.per_hour * verdict.wait_share, price)} for waiting"
    return text


def tuning_text(left_s: float | None, verdict: Verdict) -> str:
    """Whether stopping to tune would pay, or why that cannot be told. `left_s`: of the run."""
    if verdict.kind == "still":
        return "it stands still: look at that first"
    if verdict.kind in ("gpu", "host", "cpu") and not (verdict.wait_share or 0.0) >= 0.1:
        return "nothing to win at the data: stopping to tune the loader would not pay"
    if verdict.wait_share is None:
        return "cannot be told: how long it waits for data does not show from outside"
    if left_s is None:
        return "cannot be told: how long the run still takes is not in its log (--epochs N, if you know)"
    saved_s = left_s * verdict.wait_share
    figures = (
        f"data for free would save {seconds(saved_s)} at most of the {seconds(left_s)} left; tuning is "
        f"reckoned at {seconds(TUNING_S)}, and a stop loses what was not saved"
    )
    return f"{'it may pay' if saved_s > _PAYS_BEYOND * TUNING_S else 'it would hardly pay'}: {figures}"
