"""Values for the verdicts, read from the folders of the runs alone: live and from a bundle the same way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vtune.domain.experiment import Experiment, Window, Workload
from vtune.domain.machine import Machine
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialOutcome, TrialSpec
from vtune.execution.read import read_trial
from vtune.foreign.read import read_json
from vtune.journal.files import complete_lines
from vtune.journal.paths import TrialPaths
from vtune.journal.trial_files import TrialFiles, read_outcome, read_trial_files

NOBODY = Machine(host="", kernel="", cpu_model=None, cores=1.0, ram_bytes=None, shm_bytes=None)
LOST = TrialOutcome(ended_by="lost", exit_code=None, signal=None, seconds=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The training's own count."""

    about: Mapping[str, Any]
    # asked, got, stepped on the boot clock; samples, worker.
    steps: tuple[Mapping[str, Any], ...]
    overflows: int
    end: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTrial:
    record: TrialRecord
    files: TrialFiles
    truth: Truth
    note: Mapping[str, Any]


class Records:
    """The folders of the runs, wherever they are."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._trials: dict[str, KnownTrial] = {}

    def forget(self, run: str) -> None:
        self._trials.pop(run, None)

    def has(self, run: str) -> bool:
        return (self.root / run / "run.json").is_file()

    def note(self, run: str) -> dict[str, Any]:
        told: dict[str, Any] = self.json(run, "run.json")
        return told

    def json(self, run: str, name: str) -> Any:
        return read_json(self.root / run / name)

    def truth(self, run: str, rank: int | None = None) -> Truth:
        suffix = "" if rank is None else f".{rank}"
        rows = complete_lines(_bytes(self.root / run / f"truth.jsonl{suffix}"))
        kinds: dict[str, list[Mapping[str, Any]]] = {}
        for row in rows:
            kinds.setdefault(str(row.get("kind")), []).append(row)
        return Truth(
            about=(kinds.get("about") or [{}])[-1],
            steps=tuple(kinds.get("step", ())),
            overflows=len(kinds.get("overflow", ())),
            end=(kinds.get("end") or [{}])[-1],
        )

    def trial(self, run: str) -> KnownTrial:
        if run not in self._trials:
            paths = TrialPaths(self.root / run / "trial")
            note = self.note(run)
            steps = int(note.get("window_steps") or 50)
            spec = read_json(paths.spec)
            experiment = Experiment(
                study="selftest",
                workload=Workload(command=tuple(spec["command"]), cwd=Path()),
                window=Window(steps=steps, max_steps=steps),
            )
            self._trials[run] = KnownTrial(
                record=read_trial(experiment, NOBODY, _spec(spec), read_outcome(paths) or LOST, paths),
                files=read_trial_files(paths),
                truth=self.truth(run),
                note=note,
            )
        return self._trials[run]


def own_rate(known: KnownTrial) -> tuple[float | None, float | None]:
    """Samples a second, and the share of waiting, by the training's own count of the very steps that were measured."""
    measured = known.record.measurement.steps_measured
    rows = known.truth.steps[-measured - 1 :]
    if measured < 1 or len(rows) < measured + 1:
        return None, None
    seconds = float(rows[-1]["stepped"]) - float(rows[0]["stepped"])
    if seconds <= 0:
        return None, None
    samples = sum(int(row["samples"]) for row in rows[1:])
    waited = sum(float(row["got"]) - float(row["asked"]) for row in rows[1:])
    return samples / seconds, waited / seconds


def paces(known: KnownTrial) -> tuple[dict[str, float], float]:
    """Seconds of each clock in a second of the boot clock; and how far the training's stamps lie outside the run."""
    before, after = known.note["clocks_before"], known.note["clocks_after"]
    boot = "CLOCK_BOOTTIME"
    found = {}
    rows, steps = known.truth.steps, known.files.log.steps
    count = min(len(rows), len(steps))
    if count > 1:
        own = float(rows[count - 1]["stepped"]) - float(rows[0]["stepped"])
        found["the training's clock"] = (steps[count - 1].ended_s - steps[0].ended_s) / own if own > 0 else 0.0
    if boot in before:
        passed_s = float(after[boot]) - float(before[boot])
        for name in before:
            if name != boot:
                found[name] = (float(after[name]) - float(before[name])) / passed_s
    parent = "the parent's clock"
    stamps = [step.ended_s for step in steps]
    outside = max([0.0, float(before[parent]) - min(stamps), max(stamps) - float(after[parent])]) if stamps else 0.0
    return found, outside


def batches_by_worker(known: KnownTrial) -> tuple[dict[int, int], dict[int, int]]:
    """Seen inside each worker; and used by the training, by what each sample says of its worker."""
    seen = Counter(batch.worker for batch in known.files.log.loaded)
    used = Counter(int(row["worker"]) for row in known.truth.steps)
    return dict(seen), dict(used)


def _spec(item: Mapping[str, Any]) -> TrialSpec:
    return TrialSpec(
        trial=int(item["trial"]),
        origin=str(item["origin"]),
        reason=str(item["reason"]),
        settings=dict(item.get("settings") or {}),
        effects=(),
        command=tuple(item["command"]),
        cwd="",
        env={},
        token="",
    )


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
