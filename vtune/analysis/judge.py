"""One trial's record from its spec, its outcome and what its folder says. No clock, no disk."""

from __future__ import annotations

from collections.abc import Sequence

from vtune.analysis.diagnose import diagnose
from vtune.analysis.ending import Seen, status_of
from vtune.analysis.measure import Observed, measure
from vtune.analysis.verify import mismatch
from vtune.domain.events import Fact
from vtune.domain.experiment import PlannedRun, Price, Window
from vtune.domain.machine import Machine
from vtune.domain.record import Diagnosis, Measurement, TrialRecord
from vtune.domain.trial import TrialOutcome, TrialSpec, TrialStatus

# As many lines of the training's own words as fit a screen beside the panel.
LAST_WORDS_LINES = 12


def judge(
    spec: TrialSpec,
    outcome: TrialOutcome,
    observed: Observed,
    *,
    pythons: int,
    backwards: int,
    last_words: str,
    window: Window,
    planned: PlannedRun,
    price: Price | None,
    machine: Machine,
) -> TrialRecord:
    measured = measure(observed, planned, price)
    seen = Seen(
        pythons=pythons,
        hello=any(fact.name == "hello" for fact in observed.facts),
        steps=len(observed.roles.steps) if observed.roles else 0,
        measured=measured.steps_measured,
        backwards=backwards,
        batches=len(observed.delivered),
        last_words=last_words,
    )
    status, detail = status_of(outcome, window, seen)
    if status is TrialStatus.COMPLETED and observed.roles is not None:
        wrong = mismatch(spec.settings, observed.roles)
        if wrong is not None:
            status, detail = TrialStatus.INVALID, wrong
    return TrialRecord(
        trial=spec.trial,
        origin=spec.origin,
        settings={**measured.effective_settings, **spec.settings},
        reason=spec.reason,
        status=status,
        detail=detail,
        seconds=outcome.seconds,
        measurement=measured,
        diagnosis=_diagnosis(status, detail, measured, machine),
        notes=tuple(_notes(outcome, observed.facts)),
        evidence=_evidence(status, outcome, observed, last_words),
    )


def _diagnosis(status: TrialStatus, detail: str | None, measured: Measurement, machine: Machine) -> Diagnosis:
    if status is TrialStatus.COMPLETED:
        return diagnose(measured, machine)
    # Whatever was measured before it failed is no verdict on a run.
    return Diagnosis(bottleneck="unknown", verdict=f"{status.value.replace('_', ' ')}: {detail}")


def _notes(outcome: TrialOutcome, facts: Sequence[Fact]) -> list[str]:
    lines = []
    for fact in facts:
        if fact.name == "loader":
            for option, reason in (fact.data.get("left_alone") or {}).items():
                lines.append(f"{option} of the loader at {fact.data.get('where')} was left alone: {reason}")
        if fact.name == "problem":
            lines.append(f"instrumentation: {fact.data.get('text')}")
    if outcome.ended_by == "itself" and outcome.stragglers:
        lines.append(f"{outcome.stragglers} processes outlived the training and were stopped")
    return list(dict.fromkeys(lines))


def _evidence(status: TrialStatus, outcome: TrialOutcome, observed: Observed, last_words: str) -> dict[str, object]:
    evidence: dict[str, object] = {
        "ended_by": outcome.ended_by,
        "exit_code": outcome.exit_code,
        "signal": outcome.signal,
    }
    roles = observed.roles
    if roles is not None and roles.train is not None:
        evidence["train_loader"] = {
            "key": roles.train.key,
            "where": roles.train.where,
            "dataset": roles.train.dataset,
            "share": round(roles.train.share, 3),
        }
        evidence["other_loaders"] = [{"key": other.key, "share": round(other.share, 3)} for other in roles.others]
    if status is not TrialStatus.COMPLETED and last_words.strip():
        evidence["last_words"] = last_words.strip().splitlines()[-LAST_WORDS_LINES:]
    return evidence
