"""A simulated trial's files, the same as the hooks, the sampler and the supervisor write (docs/decisions/0002)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vtune.domain.events import Fact, TelemetrySample
from vtune.domain.machine import Gpu
from vtune.domain.trial import TrialOutcome, TrialSpec
from vtune.execution.engines.simulated.recording import Recording
from vtune.journal.files import to_json
from vtune.journal.paths import TrialPaths
from vtune.journal.records import spec_to_json
from vtune.journal.step_log import HEADER, MAGIC, RECORD, VERSION

_HEADER = HEADER.pack(MAGIC, VERSION, RECORD.size)
_MAIN_THREAD, _GRADIENTS_ON = 1, 4


def write_spec(folder: TrialPaths, spec: TrialSpec) -> None:
    _write_json(folder.spec, spec_to_json(spec))


def write_folder(
    folder: TrialPaths,
    *,
    recording: Recording,
    telemetry: Iterable[TelemetrySample],
    gpus: tuple[Gpu, ...],
    started_s: float,
    pid: int,
    outcome: TrialOutcome,
    last_words: str,
) -> None:
    """spec.json is there already; what says that the trial is over comes last."""
    _write_json(folder.supervisor, {"started_s": started_s})
    folder.pythons.write_text(json.dumps({"t": started_s, "pid": pid, "ppid": pid - 1, "python": "3.11.0"}) + "\n")
    _write_facts(folder, recording.facts)
    _write_records(folder, recording)
    with open(folder.telemetry, "w", encoding="utf-8") as file:
        for sample in telemetry:
            file.write(json.dumps(to_json(sample)) + "\n")
    if gpus:
        _write_json(folder.gpus, gpus)
    if outcome.ended_by not in ("itself", "startup_time"):
        folder.stop.write_text("0\n")
    folder.stdout.write_text("")
    folder.stderr.write_text(last_words)
    _write_json(folder.outcome, outcome)


def _write_json(path: Path, value: Any) -> None:
    """Not synced: what a simulation wrote can be simulated again, and syncing is what would take longest."""
    path.write_text(json.dumps(to_json(value), indent=1) + "\n")


def _write_facts(folder: TrialPaths, facts: Iterable[Fact]) -> None:
    by_pid: dict[int, list[str]] = defaultdict(list)
    for fact in facts:
        by_pid[fact.pid].append(json.dumps({"t": fact.t_s, "fact": fact.name, **fact.data}))
    for pid, lines in by_pid.items():
        (folder.root / f"steps-{pid}.jsonl").write_text("\n".join(lines) + "\n")


def _write_records(folder: TrialPaths, recording: Recording) -> None:
    """By process, in the order in which they were written: when what they tell had ended."""
    by_pid: dict[int, list[tuple[float, bytes]]] = defaultdict(list)
    pack = RECORD.pack
    for load in recording.loaded:
        record = pack(
            1, 0, load.worker, load.resume, load.index, load.started_s, load.finished_s, load.cpu_s, load.samples, 0
        )
        by_pid[load.pid].append((load.finished_s, record))
    for batch in recording.delivered:
        flags = _MAIN_THREAD | _GRADIENTS_ON
        record = pack(
            2, flags, batch.loader, batch.pass_number, batch.index, batch.asked_s, batch.returned_s, 0.0,
            batch.leading, batch.samples,
        )  # fmt: skip
        by_pid[batch.pid].append((batch.returned_s, record))
    for back in recording.backwards:
        record = pack(3, _MAIN_THREAD, 0, 0, back.number, back.started_s, back.ended_s, 0.0, 0, 0)
        by_pid[back.pid].append((back.ended_s, record))
    ends = {step.number: step.ended_s for step in recording.steps}
    for step in recording.steps:
        record = pack(4, _MAIN_THREAD, step.optimizer, 0, step.number, step.ended_s, step.ended_s, 0.0, 0, 0)
        by_pid[step.pid].append((step.ended_s, record))
    for one in recording.device_steps:
        gap_s = -1.0 if one.gap_s is None else one.gap_s
        record = pack(5, _MAIN_THREAD, one.device, 0, one.number, one.busy_s, ends[one.number], gap_s, one.optimizer, 0)
        by_pid[one.pid].append((ends[one.number], record))
    for pid, records in by_pid.items():
        records.sort(key=lambda timed: timed[0])
        (folder.root / f"steps-{pid}.bin").write_bytes(_HEADER + b"".join(record for _, record in records))
