"""What the guard of a trial's memory saw, for its record: it looks more often than the samples are taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vtune.domain.numbers import bytes_
from vtune.domain.record import Measurement
from vtune.domain.trial import TrialOutcome


def with_guards_peak(measured: Measurement, outcome: TrialOutcome) -> Measurement:
    seen = [
        measured.ram_peak_bytes,
        outcome.ram_guard.peak_bytes if outcome.ram_guard is not None else None,
        outcome.over.used_bytes if outcome.over is not None else None,
    ]
    peak = max((one for one in seen if one is not None), default=None)
    if peak is None or peak == measured.ram_peak_bytes:
        return measured
    projected, interval = measured.ram_projected_bytes, measured.ram_projected_ci95
    return replace(
        measured,
        ram_peak_bytes=peak,
        ram_projected_bytes=None if projected is None else max(projected, peak),
        ram_projected_ci95=None if interval is None else (max(interval[0], peak), max(interval[1], peak)),
        unknown={name: why for name, why in measured.unknown.items() if name != "ram_peak_bytes"},
    )


def guard_evidence(outcome: TrialOutcome) -> Mapping[str, object]:
    """Which limit held, and who enforced it."""
    guard = outcome.ram_guard
    if guard is None:
        return {}
    return {"ram_guard": {"limit_bytes": guard.limit_bytes, "is_default": guard.is_default, "by": guard.by}}


def guard_notes(outcome: TrialOutcome) -> list[str]:
    group, notes = outcome.group, []
    if outcome.ram_guard is not None and outcome.ram_guard.failed is not None:
        held = "nothing held" if outcome.ram_guard.by == "watchdog" else "only the kernel held"
        notes.append(
            f"a defect of vtune's ended the watch over its memory ({outcome.ram_guard.failed}; supervisor.log has the "
            f"trace): from then on {held} it to its limit at once"
        )
    if outcome.defect is not None and outcome.ended_by != "lost":
        notes.append(
            f"a defect of vtune's while it looked after the trial: {outcome.defect}; supervisor.log has the trace"
        )
    if group is None or not group.at_limit or group.oom_kills or outcome.over is not None:
        return notes
    return [
        *notes,
        f"what it read filled its memory group of {bytes_(group.limit_bytes)}, and the kernel took page cache back: "
        "data that is read again comes slower than in a run without this limit",
    ]
