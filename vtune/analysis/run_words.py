"""What a run pays around its steps, and what of that nobody has seen, in words."""

from __future__ import annotations

from vtune.domain.numbers import seconds
from vtune.domain.record import Measurement, Pause


def run_lines(measured: Measurement) -> list[str]:
    settings = measured.effective_settings
    if measured.restarts_in_rate:
        return ["the epochs are so short that the rate is that of whole ones, with their restarts", *_pauses(measured)]
    if measured.epoch_restart_s is not None:
        return [f"the end of an epoch costs {seconds(measured.epoch_restart_s)}", *_pauses(measured)]
    lines = []
    if measured.first_batch_s is not None and settings.get("persistent_workers") is False and settings.get("workers"):
        lines.append(f"workers start again every epoch: the first batch took {seconds(measured.first_batch_s)}")
    lines += _pauses(measured)
    if measured.projected.epoch_s is not None:
        lines.append(_left_out(measured))
    return lines


def _pauses(measured: Measurement) -> list[str]:
    counted = [
        f"a {pause.what} takes {seconds(pause.seconds)} ({pause.seen} seen), which is counted already"
        for pause in measured.pauses
        if pause.counted
    ]
    seldom = [
        f"a {pause.what} of {seconds(pause.seconds)} came between the steps ({pause.seen} seen): how often is not"
        f" surely known, so it is in no rate, and each epoch is taken to have {_how_many(pause)}"
        for pause in measured.pauses
        if pause.seldom
    ]
    return [*counted, *seldom]


def _left_out(measured: Measurement) -> str:
    unseen = "no end of an epoch was seen: the projection "
    for pause in measured.pauses:
        if not pause.counted and not pause.seldom:
            by = f", by {pause.scaled_from_batches} of its batches" if pause.scaled_from_batches is not None else ""
            return (
                f"{unseen}adds a validation of {seconds(pause.seconds)} to each, as seen before the first step{by},"
                " and leaves out checkpoints"
            )
    if measured.pauses:
        return f"{unseen}leaves out what else happens there"
    return f"{unseen}leaves out validation and checkpoints"


def _how_many(pause: Pause) -> str:
    return "one" if pause.every_steps is None else f"one every {pause.every_steps:.0f} steps"
