"""Several loaders feed the steps of many trainings: all their samples are the rate's, and the time in `next()` of each
is waiting for data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.trial_writer import TrialWriter, observed
from vtune.analysis.diagnose import diagnose
from vtune.analysis.measure import measure
from vtune.domain.consumed import NoBatch
from vtune.domain.experiment import PlannedRun
from vtune.domain.machine import Machine
from vtune.domain.record import Measurement

MACHINE = Machine(host="a", kernel="6", cpu_model=None, cores=8.0, ram_bytes=None, shm_bytes=None)
STEPS = 90


@dataclass(frozen=True)
class Take:
    """One `next()`: of this loader, so many samples, in so many seconds."""

    loader: int
    samples: int
    waits_s: float
    grad: bool = True


def trained(
    root: Path, loaders: int, plan: Sequence[Sequence[Take]], *, computes_s: float = 0.02, workers: int = 0
) -> TrialWriter:
    """The steps take the plan's batches by turns, then compute."""
    writer = TrialWriter(root)
    writer.hello()
    for number in range(loaders):
        writer.loader(number, f"train.py:{number + 1}:Set#0")
        writer.begin_pass(number, loader=number, workers=workers, length=1000)
    now, taken = 0.0, [0] * loaders
    for step in range(STEPS):
        for take in plan[step % len(plan)]:
            returned = now + take.waits_s
            writer.deliver(
                now, returned, taken[take.loader], loader=take.loader, pass_number=take.loader,
                samples=take.samples, flags=5 if take.grad else 1,
            )  # fmt: skip
            taken[take.loader] += 1
            now = returned
        looked_at = step % 7 == 5
        marks = (now, now + 0.001, now + 0.002, now + 0.003, now + 0.004, now + computes_s - 0.0002)
        for stage, at_s in enumerate(marks if looked_at else ()):
            writer.record(6, group=stage, index=step + 1, a=at_s, b=at_s, c=-1.0)
        writer.record(3, index=step, a=now + 0.003, b=now + 0.004)
        now += computes_s
        writer.step(now)
    return writer


def numbers(writer: TrialWriter) -> Measurement:
    seen = observed(writer)
    return measure(seen, PlannedRun(), None)


def test_the_samples_of_all_loaders_that_feed_a_step_are_the_rates(tmp_path: Path) -> None:
    found = numbers(trained(tmp_path, 2, [[Take(0, 8, 0.002), Take(1, 24, 0.006)]]))
    assert found.samples_per_s == pytest.approx(32 / 0.028, rel=0.01)
    assert found.compute_samples_per_s == pytest.approx(32 / 0.020, rel=0.01)
    assert found.data_wait_fraction == pytest.approx(8 / 28, abs=0.01)
    assert found.other_loaders_wait_fraction == pytest.approx(0.0, abs=1e-9)
    assert found.fed_by == ("train.py:8", "train.py:8")
    assert found.rate_from == "batch_means"
    assert any("train.py:8" in line for line in diagnose(found, MACHINE).next)
    assert found.consumed is not None and found.consumed.mean == 32
    assert found.consumed.no_batch is NoBatch.SEVERAL_LOADERS


def test_tasks_in_turns_are_no_late_host(tmp_path: Path) -> None:
    turns = [[Take(number, 8, 0.001)] for number in range(3)]
    found = numbers(trained(tmp_path, 3, turns))
    assert found.samples_per_s == pytest.approx(8 / 0.021, rel=0.01)
    assert found.effective_batch == 8
    assert found.outside_fraction is not None and found.outside_fraction < 0.25
    assert diagnose(found, MACHINE).bottleneck == "compute"


def test_tasks_that_come_seldom_feed_the_steps_as_well(tmp_path: Path) -> None:
    turns = [[Take(number, 8, 0.001)] for number in (0, 0, 1, 0, 0, 2, 0, 1, 0, 1)]
    found = numbers(trained(tmp_path, 3, turns))
    assert len(found.fed_by) == 3
    assert found.samples_per_s == pytest.approx(8 / 0.021, rel=0.01)


def test_tasks_of_different_batches_vary(tmp_path: Path) -> None:
    found = numbers(trained(tmp_path, 2, [[Take(0, 8, 0.001)], [Take(1, 24, 0.001)]]))
    assert found.samples_per_s == pytest.approx(16 / 0.021, rel=0.02)
    assert found.consumed is not None and found.consumed.no_batch is NoBatch.VARIES
    assert dict(found.consumed.by_step) == {8.0: STEPS / 2, 24.0: STEPS / 2}


@pytest.mark.parametrize("grad", [True, False])
def test_a_validation_every_third_step_feeds_nothing(tmp_path: Path, grad: bool) -> None:
    train = Take(0, 8, 0.001)
    validation = [Take(1, 8, 0.002, grad)] * 5
    found = numbers(trained(tmp_path, 2, [[train], [train], [*validation, train]]))
    assert found.fed_by == ()
    assert found.consumed is not None and found.consumed.mean == 8


def test_the_stock_of_each_loader_that_feeds_is_looked_at(tmp_path: Path) -> None:
    """The second loader lives on its queue: nobody sees its pace."""
    writer = trained(tmp_path, 2, [[Take(0, 8, 0.0001), Take(1, 24, 0.0001)]], workers=1)
    for number in range(STEPS):
        for loader, at_s in ((0, number * 0.0202), (1, number * 0.0002)):
            writer.load(5000 + 10 * loader, 0, number, at_s, at_s + 0.0001, 8)
    found = numbers(writer)
    assert [type(doubt).__name__ for doubt in found.doubts][:1] == ["Drained"]
