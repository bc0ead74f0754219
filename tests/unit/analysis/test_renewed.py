"""What launches have shown, in later promises and projections: once each, and only where it fits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.studies import a_trial
from vtune.analysis.renewed import promised_again, renewals_for, renewed, shown_pauses_s, with_launches
from vtune.domain.launch import Promise
from vtune.domain.record import Measurement, Pause, Projection, TrialRecord
from vtune.domain.renewal import OtherPace, RarePause, Renewal
from vtune.domain.steady import NotComeYet, ShortWindow
from vtune.knobs.registry import same_knobs

# Of 4000 samples an epoch and batches of 2, twice: 4000 steps at 20 samples/s.
SAMPLES, BATCH, RATE, RUN_S = 4000, 2, 20.0, 400.0
SAME = same_knobs(())
CHECKPOINT = RarePause(what="checkpoint", seconds=3.0, seen=3, every_steps=150.0)
SLOWER = OtherPace(side="training", change=0.25)


def trial(number: int = 1, **measured: Any) -> TrialRecord:
    record = a_trial(number, RATE, batch=BATCH)
    numbers = {
        "samples_per_s_whole_run": RATE, "samples_per_epoch": SAMPLES, "steps_measured": 60, "steady": True,
        "projected": Projection(epoch_s=200.0, run_s=RUN_S, epochs=2, cost=8.0), **measured,
    }  # fmt: skip
    return replace(record, measurement=replace(record.measurement, **numbers))


def renewal(because: Any = CHECKPOINT, *, of: int = 1, rate: float | None = None, **fields: Any) -> Renewal:
    return Renewal(
        trial=of, after_steps=460, because=because, samples_per_s_before=RATE, samples_per_s=rate or 16.0,
        steady_samples_per_s=rate, steady_samples_per_s_ci95=(rate * 0.99, rate * 1.01) if rate else None,
        **{"launch": 1, **fields},
    )  # fmt: skip


def told(record: TrialRecord, *renewals: Renewal, beside: tuple[TrialRecord, ...] = ()) -> Measurement:
    return with_launches([record, *beside], renewals, SAME)[0].measurement


def test_a_pause_that_a_launch_has_shown_is_paid_as_often_as_it_comes() -> None:
    measured = told(trial(), renewal())
    # 4000 steps: 26 times in the run, 13.3 an epoch.
    assert measured.projected.run_s == pytest.approx(RUN_S + 26 * 3.0)
    assert measured.projected.epoch_s == pytest.approx(200.0 + 2000 / 150 * 3.0)
    assert measured.samples_per_s_whole_run == pytest.approx(2 * SAMPLES / (RUN_S + 26 * 3.0))
    assert measured.projected.cost == pytest.approx(8.0 * (RUN_S + 78) / RUN_S)
    [pause] = measured.pauses
    assert (pause.what, pause.every_steps, pause.launch, pause.seen) == ("checkpoint", 150.0, 1, 3)
    [note] = with_launches([trial()], [renewal()], SAME)[0].notes
    assert "launch 1" in note and "every 150 steps" in note
    # The rate by which settings are told apart stays.
    assert (measured.samples_per_s, shown_pauses_s(measured)) == (RATE, pytest.approx(3.0 / 300))


def test_it_is_in_the_projection_once() -> None:
    once = told(trial(), renewal())
    again = replace(trial(), measurement=once)
    assert with_launches([again], [renewal()], SAME) == [again]
    newer = RarePause(what="checkpoint", seconds=6.0, seen=3, every_steps=150.0)
    twice = told(trial(), renewal(), renewal(newer, launch=2))
    assert twice.projected.run_s == pytest.approx(RUN_S + 26 * 6.0) and twice.pauses[0].launch == 2


@pytest.mark.parametrize("seen", [{"counted": True}, {"seldom": True, "every_steps": 100.0}])
def test_a_trial_that_saw_how_often_it_comes_keeps_its_own(seen: dict[str, Any]) -> None:
    own = Pause(what="checkpoint", seconds=1.0, seen=2, **seen)
    assert told(trial(pauses=(own,)), renewal()) == trial(pauses=(own,)).measurement


def test_one_that_the_trial_saw_once_is_paid_for_once_an_epoch_until_a_launch_tells() -> None:
    own = Pause(what="checkpoint", seconds=2.0, seen=1, seldom=True)
    measured = told(trial(pauses=(own,)), renewal())
    assert measured.projected.run_s == pytest.approx(RUN_S + 26 * 3.0 - 2 * 2.0) and len(measured.pauses) == 1


def test_a_stop_that_a_long_window_must_have_held_is_in_its_rate() -> None:
    stop = RarePause(what="stop", seconds=1.5, seen=6, every_steps=150.0)
    assert told(trial(), renewal(stop, rate=16.0)).projected.run_s == pytest.approx(RUN_S + 26 * 1.5)
    assert told(trial(steps_measured=900), renewal(stop, rate=16.0)).projected.run_s == RUN_S


def test_a_validation_at_the_end_of_each_epoch_is_paid_once_an_epoch() -> None:
    at_end = RarePause(what="validation", seconds=30.0, seen=3)
    assert told(trial(), renewal(at_end)).projected.run_s == pytest.approx(RUN_S + 2 * 30.0)


def test_what_was_known_to_come_and_had_not_is_no_doubt_any_more() -> None:
    waits = NotComeYet(what="checkpoint", every_steps=150)
    measured = told(trial(doubts=(waits,), steady=False), renewal())
    assert measured.doubts == () and measured.steady
    short = ShortWindow(steps=60, seconds=6.0)
    measured = told(trial(doubts=(waits, short), steady=False), renewal())
    assert measured.doubts == (short,) and not measured.steady


def test_another_training_or_other_code_has_other_pauses() -> None:
    source = replace(trial(1), evidence={"code": {"train.py": "aa"}})
    other_code = replace(trial(2), evidence={"code": {"train.py": "bb"}})
    assert told(other_code, renewal(), beside=(source,)) == other_code.measurement
    larger = a_trial(2, RATE, batch=4)
    assert told(larger, renewal(), beside=(source,)) == larger.measurement
    # Other settings of the same training have the same ones.
    more_workers = replace(trial(2), settings={"workers": 4, "batch_size": 2}, asked={"workers": 4})
    assert told(more_workers, renewal(), beside=(source,)).projected.run_s == pytest.approx(RUN_S + 78)
    # And a launch is no trial.
    ran = replace(trial(2), origin="launch")
    assert told(ran, renewal(), beside=(source,)) == ran.measurement


PROMISE = Promise(
    trial=1, samples_per_s=RATE, samples_per_s_ci95=(19.0, 21.0), samples_per_s_whole_run=RATE, run_s=RUN_S,
    effective_batch=BATCH,
)  # fmt: skip


def test_the_run_that_goes_on_is_promised_what_it_has_shown() -> None:
    # With its pauses 16 samples/s: 8000 samples take 500 s; between them it is as fast as promised.
    paused = renewed(PROMISE, renewal())
    assert (paused.samples_per_s, paused.run_s, paused.samples_per_s_whole_run) == (RATE, 500.0, 16.0)
    slower = renewed(PROMISE, renewal(SLOWER, rate=16.0))
    assert (slower.samples_per_s, slower.run_s) == (16.0, 500.0)
    assert slower.samples_per_s_ci95 == (pytest.approx(15.84), pytest.approx(16.16))


def test_a_later_promise_takes_the_rate_and_pays_a_stop_only_in_its_projection() -> None:
    assert promised_again(PROMISE, [renewal()]) == PROMISE
    assert promised_again(PROMISE, [renewal(SLOWER, rate=16.0)]).run_s == pytest.approx(500.0)
    stop = RarePause(what="stop", seconds=1.5, seen=6, every_steps=150.0)
    stopping = promised_again(PROMISE, [renewal(stop, rate=16.0)])
    assert (stopping.samples_per_s, stopping.run_s) == (16.0, RUN_S)
    # Renewed once more, upwards: it was that day's pace.
    again = [renewal(SLOWER, rate=16.0), renewal(OtherPace(side="training", change=-0.2), rate=20.0, launch=2)]
    assert promised_again(PROMISE, again).run_s == pytest.approx(RUN_S)


def test_only_launches_of_the_same_settings_and_code_renew_a_later_promise() -> None:
    source = replace(trial(1), evidence={"code": {"train.py": "aa"}})
    same = renewal(SLOWER, rate=16.0, settings={})
    others = renewal(SLOWER, rate=16.0, settings={"workers": 4})
    gone = renewal(SLOWER, rate=16.0, of=9)
    assert renewals_for(source, {}, [source], [same, others, gone], SAME) == [same]
    changed = replace(trial(2), evidence={"code": {"train.py": "bb"}})
    assert renewals_for(changed, {}, [source, changed], [same], SAME) == []
