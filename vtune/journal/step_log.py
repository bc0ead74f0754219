"""Reading what the worker wrote in a trial's folder, while it runs or afterwards (docs/decisions/0002)."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from vtune.domain.events import (
    Backward,
    BatchDelivered,
    BatchLoaded,
    DeviceStepped,
    Event,
    Fact,
    OptimizerStepped,
    StageEnded,
    StageName,
)
from vtune.foreign.bounds import BadText
from vtune.foreign.read import open_regular
from vtune.journal.files import complete_lines
from vtune.journal.paths import TrialPaths

MAGIC = b"VTUNEREC"
HEADER = struct.Struct("<8sII")
RECORD = struct.Struct("<BBHIqdddII")
VERSION = 1
STEP_FILE = re.compile(r"steps-(\d+)\.(?:bin|jsonl)")
# More than any window needs; a script that loads thousands of batches a second must not fill our memory.
MAX_BYTES_AT_ONCE = 16 * 2**20
STAGES: tuple[StageName, ...] = ("begin", "transfer", "forward", "loss", "backward", "step")


class StepLog:
    """Grows with the files. `refresh` reads only what was added since the last call."""

    def __init__(self, folder: TrialPaths) -> None:
        self._folder = folder
        self._read_up_to: dict[Path, int] = {}
        self.loaded: list[BatchLoaded] = []
        self.delivered: list[BatchDelivered] = []
        self.backwards: list[Backward] = []
        self.steps: list[OptimizerStepped] = []
        self.device_steps: list[DeviceStepped] = []
        self.stages: list[StageEnded] = []
        self.facts: list[Fact] = []

    def refresh(self) -> bool:
        """True when something was added."""
        before = self._events_seen()
        # Facts first: records name what they tell of.
        for path in sorted(self._grown(), key=lambda path: (path.suffix == ".bin", path)):
            if path.suffix == ".bin":
                self._read_records(path)
            else:
                self._read_facts(path)
        return before != self._events_seen()

    def _grown(self) -> list[Path]:
        """One look at the folder: to open each file ten times a second is felt on full cores."""
        grown = []
        with suppress(FileNotFoundError), os.scandir(self._folder.root) as entries:
            for entry in entries:
                if STEP_FILE.fullmatch(entry.name):
                    path = Path(entry.path)
                    with suppress(FileNotFoundError):
                        if entry.stat().st_size > self._read_up_to.get(path, 0):
                            grown.append(path)
        return grown

    def _events_seen(self) -> int:
        of_batches = len(self.loaded) + len(self.delivered)
        of_steps = len(self.backwards) + len(self.steps) + len(self.device_steps) + len(self.stages)
        return of_batches + of_steps + len(self.facts)

    def facts_named(self, *names: str) -> list[Fact]:
        return [fact for fact in self.facts if fact.name in names]

    def _new_bytes(self, path: Path, start: int) -> bytes:
        try:
            with os.fdopen(open_regular(path), "rb") as file:
                file.seek(start)
                return file.read(MAX_BYTES_AT_ONCE)
        except (FileNotFoundError, BadText):
            return b""

    def _read_facts(self, path: Path) -> None:
        start = self._read_up_to.get(path, 0)
        text = self._new_bytes(path, start)
        whole = text[: text.rfind(b"\n") + 1]
        self._read_up_to[path] = start + len(whole)
        pid = _pid_of(path)
        for item in complete_lines(whole):
            name, t_s = item.pop("fact", None), item.pop("t", None)
            if isinstance(name, str) and isinstance(t_s, (int, float)):
                self.facts.append(Fact(pid=pid, t_s=float(t_s), name=name, data=item))

    def _read_records(self, path: Path) -> None:
        start = self._read_up_to.get(path, 0)
        if start == 0:
            header = self._new_bytes(path, 0)[: HEADER.size]
            if len(header) < HEADER.size:
                return
            magic, version, size = HEADER.unpack(header)
            if magic != MAGIC or version != VERSION or size != RECORD.size:
                self._read_up_to[path] = 2**62  # another writer's file: never look again
                return
            start = HEADER.size
        text = self._new_bytes(path, start)
        whole = len(text) - len(text) % RECORD.size
        self._read_up_to[path] = start + whole
        for event in _events(_pid_of(path), text[:whole]):
            match event:
                case BatchLoaded():
                    self.loaded.append(event)
                case BatchDelivered():
                    self.delivered.append(event)
                case Backward():
                    self.backwards.append(event)
                case OptimizerStepped():
                    self.steps.append(event)
                case DeviceStepped():
                    self.device_steps.append(event)
                case StageEnded():
                    self.stages.append(event)


def _pid_of(path: Path) -> int:
    found = STEP_FILE.fullmatch(path.name)
    return int(found.group(1)) if found else -1


def _events(pid: int, text: bytes) -> Iterable[Event]:
    for kind, flags, source, group, index, a, b, c, n1, n2 in RECORD.iter_unpack(text):
        match kind:
            case 1:
                yield BatchLoaded(
                    pid=pid,
                    worker=source,
                    resume=group,
                    index=index,
                    started_s=a,
                    finished_s=b,
                    cpu_s=c,
                    samples=n1,
                    files=n2 - 1 if n2 else None,
                )
            case 2:
                yield BatchDelivered(
                    pid=pid,
                    loader=source,
                    pass_number=group,
                    index=index,
                    asked_s=a,
                    returned_s=b,
                    leading=n1,
                    samples=n2,
                    main_thread=bool(flags & 1),
                    nested=bool(flags & 2),
                    grad=bool(flags & 4),
                )
            case 3:
                yield Backward(pid=pid, number=index, started_s=a, ended_s=b, main_thread=bool(flags & 1))
            case 4:
                yield OptimizerStepped(pid=pid, optimizer=source, number=index, ended_s=b, main_thread=bool(flags & 1))
            case 5:
                yield DeviceStepped(
                    pid=pid,
                    device=source,
                    optimizer=n1,
                    number=index,
                    busy_s=a,
                    gap_s=None if c < 0 else c,
                )
            case 6 if group < len(STAGES):
                yield StageEnded(
                    pid=pid,
                    device=source - 1 if source else None,
                    stage=STAGES[group],
                    number=index,
                    host_s=a,
                    device_s=None if c < 0 else c,
                    peak_bytes=n1 + (n2 << 32) if flags & 2 else None,
                )
