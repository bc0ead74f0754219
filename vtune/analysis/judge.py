"""One trial's record from its spec, its outcome and what its folder says. No clock, no disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from vtune.analysis.advice import Again, no_faster
from vtune.analysis.batch_notes import batch_notes, batch_without_effect
from vtune.analysis.beaten import beaten_words, surely_beaten
from vtune.analysis.ceiling import asked_ceiling, ended, measure_ceiling
from vtune.analysis.comparable import own_measurement
from vtune.analysis.diagnose import diagnose
from vtune.analysis.ending import Seen, status_of
from vtune.analysis.gpus import gpu_notes, over_vram_limit
from vtune.analysis.ground import too_little_time_text
from vtune.analysis.growth_words import growth_advice, growth_lines
from vtune.analysis.measure import Observed, measure, windows_measured
from vtune.analysis.memory_ended import least_available
from vtune.analysis.others import without_prediction
from vtune.analysis.others_words import busy_diagnosis
from vtune.analysis.queues import queue_advice, queue_lines, with_shm_room
from vtune.analysis.ram_guard import guard_evidence, guard_notes, with_guards_peak
from vtune.analysis.ranks_repeat import ranks_that_repeat
from vtune.analysis.relief import what_to_do
from vtune.analysis.repeated_trial import in_this_trial, makes_invalid, samples_evidence
from vtune.analysis.repeated_words import ranks_repeat, what_repeats
from vtune.analysis.root_cause import failures_of, worker_slots
from vtune.analysis.tail import pooled
from vtune.analysis.trial_notes import (
    counting_notes,
    declared_note,
    outcome_notes,
    thread_note,
    unknown_notes,
    unread_gpus_note,
    vram_limit_note,
)
from vtune.analysis.validation import ended_in_validation, validation_note
from vtune.analysis.verify import mismatch
from vtune.analysis.verify_mathematics import contradiction, unverified
from vtune.analysis.vram_held import enforced_limit, held_notes, whose_room
from vtune.domain.advice import Advice
from vtune.domain.effects import Scalar
from vtune.domain.events import ProcessStack
from vtune.domain.experiment import Limit, PlannedRun, Price, Window
from vtune.domain.machine import Machine
from vtune.domain.record import Diagnosis, Measurement, TrialRecord
from vtune.domain.trial import TrialOutcome, TrialSpec, TrialStatus

# As many lines of the training's own words as fit a screen beside the panel.
LAST_WORDS_LINES = 12
NOT_VALIDATED = "what is said of the GPU is not validated here: vtune doctor --selftest proves it on this machine"


def judge(
    spec: TrialSpec,
    outcome: TrialOutcome,
    observed: Observed,
    *,
    pythons: int,
    backwards: int,
    last_words: str,
    stdout_words: str = "",
    stacks: Sequence[ProcessStack] = (),
    window: Window,
    planned: PlannedRun,
    price: Price | None,
    machine: Machine,
    current: Mapping[str, Scalar],
    gpu_validated: bool,
    study: str | None = None,
    results: str | None = None,
    earlier: Sequence[TrialRecord] = (),
    batch_factor: float = 1.0,
    scouted: Measurement | None = None,
    ram_limit_bytes: int | None = None,
    vram_limit: Limit | None = None,
) -> TrialRecord:
    """`current`: what the training is set to without vtune, as far as its config or its command says. `gpu_validated`:
    the self-test has passed with these devices, this driver and this torch. `scouted`: a short run of the training's
    own settings, before any trial was."""
    size = observed.roles.settings.get("batch_size") if observed.roles is not None else None
    own = own_measurement(earlier) or scouted
    ceiling = asked_ceiling(spec)
    if ceiling is not None:
        measured, ram_limit_bytes = measure_ceiling(observed), ceiling.ram_bytes
    else:
        measured = measure(
            observed,
            planned,
            price,
            batch_factor=batch_factor,
            own=own,
            earlier=pooled(earlier, size),
            cores=machine.cores,
        )
    lost_at, lost_to = (None, None) if ceiling is not None else _no_number(observed)
    telemetry = observed.telemetry
    measured = with_guards_peak(replace(measured, diverged_at_step=lost_at), outcome)
    measured = with_shm_room(measured, telemetry, machine.shm_bytes)
    beaten = spec.beat if outcome.ended_by == "beaten" else None
    # What came with its last look (a neighbour that was busy) may leave open what was sure when it was ended.
    surely = beaten is not None and surely_beaten(measured, beaten, machine.cores)
    seen = Seen(
        pythons=pythons,
        hello=any(fact.name == "hello" for fact in observed.facts),
        steps=len(observed.roles.steps) if observed.roles else 0,
        measured=measured.steps_measured,
        backwards=backwards,
        batches=len(observed.delivered),
        last_words=last_words,
        ram_peak_bytes=measured.ram_peak_bytes,
        ram_limit_bytes=ram_limit_bytes,
        over_vram=_over_vram(measured, vram_limit),
        stdout_words=stdout_words,
        leader=observed.roles.pid if observed.roles else None,
        ranks=observed.roles.ranks if observed.roles else (),
        failures=failures_of(observed.facts),
        workers=worker_slots(observed.facts),
        stacks=stacks,
        ram_available_bytes=least_available(telemetry),
        ram_bytes=machine.ram_bytes,
        shm_used_bytes=max((one.shm_used_bytes for one in telemetry if one.shm_used_bytes is not None), default=None),
        shm_bytes=machine.shm_bytes,
        diverged_at_step=lost_at,
        diverged_to=lost_to,
        left_abruptly=_left_abruptly(outcome, observed),
        beaten=beaten_words(measured, beaten, machine.cores, surely=surely) if beaten is not None else None,
    )
    status, detail = status_of(outcome, window, seen)
    died_in_validation = False
    vram_guard = _vram_guard(status, detail, outcome, observed, measured, vram_limit)
    if status is TrialStatus.OUT_OF_VRAM and outcome.ended_by == "itself":
        died_in_validation = ended_in_validation(observed.roles)
        detail = whose_room(detail, observed.facts, measured.gpus, in_validation=died_in_validation)
    if ceiling is None and observed.roles is not None:
        measured = replace(measured, ranks_repeat=ranks_that_repeat(observed.roles, observed.facts))
    repeated = in_this_trial(observed, spec.settings, earlier) if ceiling is None else None
    if status in (TrialStatus.COMPLETED, TrialStatus.DIVERGED) and observed.roles is not None:
        wrong = mismatch(spec.settings, observed.roles)
        wrong = wrong or batch_without_effect(spec.settings, measured, own)
        wrong = wrong or contradiction(spec.settings, observed.roles, observed.facts, backwards)
        if wrong is not None:
            status, detail = TrialStatus.INVALID, wrong + _left_alone(observed)
        elif repeated is not None:
            own_workers = (own.effective_settings if own is not None else current).get("workers")
            if makes_invalid(spec.settings, own_workers):
                status, detail = TrialStatus.INVALID, what_repeats(repeated)
            measured = replace(measured, repeated=repeated)
    own_notes: tuple[str, ...] = ()
    again = Again(
        study=study,
        results=results,
        settings=spec.settings,
        ram_limit_bytes=ram_limit_bytes,
        precise=window.ground,
        no_faster=no_faster(earlier, measured),
    )
    said = bool(last_words.strip())
    diagnosis = _diagnosis(status, detail, measured, machine, again, outcome, window, vram_limit, said)
    # What ended it already needs no warning.
    shm_bytes = None if status is TrialStatus.OUT_OF_SHM else machine.shm_bytes
    completed = status is TrialStatus.COMPLETED
    windows = windows_measured(observed.roles, observed.loaded, observed.facts) if window.ground and completed else ()
    more_time = too_little_time_text(window, windows)
    room = ram_limit_bytes if ram_limit_bytes is not None else least_available(telemetry)
    memory = [*map(Advice, growth_advice(measured, room if completed else None)), *queue_advice(measured, shm_bytes)]
    diagnosis = replace(
        diagnosis,
        why=(*diagnosis.why, *growth_lines(measured, ram_limit_bytes), *queue_lines(measured, shm_bytes)),
        advice=(
            *diagnosis.advice,
            *([Advice(more_time)] if more_time is not None else []),
            *([] if outcome.ended_by == "disk" else memory),
        ),
    )
    if ceiling is not None and status is not TrialStatus.INVALID:
        found = ended(measured, observed, outcome, status, detail)
        status, detail, measured = found.status, found.detail, found.measured
        diagnosis, own_notes = found.diagnosis, found.notes
    others = measured.others
    if others is not None and others.busy and status is TrialStatus.COMPLETED:
        measured, diagnosis = without_prediction(measured), busy_diagnosis(others)
    asked = {name: value for name, value in spec.settings.items() if name not in current or current[name] != value}
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
        notes=(
            *own_notes,
            *outcome_notes(outcome, observed.facts),
            *guard_notes(outcome),
            *thread_note(status, last_words),
            *batch_notes(measured, own, batch_factor),
            *declared_note(machine),
            *counting_notes(observed),
            *([ranks_repeat(measured.ranks_repeat)] if measured.ranks_repeat is not None else []),
            *(
                f"not verified: {one}; whether it took effect is not to be seen from outside the training's code"
                for one in (
                    unverified(asked, observed.roles, observed.facts, backwards) if measured.steps_measured else ()
                )
            ),
            *gpu_notes(measured.gpus),
            *([NOT_VALIDATED] if measured.gpus and not gpu_validated else []),
            *unknown_notes(measured),
            *unread_gpus_note(measured, machine),
            *vram_limit_note(measured, vram_limit),
            *held_notes(observed.facts, measured.gpus, completed=status is TrialStatus.COMPLETED),
            *(
                validation_note(measured, asked=window.validation, died_in_it=died_in_validation)
                if ceiling is None
                else []
            ),
        ),
        evidence={
            **_evidence(status, outcome, observed, last_words),
            **vram_guard,
            **(samples_evidence(observed) if repeated is None and ceiling is None else {}),
        },
        asked=asked,
        race=spec.race,
        predicted=spec.predicted,
        beaten=beaten if surely and status is TrialStatus.COMPLETED else None,
    )


def _diagnosis(
    status: TrialStatus,
    detail: str | None,
    measured: Measurement,
    machine: Machine,
    again: Again,
    outcome: TrialOutcome,
    window: Window,
    vram_limit: Limit | None,
    said: bool,
) -> Diagnosis:
    if status is TrialStatus.COMPLETED and outcome.ended_by != "disk":
        if outcome.ended_by == "beaten":
            # Nobody needs to know more of it: what calls for a longer window is none of its faults.
            measured = replace(measured, doubts=(), unsteady_because=None, fed_from_stock=False)
        return diagnose(measured, machine, again)
    # Whatever was measured before it failed is no verdict on a run.
    verdict = f"{status.value.replace('_', ' ')}: {detail}"
    relief = what_to_do(
        status,
        again,
        measured,
        outcome,
        window,
        machine=machine,
        vram_limit=vram_limit,
        detail=detail,
        said=said,
    )
    if status is TrialStatus.COMPLETED:
        # Its rate holds; first of all it needs more room.
        return replace(diagnose(measured, machine, again), advice=relief)
    return Diagnosis(bottleneck="unknown", verdict=verdict, advice=relief)


def _left_abruptly(outcome: TrialOutcome, observed: Observed) -> bool:
    """By `os._exit`, or killed: a process that leaves through Python's own end says so."""
    if outcome.ended_by != "itself" or observed.roles is None:
        return False
    told = {fact.pid for fact in observed.facts if fact.name == "left"}
    return observed.roles.pid not in told


def _no_number(observed: Observed) -> tuple[int | None, str | None]:
    """The step after which the primary optimizer's parameters were no numbers, unless they became some again (a script
    that goes back to its last good state)."""
    roles = observed.roles
    last = None
    for fact in observed.facts:
        own = roles is not None and fact.pid in roles.ranks and fact.data.get("optimizer") == roles.optimizer
        if fact.name == "finite" and own:
            last = fact
    if last is None or last.data.get("finite") or not isinstance(step := last.data.get("step"), int):
        return None, None
    return step, str(last.data.get("value"))


def _over_vram(measured: Measurement, limit: Limit | None) -> tuple[int, int, int] | None:
    over = over_vram_limit(measured.gpus, limit) if limit is not None else None
    if over is None:
        return None
    gpu, most = over
    return gpu.index, gpu.vram_peak_bytes or 0, most


def _vram_guard(
    status: TrialStatus,
    detail: str | None,
    outcome: TrialOutcome,
    observed: Observed,
    measured: Measurement,
    limit: Limit | None,
) -> dict[str, object]:
    if status is not TrialStatus.OUT_OF_VRAM or limit is None:
        return {}
    if outcome.ended_by == "itself":
        found = enforced_limit(detail, observed.facts, limit)
        return {} if found is None else {"vram_guard": dict(found)}
    over = over_vram_limit(measured.gpus, limit)
    return {} if over is None else {"vram_guard": {"limit_bytes": over[1], "device_bytes": over[0].vram_total_bytes}}


def _left_alone(observed: Observed) -> str:
    train = observed.roles.train if observed.roles is not None else None
    reasons = [
        str(reason)
        for fact in observed.facts
        if fact.name == "loader" and train is not None and fact.data.get("key") == train.key
        for reason in (fact.data.get("left_alone") or {}).values()
    ]
    return f": {reasons[0]}" if reasons else ""


def _evidence(status: TrialStatus, outcome: TrialOutcome, observed: Observed, last_words: str) -> dict[str, object]:
    evidence: dict[str, object] = {
        "ended_by": outcome.ended_by,
        "exit_code": outcome.exit_code,
        "signal": outcome.signal,
        **guard_evidence(outcome),
    }
    roles = observed.roles
    if roles is not None and roles.train is not None:
        evidence["train_loader"] = {
            "key": roles.train.key,
            "where": roles.train.where,
            "dataset": roles.train.dataset,
            "share": round(roles.train.share, 3),
        }
        if roles.beside:
            evidence["loaders_beside"] = [
                {"key": one.loader.key, "where": one.loader.where, "share": round(one.loader.share, 3)}
                for one in roles.beside
            ]
        evidence["other_loaders"] = [{"key": other.key, "share": round(other.share, 3)} for other in roles.others]
    if status is not TrialStatus.COMPLETED and last_words.strip():
        evidence["last_words"] = last_words.strip().splitlines()[-LAST_WORDS_LINES:]
    return evidence
