"""The validation that a trial has seen: how much of it, and the most that it took of the device."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from vtune.analysis.pauses import validation_blocks
from vtune.analysis.roles import Roles
from vtune.domain.events import BatchDelivered, Fact
from vtune.domain.numbers import bytes_
from vtune.domain.record import Measurement, ValidationSeen

# Of a validation that is waited for: memory repeats itself by then, where its batches are alike.
ENOUGH_BATCHES = 20


def with_validation(measured: Measurement, roles: Roles | None, facts: Sequence[Fact]) -> Measurement:
    peaks = [
        fact.data["allocated_peak"]
        for fact in facts
        if fact.name == "validation"
        and isinstance(fact.data.get("allocated_peak"), int)
        and (roles is None or fact.pid in roles.ranks)
    ]
    seen = validation_seen(roles, facts) if roles is not None else None
    return replace(measured, vram_validation_peak_bytes=max(peaks, default=None), validation=seen)


def validation_seen(roles: Roles, facts: Sequence[Fact]) -> ValidationSeen | None:
    """Of the pass of which most was seen; one in two steps is part of the training."""
    ends = [step.ended_s for step in roles.steps]
    blocks = validation_blocks(roles, ends)
    if not blocks or 2 * len(blocks) > len(ends) + 1:
        return None
    own = [fact for fact in facts if fact.pid == roles.pid]
    ended = {fact.data.get("pass") for fact in own if fact.name == "pass_end"}
    lengths = {fact.data.get("pass"): fact.data.get("length") for fact in own if fact.name == "pass"}
    shapes: dict[object, set[tuple[int, ...]]] = defaultdict(set)
    for fact in own:
        if fact.name == "shape":
            # A pass may end with a smaller batch.
            shapes[fact.data.get("loader")].add(tuple(fact.data.get("shape") or ())[1:])
    found = []
    for step, block in blocks.items():
        by_pass: dict[int, list[BatchDelivered]] = defaultdict(list)
        for batch in block:
            by_pass[batch.pass_number].append(batch)
        for number, batches in by_pass.items():
            length, different = lengths.get(number), len(shapes[batches[0].loader])
            whole = number in ended
            found.append(
                ValidationSeen(
                    batches=len(batches),
                    of_batches=length if isinstance(length, int) else len(batches) if whole else None,
                    whole=whole,
                    # The script looks at a part of the data only, and has gone on.
                    cut_by_script=not whole and 0 < step < len(ends),
                    largest_shape_known=whole or different == 1,
                )
            )
    return max(found, key=lambda one: (one.whole, one.cut_by_script, one.batches), default=None)


def has_seen_validation(seen: ValidationSeen | None) -> bool:
    """To its end as the script has it, or as much as is waited for."""
    return seen is not None and (seen.whole or seen.cut_by_script or seen.batches >= ENOUGH_BATCHES)


def ended_in_validation(roles: Roles | None) -> bool:
    """No step came after its batches, nor a batch of the training's."""
    if roles is None or not roles.other_batches:
        return False
    ends = [step.ended_s for step in roles.steps]
    block = validation_blocks(roles, ends).get(len(ends), [])
    return bool(block) and (not roles.batches or block[-1].returned_s > roles.batches[-1].returned_s)


def validation_note(measured: Measurement, *, asked: bool, died_in_it: bool = False) -> list[str]:
    """What was asked for must be answered; and a peak of a part is not told as that of the whole."""
    seen, peak = measured.validation, measured.vram_validation_peak_bytes
    if seen is None:
        missing = "no validation was seen within the trial: its memory is not known; give it time: --trial-time 30m"
        return [missing] if asked else []
    if not asked and peak is None:
        return []
    if died_in_it:
        peak = None  # what it asked for is not among what it got
    took = "" if peak is None else f", {bytes_(peak)} of VRAM allocated at its most"
    return [f"validation was seen {_how_far(seen)}{took}"]


def _how_far(seen: ValidationSeen) -> str:
    if seen.whole:
        return f"to its end ({seen.batches} batches)"
    of = f" of {seen.of_batches}" if seen.of_batches is not None else ""
    part = f"for {seen.batches}{of} batches"
    if seen.cut_by_script:
        return f"{part}, after which the training went on"
    return part + (", all of one shape" if seen.largest_shape_known else ", of several shapes: a larger one may come")
