"""A trial's spec and record as JSON objects."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vtune.domain.advice import Advice
from vtune.domain.compared import Beat
from vtune.domain.consumed import Consumed, NoBatch
from vtune.domain.machine_use import GpuUse, ProcessUse, RamGrowth, StageTime
from vtune.domain.others import OtherProgram, OthersOnCores
from vtune.domain.prediction import Prediction
from vtune.domain.record import (
    Ceiling,
    Diagnosis,
    Measurement,
    Pause,
    Projection,
    Rung,
    StepTimes,
    Tail,
    TrainingCost,
    TrialRecord,
    ValidationSeen,
    WhatIf,
    WorkerCost,
)
from vtune.domain.repeated import Hidden, RanksRepeat, Repeated, Repeats
from vtune.domain.steady import DOUBTS, Doubt, Ground, Order
from vtune.domain.trial import RaceLeg, TrialSpec, TrialStatus
from vtune.journal.files import to_json

SCHEMA = 1


def spec_to_json(spec: TrialSpec) -> dict[str, Any]:
    """Effects carry their kind: the worker, which imports nothing of vtune, tells them apart by it."""
    effects = [{"kind": type(effect).__name__, **to_json(effect)} for effect in spec.effects]
    return {"schema": SCHEMA, **to_json(spec), "effects": effects}


def record_to_json(record: TrialRecord) -> dict[str, Any]:
    """Flat, as the contract names the fields."""
    flat: dict[str, Any] = {
        "schema": SCHEMA,
        "trial": record.trial,
        "origin": record.origin,
        "settings": record.settings,
        "reason": record.reason,
        "status": str(record.status),
        "detail": record.detail,
        "seconds": record.seconds,
    }
    flat.update({f.name: getattr(record.measurement, f.name) for f in dataclasses.fields(Measurement)})
    flat["doubts"] = [doubt_to_json(doubt) for doubt in record.measurement.doubts]
    flat.update(
        {f.name: getattr(record.diagnosis, f.name) for f in dataclasses.fields(Diagnosis) if f.name != "advice"}
    )
    flat["next"] = record.diagnosis.next
    flat["next_asks"] = [one.asks for one in record.diagnosis.advice]
    flat.update({"notes": record.notes, "evidence": record.evidence, "asked": record.asked, "race": record.race})
    flat["predicted"] = record.predicted
    flat["beaten"] = record.beaten
    plain: dict[str, Any] = to_json(flat)
    return plain


def record_from_json(item: Mapping[str, Any]) -> TrialRecord:
    measured = _known(Measurement, item)
    if measured.get("step_time_s"):
        measured["step_time_s"] = _made(StepTimes, measured["step_time_s"])
    measured["samples_per_s_ci95"] = _pair(measured.get("samples_per_s_ci95"))
    if cost := measured.get("worker_cost"):
        measured["worker_cost"] = _made(WorkerCost, {**cost, "slow": tuple(cost.get("slow") or ())})
    if cost := measured.get("training_cost"):
        measured["training_cost"] = _made(TrainingCost, {**cost, "long_steps": tuple(cost.get("long_steps") or ())})
    if measured.get("tail"):
        measured["tail"] = _made(Tail, measured["tail"])
    if ceiling := measured.get("ceiling"):
        ladder = tuple(_made(Rung, rung) for rung in ceiling.get("ladder") or ())
        measured["ceiling"] = _made(Ceiling, {**ceiling, "ladder": ladder})
    for name, kind in (("gpus", GpuUse), ("stages", StageTime), ("processes", ProcessUse), ("pauses", Pause)):
        measured[name] = tuple(_made(kind, one) for one in measured.get(name) or ())
    if consumed := measured.get("consumed"):
        measured["consumed"] = consumed_from_json(consumed)
    if others := measured.get("others"):
        programs = tuple(_made(OtherProgram, one) for one in others.get("programs") or ())
        measured["others"] = _made(OthersOnCores, {**others, "programs": programs})
    if ranks := measured.get("ranks_repeat"):
        measured["ranks_repeat"] = RanksRepeat(**_known(RanksRepeat, ranks))
    if repeated := measured.get("repeated"):
        measured["repeated"] = repeated_from_json(repeated)
    measured["doubts"] = tuple(doubt for one in measured.get("doubts") or () if (doubt := doubt_from_json(one)))
    if ground := measured.get("ground"):
        measured["ground"] = _made(Ground, {**ground, "order": _order(ground.get("order"))})
    if measured.get("validation"):
        measured["validation"] = _made(ValidationSeen, measured["validation"])
    measured["what_if"] = tuple(
        _made(WhatIf, {**one, "setting": tuple(one["setting"]) if one.get("setting") else None})
        for one in measured.get("what_if") or ()
    )
    measured["ram_growth"] = tuple(
        _made(RamGrowth, {**one, "bytes_per_step_ci95": _pair(one.get("bytes_per_step_ci95"))})
        for one in measured.get("ram_growth") or ()
    )
    measured["ram_projected_ci95"] = _pair(measured.get("ram_projected_ci95"))
    measured["fed_by"] = tuple(measured.get("fed_by") or ())
    measured["workers_rss_bytes"] = tuple(measured.get("workers_rss_bytes") or ())
    measured["projected"] = _made(Projection, measured.get("projected") or {})
    return TrialRecord(
        trial=item["trial"],
        origin=item["origin"],
        settings=item["settings"],
        reason=item["reason"],
        status=TrialStatus(item["status"]),
        detail=item["detail"],
        seconds=item["seconds"],
        measurement=Measurement(**measured),
        diagnosis=Diagnosis(
            bottleneck=item["bottleneck"],
            verdict=item.get("verdict", ""),
            why=tuple(item.get("why", ())),
            advice=tuple(_advice(item)),
            headroom=item.get("headroom"),
        ),
        notes=tuple(item.get("notes", ())),
        evidence=item.get("evidence", {}),
        asked=item.get("asked"),
        race=_made(RaceLeg, item["race"]) if item.get("race") else None,
        predicted=prediction_from_json(item["predicted"]) if item.get("predicted") else None,
        beaten=_made(Beat, item["beaten"]) if item.get("beaten") else None,
    )


def _advice(item: Mapping[str, Any]) -> Iterator[Advice]:
    """An older record does not say which settings its advice asks for."""
    texts = item.get("next") or ()
    asks = item.get("next_asks") or [{}] * len(texts)
    return (Advice(text, asks=asked) for text, asked in zip(texts, asks, strict=True))


def consumed_from_json(item: Mapping[str, Any]) -> Consumed:
    by_step = tuple((samples, steps) for samples, steps in item["by_step"])
    # A newer vtune may know a reason that this one does not: there is no effective batch all the same.
    known = item.get("no_batch") in set(NoBatch)
    no_batch = NoBatch(item["no_batch"]) if known else NoBatch.VARIES if item.get("no_batch") else None
    return Consumed(**{**_known(Consumed, item), "by_step": by_step, "no_batch": no_batch})


def repeated_from_json(item: Mapping[str, Any]) -> Repeated:
    # A newer vtune may know a reason that this one does not: then it is not shown here how they repeat.
    reason = Repeats(item["reason"]) if item.get("reason") in set(Repeats) else Repeats.NOT_SHOWN
    hidden = Hidden(item["hidden"]) if item.get("hidden") in set(Hidden) else None
    return Repeated(**{**_known(Repeated, item), "reason": reason, "hidden": hidden})


def doubt_to_json(doubt: Doubt) -> dict[str, Any]:
    return {"kind": type(doubt).__name__, **to_json(doubt)}


def doubt_from_json(item: Mapping[str, Any]) -> Doubt | None:
    """None for one that only a newer vtune knows: the rate is not steady all the same."""
    kind = next((kind for kind in DOUBTS if kind.__name__ == item.get("kind")), None)
    if kind is None:
        return None
    made: Doubt = _made(kind, {**item, "order": _order(item.get("order"))} if "order" in item else item)
    return made


def _order(value: object) -> Order | None:
    return None if value is None else Order(str(value)) if value in set(Order) else Order.UNKNOWN


def prediction_from_json(item: Mapping[str, Any]) -> Prediction:
    intervals = {name: _pair(item.get(name)) for name in ("samples_per_s_ci95", "ram_ci95", "vram_ci95")}
    return Prediction(**{**_known(Prediction, item), **intervals, "notes": tuple(item.get("notes") or ())})


def _made(kind: type[Any], item: Mapping[str, Any]) -> Any:
    return kind(**_known(kind, item))


def _pair(values: Sequence[Any] | None) -> Any:
    return tuple(values) if values else None


def _known(kind: type[Any], item: Mapping[str, Any]) -> dict[str, Any]:
    """A newer vtune's journal may hold fields that this one does not know."""
    return {f.name: item[f.name] for f in dataclasses.fields(kind) if f.name in item}
