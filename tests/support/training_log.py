"""A training's log, batch by batch, as its hooks would write it: the order of events is all that matters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from support.trial_writer import PID, TrialWriter, observed
from vtune.analysis.consumed import with_consumed
from vtune.analysis.measure import Observed
from vtune.domain.record import Measurement


class TrainingLog:
    def __init__(self, root: Path, *, batch: int | None = None, pid: int = PID, **loader: object) -> None:
        self.writer = TrialWriter(root)
        self.pid, self.now = pid, 0.0
        self._batch, self._passes, self._index, self._backwards = batch, 0, 0, 0
        self.writer.fact("hello", pid, argv=["train.py"], torch="2.13.0", rank=pid - PID)
        self.writer.fact(
            "loader", pid, loader=0, key="train.py:8:Set#0 aaaa", dataset="Set", where="train.py:8", **loader
        )

    def begin(self, length: int | None = None) -> None:
        self._index = 0
        self.writer.begin_pass(number=self._passes, workers=0, batch=self._batch, length=length, pid=self.pid)
        self._passes += 1

    def batch(self, samples: int, *, rows: int | None = None, main_thread: bool = True) -> None:
        self.now += 0.01
        self.writer.record(
            2, self.pid, 5 if main_thread else 4, 0, self._passes - 1, self._index, self.now - 0.005, self.now,
            n1=samples if rows is None else rows, n2=samples,
        )  # fmt: skip
        self._index += 1

    def end(self) -> None:
        self.writer.fact("pass_end", self.pid, **{"pass": self._passes - 1}, batches=self._index)

    def backward(self) -> None:
        self.now += 0.01
        self.writer.record(3, self.pid, 1, index=self._backwards, a=self.now - 0.005, b=self.now)
        self._backwards += 1

    def step(self) -> None:
        self.now += 0.01
        self.writer.step(self.now, pid=self.pid)

    def epoch(self, sizes: Sequence[int], *, accumulate: int = 1, ends_with_step: bool = True) -> None:
        """The usual loop: each batch goes backward, and every so many make a step."""
        self.begin(len(sizes))
        for at, size in enumerate(sizes, 1):
            self.batch(size)
            self.backward()
            if at % accumulate == 0 or (ends_with_step and at == len(sizes)):
                self.step()
        self.end()

    def observed(self) -> Observed:
        return replace(observed(self.writer), started_s=None)

    def measured(self) -> Measurement:
        seen = self.observed()
        settings = seen.roles.settings if seen.roles is not None else {}
        return with_consumed(Measurement(effective_settings=settings), seen)
