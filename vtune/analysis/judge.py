"""One trial's record from its spec, its outcome and what its folder says. No clock, no disk."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from vtune.analysis.diagnose import WorkerCost, diagnose
from vtune.analysis.ending import Seen, status_of
from vtune.analysis.measure import Observed, measure
from vtune.analysis.roles import Roles
from vtune.analysis.verify import mismatch
from vtune.analysis.window import pass_facts
from vtune.domain.events import Fact, TelemetrySample
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
        wrong = mismatch(spec.settings, measured.effective_settings, observed.roles)
        if wrong is not None:
            status, detail = TrialStatus.INVALID, wrong
    diagnosis = _diagnosis(status, detail, measured, observed, machine)
    return TrialRecord(
        trial=spec.trial,
        origin=spec.origin,
        settings={**measured.effective_settings, **spec.settings},
        reason=spec.reason,
        status=status,
        detail=detail,
        seconds=outcome.seconds,
        measurement=measured,
        diagnosis=diagnosis,
        notes=tuple(_notes(outcome, observed.facts)),
        evidence=_evidence(status, outcome, observed, last_words),
    )


def _diagnosis(
    status: TrialStatus, detail: str | None, measured: Measurement, observed: Observed, machine: Machine
) -> Diagnosis:
    found = diagnose(measured, machine, _worker_cost(observed), tree_cores(observed.telemetry))
    if status is TrialStatus.COMPLETED:
        return found
    # Whatever was measured before it failed is no verdict on a run.
    return replace(found, verdict=f"{status.value.replace('_', ' ')}: {detail}", next=(), why=())


def _worker_cost(observed: Observed) -> WorkerCost | None:
    roles = observed.roles
    if roles is None or roles.train is None:
        return None
    ours = {
        pid
        for data in pass_facts(observed.facts, roles.pid).values()
        if data.get("loader") in roles.train.numbers
        for pid in data.get("worker_pids") or ()
    }
    # The first batch of each worker pays imports and file handles.
    seen, batches = set(), []
    for batch in observed.loaded:
        if batch.pid in ours:
            if batch.pid in seen:
                batches.append(batch)
            seen.add(batch.pid)
    wall = sum(b.finished_s - b.started_s for b in batches)
    if not batches or wall <= 0:
        return None
    return WorkerCost(batch_s=wall / len(batches), cpu_fraction=min(1.0, sum(b.cpu_s for b in batches) / wall))


def tree_cores(telemetry: Sequence[TelemetrySample]) -> float | None:
    """Cores that the trial's processes kept busy, over the second half of the samples: start-up is not the training."""
    half = telemetry[len(telemetry) // 2 :]
    if len(half) < 2:
        return None
    busy = 0.0
    for before, after in itertools.pairwise(half):
        known = {p.pid: p.cpu_s for p in before.processes}
        busy += sum(p.cpu_s - known[p.pid] for p in after.processes if p.pid in known)
    return busy / (half[-1].t_s - half[0].t_s) if half[-1].t_s > half[0].t_s else None


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
    roles: Roles | None = observed.roles
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
