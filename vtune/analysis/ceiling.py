"""What a training fed from memory has told: each batch size's rate and memory, and how fast its loader is alone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from vtune.analysis.advice import OTHERS_CORES
from vtune.analysis.gpus import with_gpus
from vtune.analysis.measure import Observed
from vtune.analysis.memory import with_memory
from vtune.analysis.roles import Roles
from vtune.domain.effects import FindCeiling
from vtune.domain.events import BatchDelivered, Fact
from vtune.domain.numbers import rate, seconds
from vtune.domain.record import Ceiling, Diagnosis, Measurement, Rung
from vtune.domain.trial import TrialOutcome, TrialSpec, TrialStatus

# Rounds of the workers after the loader's stock; fewer say nothing of its pace.
LEAST_ROUNDS = 2
# The kernel's OOM killer tells nobody why.
SIGKILL = 9
OUT_OF_MEMORY = (TrialStatus.OUT_OF_VRAM, TrialStatus.OUT_OF_RAM, TrialStatus.OUT_OF_SHM)


def asked_ceiling(spec: TrialSpec) -> FindCeiling | None:
    return next((effect for effect in spec.effects if isinstance(effect, FindCeiling)), None)


def measure_ceiling(observed: Observed) -> Measurement:
    """Rates and memory; why it ended is known from how the trial did. No `samples_per_s`: no run is like it."""
    roles = observed.roles
    measured = with_memory(Measurement(), observed.telemetry, roles)
    facts = _own(observed)
    ladder = tuple(_rung(fact, observed) for fact in facts if fact.name == "ceiling_rung_end")
    spans = [(fact.data["begun"], fact.data["ended"]) for fact in facts if fact.name == "ceiling_rung_end"]
    measured = with_gpus(
        measured, telemetry=observed.telemetry, gpus=observed.gpus, facts=observed.facts, spans=spans[:1]
    )
    if roles is None:
        return measured
    ceiling = Ceiling(
        compute_samples_per_s=ladder[0].samples_per_s if ladder else None,
        loader_samples_per_s=_loader_rate(facts, roles),
        ladder=ladder,
        largest_batch=max((rung.batch_size for rung in ladder), default=None),
    )
    return replace(
        measured,
        ceiling=ceiling,
        compute_samples_per_s=ceiling.compute_samples_per_s,
        loader_samples_per_s=ceiling.loader_samples_per_s,
        steps_measured=sum(rung.steps for rung in ladder),
        effective_settings=roles.settings,
        ranks=len(roles.ranks),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a search for the ceiling came out: running out of memory is what it is for."""

    status: TrialStatus
    detail: str | None
    measured: Measurement
    diagnosis: Diagnosis
    notes: tuple[str, ...]


def ended(
    measured: Measurement, observed: Observed, outcome: TrialOutcome, status: TrialStatus, detail: str | None
) -> Ended:
    """`status` and `detail` are those that an ordinary trial would have."""
    facts = _own(observed)
    found = measured.ceiling or Ceiling()
    tried = _unfinished(facts)
    done = next((fact.data for fact in facts if fact.name == "ceiling_done"), None)
    did_not_fit = status in OUT_OF_MEMORY or outcome.signal == SIGKILL
    because = _because(done, tried, outcome, status, detail, did_not_fit=did_not_fit)
    if tried is not None and (did_not_fit or (done is not None and done.get("failed"))):
        found = replace(found, ladder=(*found.ladder, Rung(batch_size=tried, fits=False)))
    found = replace(found, ended_because=because)
    measured = replace(measured, ceiling=found)
    if status is not TrialStatus.INTERRUPTED:
        learnt = found.largest_batch is not None or found.loader_samples_per_s is not None
        if learnt:
            status, detail = TrialStatus.COMPLETED, None
        elif status is TrialStatus.COMPLETED:
            status, detail = TrialStatus.NOT_OBSERVED, because
    return Ended(
        status=status,
        detail=detail,
        measured=measured,
        diagnosis=_said(status, found),
        notes=(*_notes(facts, found), *_around(measured)),
    )


def _said(status: TrialStatus, found: Ceiling) -> Diagnosis:
    if status is not TrialStatus.COMPLETED:
        verdict = f"the ceiling was not found: {found.ended_because}"
        return Diagnosis(bottleneck="unknown", verdict=verdict)
    parts, why = [], []
    if found.compute_samples_per_s is not None:
        own = found.ladder[0].batch_size
        parts.append(f"{rate(found.compute_samples_per_s)} samples/s with data for free (batch {own})")
    if found.loader_samples_per_s is not None:
        parts.append(f"{rate(found.loader_samples_per_s)} samples/s from the loader alone")
    fastest = fastest_rung(found)
    if fastest is not None and len(found.ladder) > 1:
        why.append(
            f"of {len(found.ladder)} batch sizes {fastest.batch_size} is the fastest: {rate(fastest.samples_per_s)}"
            f" samples/s, {seconds(fastest.step_s)} a step; the largest that ran is {found.largest_batch}"
        )
    if found.ended_because:
        why.append(f"the sizes end there because {found.ended_because}")
    return Diagnosis(bottleneck="unknown", verdict=f"ceiling: {', '.join(parts)}", why=tuple(why))


def fastest_rung(found: Ceiling) -> Rung | None:
    known = [rung for rung in found.ladder if rung.samples_per_s is not None]
    return max(known, key=lambda rung: rung.samples_per_s or 0.0, default=None)


def _because(
    done: object,
    tried: int | None,
    outcome: TrialOutcome,
    status: TrialStatus,
    detail: str | None,
    *,
    did_not_fit: bool,
) -> str:
    if isinstance(done, dict):
        return str(done.get("because"))
    at = "before the first size was tried" if tried is None else f"at batch {tried}"
    if did_not_fit:
        return f"batch {tried} does not fit: {detail}" if tried is not None else f"{detail}, {at}"
    if outcome.ended_by == "trial_time":
        return f"the trial time was up {at}"
    if outcome.ended_by == "window":
        return "the loader that fed the steps before was not met again"
    if outcome.ended_by == "interrupt":
        return f"it was ended by hand {at}"
    if outcome.ended_by == "itself" and outcome.exit_code == 0 and outcome.signal is None:
        return f"the training ended by itself {at}"
    return f"{detail or status.value.replace('_', ' ')}, {at}"


def _own(observed: Observed) -> list[Fact]:
    """Of the process that leads; before its first step, of any."""
    pid = observed.roles.pid if observed.roles is not None else None
    return [fact for fact in observed.facts if fact.name.startswith("ceiling_") and pid in (None, fact.pid)]


def _unfinished(facts: Sequence[Fact]) -> int | None:
    """The batch size that was begun last and never measured."""
    begun = {fact.data["rung"]: fact.data["samples"] for fact in facts if fact.name == "ceiling_rung"}
    measured = {fact.data["rung"] for fact in facts if fact.name == "ceiling_rung_end"}
    left = [number for number in begun if number not in measured]
    return int(begun[max(left)]) if left else None


def _loader_rate(facts: Sequence[Fact], roles: Roles) -> float | None:
    drain = next((fact.data for fact in facts if fact.name == "ceiling_drain"), None)
    if drain is None or drain["seconds"] <= 0 or drain["batches_measured"] < LEAST_ROUNDS * max(1, roles.workers):
        return None
    return len(roles.ranks) * float(drain["samples"]) / float(drain["seconds"])


def _notes(facts: Sequence[Fact], found: Ceiling) -> list[str]:
    lines = []
    for fact in facts:
        if fact.name == "ceiling_left":
            what = ", ".join(map(str, fact.data.get("what") or ()))
            lines.append(f"in the larger batches these stay as they are: {what}")
        if fact.name == "ceiling_drain" and found.loader_samples_per_s is None:
            over = {"exhausted": "its epoch was over", "time": "the time was up"}.get(fact.data["because"], "it ended")
            lines.append(
                f"the loader's rate alone is not known: {over} after {fact.data['batches']} batches, of which"
                f" {fact.data['stock']} may have lain ready"
            )
    return lines


def _around(measured: Measurement) -> list[str]:
    """What else had a part in the rates."""
    lines = []
    if (measured.others_cores or 0.0) >= OTHERS_CORES:
        lines.append(f"other programs kept {measured.others_cores:.1f} cores busy meanwhile: the rates may be too low")
    if not measured.gpus and measured.ceiling is not None and measured.ceiling.ladder:
        lines.append("no GPU was seen: where the cores compute, a loader at work takes some of them from the training")
    return lines


def _rung(fact: Fact, observed: Observed) -> Rung:
    data, roles = fact.data, observed.roles
    assert roles is not None
    begun, ended_s = float(data["begun"]), float(data["ended"])
    samples, steps, batches = int(data["samples"]), int(data["steps"]), int(data["batches"])
    busy, restarts_are_in = _busy(roles, observed.facts, begun, ended_s)
    rung = Rung(
        batch_size=samples,
        fits=True,
        steps=steps,
        vram_peak_bytes=data.get("vram_peak") or _drivers_peak(observed, begun, ended_s),
        ram_peak_bytes=data.get("ram_peak"),
    )
    if not busy:
        return rung
    total_s = sum(busy) + float(data["device"]) * len(busy) / max(1, batches)
    batch_s = (total_s - (float(data.get("restarts") or 0.0) if restarts_are_in else 0.0)) / len(busy)
    if batch_s <= 0 or steps <= 0:
        return rung
    return replace(rung, samples_per_s=len(roles.ranks) * samples / batch_s, step_s=batch_s * batches / steps)


def _busy(roles: Roles, facts: Sequence[Fact], begun: float, ended_s: float) -> tuple[list[float], bool]:
    """From each batch's return to the next one's being asked for: the training's own time, one number a batch; and
    whether the ends of passes are in it."""
    returned = [batch.returned_s for batch in roles.batches]
    first, last = bisect_right(returned, begun), bisect_right(returned, ended_s)
    own = roles.batches[first:last]
    if not own:
        return [], False
    after: BatchDelivered | None = roles.batches[last] if last < len(roles.batches) else None
    asked = [b.asked_s for b in own[1:]] + [ended_s]
    next_pass = [b.pass_number for b in own[1:]] + [own[-1].pass_number if after is None else after.pass_number]
    made = {fact.data.get("pass"): fact.data.get("begun") for fact in facts if fact.name == "pass"}
    alone, mixed = [], []
    for batch, until_s, number in zip(own, asked, next_pass, strict=True):
        if number != batch.pass_number and isinstance(begun_s := made.get(number), float):
            # What making a new iterator takes is the loader's.
            until_s = min(until_s, max(begun_s, batch.returned_s))
        others_s = _others_s(roles, batch.returned_s, until_s)
        busy = max(0.0, until_s - batch.returned_s - others_s)
        mixed.append(busy)
        if not others_s and number == batch.pass_number:
            alone.append(busy)
    # What happens between epochs (validation, checkpoints) is no step's; unless it is in nearly all of them.
    return (alone, False) if 2 * len(alone) >= len(own) else (mixed, True)


def _others_s(roles: Roles, begun: float, ended_s: float) -> float:
    return sum(
        max(0.0, min(other.returned_s, ended_s) - max(other.asked_s, begun))
        for other in roles.other_batches
        if other.asked_s < ended_s and other.returned_s > begun
    )


def _drivers_peak(observed: Observed, begun: float, ended_s: float) -> int | None:
    """Where the training's own allocator does not count."""
    return max(
        (
            gpu.own_bytes
            for sample in observed.telemetry
            if begun <= sample.t_s <= ended_s
            for gpu in sample.gpus
            if gpu.own_bytes is not None
        ),
        default=None,
    )
