"""Notes of a record: how its numbers came about, and which of them are missing."""

from __future__ import annotations

from collections.abc import Sequence

from vtune.analysis.observed import Observed
from vtune.analysis.root_cause import failed_thread
from vtune.domain.events import Fact
from vtune.domain.experiment import Limit
from vtune.domain.machine import Machine
from vtune.domain.record import Measurement
from vtune.domain.trial import TrialOutcome, TrialStatus

# Names of segments in a note.
SHOWN_SEGMENTS = 4


def thread_note(status: TrialStatus, last_words: str) -> list[str]:
    """It ends the thread and nothing else: a training may go on without what it did."""
    failed = failed_thread(last_words) if status is not TrialStatus.HUNG else None
    return [f"of the training's own: {failed}"] if failed else []


def vram_limit_note(measured: Measurement, limit: Limit | None) -> list[str]:
    if limit is None:
        return []
    if any(
        gpu.vram_peak_bytes is not None and limit.resolve(gpu.vram_total_bytes) is not None for gpu in measured.gpus
    ):
        return []
    if measured.vram_peak_bytes is not None:
        why = "how much memory the device has is not known"
    else:
        why = next((gpu.unknown["vram"] for gpu in measured.gpus if "vram" in gpu.unknown), "no GPU was seen")
    return [f"the VRAM limit was not judged: {why}"]


def unknown_notes(measured: Measurement) -> list[str]:
    """A peak that limits are judged by must not be missing without a word; the other reasons stand in the record."""
    because = measured.unknown.get("ram_peak_bytes")
    return [f"the RAM's peak is not known: {because}"] if because else []


def declared_note(machine: Machine) -> list[str]:
    """What was measured is of the cores that are here: it must not be read as the other machine's."""
    return [] if machine.declared_cores is None else [f"the number of cores is the experiment's: {machine.cores_text}"]


def unread_gpus_note(measured: Measurement, machine: Machine) -> list[str]:
    because = machine.gpus_unread_because
    return [f"no GPU was watched: {because}"] if because and not measured.gpus else []


def counting_notes(observed: Observed) -> list[str]:
    """How samples were counted, where that is not beyond doubt."""
    roles = observed.roles
    if roles is None or roles.train is None:
        return []
    lines = []
    if len(roles.ranks) > 1:
        alike = roles.times == len(roles.ranks)
        how = "alike: their samples" if alike else "each at a pace of its own: their rates"
        lines.append(f"{len(roles.ranks)} processes step {how} are added up as those of one training")
    if roles.batches and not any(batch.samples for batch in roles.batches):
        lines.append("samples are counted by the leading dimension of what the loader yields (batch_size is None)")
    return lines


def outcome_notes(outcome: TrialOutcome, facts: Sequence[Fact]) -> list[str]:
    lines = []
    for fact in facts:
        if fact.name == "loader":
            for option, reason in (fact.data.get("left_alone") or {}).items():
                lines.append(f"{option} of the loader at {fact.data.get('where')} was left alone: {reason}")
        if fact.name == "problem":
            lines.append(f"instrumentation: {fact.data.get('text')}")
        if fact.name == "unknown":
            lines.append(f"not seen, {fact.data.get('what')}: {fact.data.get('because')}")
    if outcome.shm_left:
        shown = ", ".join(outcome.shm_left[:SHOWN_SEGMENTS]) + (" …" if len(outcome.shm_left) > SHOWN_SEGMENTS else "")
        lines.append(
            f"left in /dev/shm, where it appeared during the trial: {shown}; nobody was seen using it, so it was not"
            " removed"
        )
    if outcome.ended_by == "itself" and outcome.stragglers:
        lines.append(f"{outcome.stragglers} processes outlived the training and were stopped")
    return list(dict.fromkeys(lines))
