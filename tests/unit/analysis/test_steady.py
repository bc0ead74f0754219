"""Which doubts a window leaves, by their types: the benchmark of shapes shows how often they are right."""

from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pytest

from support.trial_writer import TrialWriter, observed
from vtune.analysis.doubts import doubt_text, ground_text, is_calm, steady_lines
from vtune.analysis.measure import measure, windows_measured
from vtune.analysis.steady import with_ground
from vtune.domain.experiment import PlannedRun
from vtune.domain.machine_use import RamGrowth
from vtune.domain.record import Measurement
from vtune.domain.steady import (
    DOUBTS,
    BeyondWindow,
    CacheFills,
    Doubt,
    FromStorage,
    NotComeYet,
    Order,
    PartOfEpoch,
    ShortWindow,
    Spells,
    Trend,
    TrendUnseen,
    only_unseen,
)
from vtune.journal.records import doubt_from_json, doubt_to_json

STEPS = 1000


def measured(
    folder: Path,
    own_s: np.ndarray,
    *,
    load_s: float = 0.01,
    computing: float = 0.5,
    order: str | None = "shuffled",
    epoch: int | None = 20_000,
    grows: str | None = None,
    planned: PlannedRun | None = None,
) -> Measurement:
    """A training of its own time by step, whose two workers are fast or set the pace."""
    writer = TrialWriter(folder)
    writer.hello()
    writer.loader()
    pids = writer.begin_pass(workers=2, length=None, order=order, samples=epoch)
    now, free = 0.0, [0.0, 0.0]
    for j, own in enumerate(own_s):
        worker = j % 2
        finished = max(free[worker], now - 0.05) + load_s
        writer.load(pids[worker], worker, j, finished - load_s, finished, computing=computing)
        free[worker] = finished
        returned = max(now, finished)
        writer.deliver(now, returned, j)
        now = returned + float(own)
        writer.step(now)
    if grows is not None:
        writer.fact("data_set_grows", pids[0], attribute=grows)
    return measure(observed(writer), planned or PlannedRun(), None, cores=16.0)


def kinds(found: Measurement) -> set[type[Doubt]]:
    return {type(doubt) for doubt in found.doubts}


def calm(count: int = STEPS, seed: int = 1) -> np.ndarray:
    return 0.1 * np.random.default_rng(seed).normal(1, 0.05, count)


def test_a_calm_minute_of_shuffled_samples_is_steady_and_says_its_ground(tmp_path: Path) -> None:
    found = measured(tmp_path, calm())
    assert found.steady and found.doubts == () and found.unsteady_because is None
    ground = found.ground
    assert ground is not None and ground.order is Order.SHUFFLED and ground.first_epoch_only
    assert ground.steps == pytest.approx(STEPS, abs=5) and ground.seconds == pytest.approx(0.1 * STEPS, rel=0.05)
    assert ground.rarest_steps == ground.steps // 3
    assert ground.epoch_fraction == pytest.approx(2 * STEPS / 20_000)


def test_a_calm_second_is_not_steady_and_nothing_speaks_against_it(tmp_path: Path) -> None:
    found = measured(tmp_path, calm(60))
    assert not found.steady and kinds(found) == {ShortWindow} and is_calm(found)


def test_steps_that_become_slower_or_faster_are_a_trend(tmp_path: Path) -> None:
    for number, change in enumerate((0.15, -0.3)):
        found = measured(tmp_path / str(number), calm() * (1 + change * np.linspace(-0.5, 0.5, STEPS)))
        (trend,) = (doubt for doubt in found.doubts if isinstance(doubt, Trend))
        assert trend.side == "training" and trend.change == pytest.approx(change, abs=0.05)
        assert not found.steady and not is_calm(found)


def test_slow_spells_of_which_the_window_holds_a_few_are_doubted(tmp_path: Path) -> None:
    own = calm()
    own[100:200] *= 3
    own[500:600] *= 3
    found = measured(tmp_path, own)
    assert not found.steady and Spells in kinds(found)


def test_a_part_of_an_epoch_in_file_order_is_not_the_epoch(tmp_path: Path) -> None:
    found = measured(tmp_path / "part", calm(), order="file_order")
    assert found.doubts == (PartOfEpoch(order=Order.FILE_ORDER, fraction=pytest.approx(2 * STEPS / 20_000)),)
    assert is_calm(found)
    assert measured(tmp_path / "whole", calm(), order="file_order", epoch=2 * STEPS).steady
    unknown = measured(tmp_path / "unknown", calm(), order=None)
    assert unknown.doubts[0] == PartOfEpoch(order=Order.UNKNOWN, fraction=pytest.approx(2 * STEPS / 20_000))


def test_a_part_of_the_data_with_a_loader_of_its_own_is_no_epoch(tmp_path: Path) -> None:
    def in_parts(name: str, planned: PlannedRun) -> Measurement:
        writer, now = TrialWriter(tmp_path / name), 0.0
        writer.hello()
        for number, own in enumerate(calm(1200).reshape(6, 200)):
            writer.loader(number)
            writer.begin_pass(
                number, number, workers=0, length=200, begun=now, order="file_order", samples=400, data=number
            )
            for j, own_s in enumerate(own):
                writer.deliver(now, now + 0.001, j, loader=number, pass_number=number)
                now += float(own_s)
                writer.step(now)
            writer.fact("pass_end", **{"pass": number}, batches=200)
        return measure(observed(writer), planned, None, cores=16.0)

    found = in_parts("unknown", PlannedRun())
    assert found.doubts == (PartOfEpoch(order=Order.FILE_ORDER, fraction=None),)
    assert found.ground is not None and found.ground.first_epoch_only
    found = in_parts("known", PlannedRun(samples_per_epoch=20_000))
    assert found.doubts == (PartOfEpoch(order=Order.FILE_ORDER, fraction=pytest.approx(0.12)),)
    assert in_parts("whole", PlannedRun(samples_per_epoch=2400)).steady


def test_a_data_set_that_keeps_its_samples_is_not_steady_in_its_first_epoch(tmp_path: Path) -> None:
    found = measured(tmp_path, calm(), grows="cache")
    assert found.doubts == (CacheFills(attribute="cache"),) and not is_calm(found)


@pytest.mark.parametrize(("workers", "who", "fills"), [(2, "main", False), (2, "workers", True), (0, "main", True)])
def test_memory_that_grows_is_a_cache_where_the_data_set_is_read(
    tmp_path: Path, workers: int, who: Literal["main", "workers"], fills: bool
) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    writer.begin_pass(workers=workers, length=None, order="shuffled", samples=20_000)
    for j in range(60):
        writer.deliver(0.1 * j, 0.1 * j + 0.01, j)
        writer.step(0.1 * j + 0.1)
    seen = observed(writer)
    assert seen.roles is not None
    windows = windows_measured(seen.roles, seen.loaded, seen.facts)
    # As the main process of a training with three workers grew, whose data set kept nothing.
    leak = RamGrowth(kind="leak", who=who, bytes_per_step=189_673.0)
    growing = Measurement(samples_per_s=10.0, batch_bytes=98_368, ram_growth=(leak,))
    found = with_ground(
        growing, None, roles=seen.roles, regular=windows, facts=seen.facts, planned=PlannedRun(), cores=2.0
    )
    assert (CacheFills() in found.doubts) is fills


def test_a_rate_that_hangs_on_waiting_for_data_is_not_shown_for_longer(tmp_path: Path) -> None:
    (doubt,) = measured(tmp_path / "waits", calm() / 50, load_s=0.2, computing=0.2).doubts
    assert doubt == FromStorage(waiting=pytest.approx(0.8))
    # Workers that compute for half of their time.
    assert FromStorage not in kinds(measured(tmp_path / "computes", calm() / 50, load_s=0.2))


def test_a_trend_that_would_not_have_been_seen_is_doubted(tmp_path: Path) -> None:
    spread = np.random.default_rng(1).lognormal(0, 1.4, STEPS)
    assert TrendUnseen in kinds(measured(tmp_path, 0.1 * spread / spread.mean()))


def test_a_checkpoint_that_is_known_to_come_and_has_not_is_named(tmp_path: Path) -> None:
    found = measured(tmp_path / "later", calm(), planned=PlannedRun(checkpoint_every_steps=5000))
    assert found.doubts == (NotComeYet(what="checkpoint", every_steps=5000),) and is_calm(found)
    assert measured(tmp_path / "sooner", calm(), planned=PlannedRun(checkpoint_every_steps=500)).steady


def test_every_doubt_has_words_and_comes_back_from_the_journal() -> None:
    values = {
        "steps": 60, "seconds": 8.0, "batches": 3, "workers": 2, "half_width": 0.2, "of": "steps", "replayed": 9.0,
        "seen": 5.0, "behind": "thread", "side": "loader", "change": -0.2, "lasts_steps": 40.0, "attribute": "cache",
        "order": Order.FILE_ORDER, "fraction": 0.026, "waiting": 0.8, "what": "checkpoint", "every_steps": 500,
    }  # fmt: skip
    texts = set()
    for kind in get_args(Doubt):
        doubt = kind(**{name: values[name] for name in kind.__slots__})
        texts.add(doubt_text(doubt))
        assert doubt_from_json(doubt_to_json(doubt)) == doubt
    assert len(texts) == len(DOUBTS)
    # An option that helps is advice, which knows the trial's window.
    assert not any("--" in text for text in texts)
    assert doubt_from_json({"kind": "of a newer version"}) is None


def test_a_doubt_about_the_unseen_alone_leaves_a_window_calm() -> None:
    unseen = ShortWindow(steps=60, seconds=8.0)
    assert only_unseen((unseen,)) and not only_unseen(()) and not only_unseen((unseen, CacheFills()))
    assert set(get_args(BeyondWindow)) < set(DOUBTS)


def test_the_ground_is_told_in_one_line_and_an_older_journals_reason_stays(tmp_path: Path) -> None:
    found = measured(tmp_path, calm(60), order="file_order")
    assert found.ground is not None
    assert steady_lines(found) == [ground_text(found.ground)]
    older = replace(Measurement(), unsteady_because="the steps vary")
    assert steady_lines(older) == ["not shown to be steady: the steps vary"] and not is_calm(older)
