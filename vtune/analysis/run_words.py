"""What a run pays around its steps, and what of that nobody has seen, in words."""

from __future__ import annotations

from vtune.domain.numbers import seconds
from vtune.domain.record import Measurement, Pause


def run_lines(measured: Measurement) -> list[str]:
    settings = measured.effective_settings
    lines = _loader_lines(measured)
    if measured.restarts_in_rate:
        in_rate = "the epochs are so short that the rate is that of whole ones, with their restarts"
        return [in_rate, *lines, *_pauses(measured)]
    if measured.epoch_restart_s is not None:
        end = "an epoch" if measured.samples_per_part is None else f"a pass of {measured.samples_per_part} samples"
        return [f"the end of {end} costs {seconds(measured.epoch_restart_s)}", *lines, *_pauses(measured)]
    if measured.first_batch_s is not None and settings.get("persistent_workers") is False and settings.get("workers"):
        lines.append(f"workers start again every epoch: the first batch took {seconds(measured.first_batch_s)}")
    lines += _pauses(measured)
    if measured.projected.epoch_s is not None:
        lines.append(_left_out(measured))
    return lines


def _loader_lines(measured: Measurement) -> list[str]:
    lines = []
    if because := measured.unknown.get("samples_per_epoch"):
        lines.append(f"the length of an epoch is not known: {because}")
    if measured.loader_rebuilt and measured.effective_settings.get("workers"):
        lines.append("each pass builds its loader anew, so its workers start anew whatever persistent_workers says")
    return lines


def _pauses(measured: Measurement) -> list[str]:
    counted = [
        f"a {pause.what} takes {seconds(pause.seconds)} ({pause.seen} seen{_every(pause)}), which is counted already"
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
        if pause.cut_after_batches is not None:
            cut = f"{pause.cut_after_batches} of its batches before the first step took {seconds(pause.seconds)}"
            return f"{unseen}leaves out checkpoints and validation ({cut}, too few and too cold to tell)"
        if not pause.counted and not pause.seldom:
            return (
                f"{unseen}adds a validation of {seconds(pause.seconds)} to each, as seen before the first step,"
                " and leaves out checkpoints"
            )
    if measured.pauses:
        return f"{unseen}leaves out what else happens there"
    return f"{unseen}leaves out validation and checkpoints"


def _every(pause: Pause) -> str:
    return f", every {pause.every_steps:.0f} steps" if pause.every_steps is not None else ""


def _how_many(pause: Pause) -> str:
    return "one" if pause.every_steps is None else f"one every {pause.every_steps:.0f} steps"
