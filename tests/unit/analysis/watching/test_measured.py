from __future__ import annotations

from dataclasses import replace

import pytest

from vtune.analysis.watching.measured import wait_share, with_measured
from vtune.domain.counts import Counted, ProcessCounts
from vtune.domain.watching import Verdict, VerdictKind


def _counts(written_s: float, waited_s: float, *, pid: int = 7, steps: bool = True) -> ProcessCounts:
    batches = Counted(
        kind="delivered", source=0, main_thread=True, nested=False, grad=True, count=9, samples=18, waited_s=waited_s,
        last_s=written_s, longest_gap_s=1.0,
    )  # fmt: skip
    # What is waited for inside of another wait, or beside the steps, holds nobody up for longer.
    beside = [replace(batches, nested=True, waited_s=9 * waited_s), replace(batches, main_thread=False)]
    step = [replace(batches, kind="step", waited_s=0.0)] if steps else []
    return ProcessCounts(pid=pid, written_s=written_s, counted=(batches, *beside, *step))


def test_the_share_of_waiting_is_that_of_the_last_ten_seconds_by_who_steps() -> None:
    readings = [
        (float(t), [_counts(t, 5.0 + 0.3 * max(0, t - 10)), _counts(t, t, pid=8, steps=False)]) for t in range(21)
    ]
    assert wait_share(readings, 20.0) == pytest.approx(0.3)
    ranks = [(t, [_counts(t, 0.2 * t), _counts(t, 0.6 * t, pid=9)]) for t in (1.0, 5.0)]
    assert wait_share(ranks, 5.0) == pytest.approx(0.4)


def test_files_that_tell_nothing_new_measure_nothing() -> None:
    assert wait_share([], 9.0) is None
    assert wait_share([(1.0, [_counts(1.0, 1.0)]), (2.0, [_counts(2.0, 2.0)])], 2.0) is None
    assert wait_share([(float(t), [_counts(1.0, 1.0)]) for t in range(1, 20)], 20.0) is None


@pytest.mark.parametrize(
    ("kind", "share", "then"),
    [
        ("unknown", 0.8, "starved"), ("cpu", 0.8, "starved"), ("host", 0.8, "starved"), ("cpu", 0.3, "cpu"),
        ("starved", 0.6, "starved"), ("starved", 0.04, "unknown"), ("gpu", 0.6, "gpu"),
    ],
)  # fmt: skip
def test_what_is_measured_goes_before_what_only_looks_so(kind: VerdictKind, share: float, then: VerdictKind) -> None:
    found = with_measured(Verdict(kind=kind, sentence="as it looks", wait_share=0.5), share, workers=2)
    assert (found.kind, found.wait_share, found.wait_measured) == (then, share, True)
    assert f"{share:.0%} of the time (measured)" in " ".join((found.sentence, *found.evidence))


def test_a_standstill_stays_one_and_without_a_measurement_it_is_as_it_looks() -> None:
    still, seems = Verdict(kind="still", sentence=""), Verdict(kind="starved", sentence="", wait_share=0.5)
    assert with_measured(still, 0.9, workers=2) == still
    assert with_measured(seems, None, workers=2) == seems
    assert "makes its batches itself" in with_measured(Verdict(kind="cpu", sentence=""), 0.9, workers=0).sentence
