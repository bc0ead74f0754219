"""Flags that were turned and did not reach the loader: remembered, so that no second trial is lost to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vtune.domain.advice import Advice
from vtune.domain.experiment import Experiment
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus
from vtune.foreign.read import read_json
from vtune.journal.files import dump_json
from vtune.journal.fingerprint import fingerprint_of
from vtune.journal.paths import StudyPaths
from vtune.knobs.registry import KNOBS
from vtune.knobs.ways import ThroughCommand, way_of

ASK_AGAIN = "ask again"


def heeding(experiment: Experiment, study: StudyPaths) -> Experiment:
    """With the flags that this study has learnt to leave alone, for this command, these scripts and this config."""
    try:
        answer: Mapping[str, Any] = read_json(study.ignored_flags)
        if answer["question"] != fingerprint_of(experiment):
            return experiment
        return replace(experiment, ignored_flags=frozenset(map(str, answer["flags"])))
    except (OSError, ValueError, KeyError, TypeError):
        return experiment


def learnt_from(record: TrialRecord, experiment: Experiment, study: StudyPaths) -> TrialRecord:
    """Of an invalid trial: which flags did not do what was asked. The record says what comes instead."""
    if record.status is not TrialStatus.INVALID:
        return record
    ran_with = record.measurement.effective_settings
    ignored: dict[str, str] = {}
    for knob in KNOBS:
        seen, way = ran_with.get(knob.name), way_of(knob, experiment)
        # Without a loader option nothing else could turn it, and nothing tells what it ran with.
        if knob.loader_option is None or not isinstance(way, ThroughCommand):
            continue
        # They differ only in what was asked, even where the flag had said the same before.
        if seen is not None and seen != record.settings.get(knob.name):
            ignored[knob.name] = way.flag.typed
    if not ignored:
        return record
    flags = sorted(experiment.ignored_flags | set(ignored.values()))
    dump_json(study.ignored_flags, {"question": fingerprint_of(experiment), "flags": flags})
    again = tuple(
        Advice(
            f"{ASK_AGAIN}: {typed} of the command did not reach the loader, so this study now turns {name} from inside"
        )
        for name, typed in ignored.items()
    )
    return replace(record, diagnosis=replace(record.diagnosis, advice=again))


def learnt_another_way(record: TrialRecord) -> bool:
    """An invalid trial whose settings go another way by now: asked again, it is another trial."""
    return record.status is TrialStatus.INVALID and any(one.startswith(ASK_AGAIN) for one in record.diagnosis.next)
