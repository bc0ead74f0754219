from dataclasses import replace

from support.records import a_record
from vtune.domain.events import ProcessSample, TelemetrySample
from vtune.domain.experiment import Window
from vtune.domain.record import TrainingCost, TrialRecord, WorkerCost
from vtune.execution.stopping import has_seen_enough, stands_still, waits_for_long_steps

SURE = replace(
    a_record().measurement,
    steps_measured=50,
    samples_per_s=100.0,
    samples_per_s_ci95=(96.0, 104.0),
    rate_from="twin",
    data_wait_fraction=0.01,
    worker_cost=WorkerCost(batch_s=0.1, cpu_fraction=0.5, batches=50),
)
WINDOW = Window(steps=50, max_steps=100)


def test_a_narrow_interval_ends_the_window_at_its_least() -> None:
    assert has_seen_enough(SURE, WINDOW)
    assert not has_seen_enough(replace(SURE, steps_measured=49), WINDOW)


def test_a_wide_interval_goes_on_to_the_most() -> None:
    wide = replace(SURE, samples_per_s_ci95=(90.0, 110.0))
    assert not has_seen_enough(wide, WINDOW)
    assert has_seen_enough(replace(wide, steps_measured=100), WINDOW)


def test_precise_asks_for_less_than_what_is_usually_enough() -> None:
    assert not has_seen_enough(SURE, replace(WINDOW, max_steps=300, narrow=0.036))


def test_workers_that_made_one_batch_each_are_not_known_yet() -> None:
    many = replace(SURE, effective_settings={"workers": 32})
    assert not has_seen_enough(many, WINDOW)


def test_where_only_the_trainings_side_is_seen_the_window_is_longer() -> None:
    blind = replace(SURE, rate_from="batch_means")
    assert not has_seen_enough(blind, WINDOW)
    assert has_seen_enough(replace(blind, steps_measured=100), WINDOW)


def test_steps_that_no_loader_feeds_would_not_tell_more() -> None:
    assert has_seen_enough(replace(SURE, samples_per_s=None), WINDOW)


def test_a_training_that_waits_for_its_loader_is_watched_until_a_slow_batch_would_have_shown() -> None:
    waiting = replace(SURE, data_wait_fraction=0.5)
    assert not has_seen_enough(waiting, WINDOW)
    assert has_seen_enough(waiting, WINDOW, batches_known=60)
    seen = replace(waiting, worker_cost=WorkerCost(batch_s=0.1, cpu_fraction=0.5, batches=100))
    assert has_seen_enough(seen, WINDOW)


def looks(*, cores: float = 0.0, reads: int = 0, born_at: float = 0.0) -> list[TelemetrySample]:
    """Two processes over a minute; the second one may come later."""
    return [
        TelemetrySample(
            t_s=t,
            processes=tuple(
                ProcessSample(pid=pid, ppid=1, name="python", rss_bytes=1, cpu_s=cores * t, requested_bytes=reads * t)
                for pid in ((1, 2) if t >= born_at else (1,))
            ),
            ram_bytes=None,
            shm_used_bytes=None,
            others_cores=None,
            ram_available_bytes=None,
        )
        for t in range(60)
    ]


def test_a_tree_in_which_nobody_works_or_reads_stands_still() -> None:
    assert stands_still(looks(), 20.0) and stands_still(looks(cores=0.001), 20.0)
    assert not stands_still(looks(cores=0.02), 20.0)
    assert not stands_still(looks(reads=1), 20.0)
    # It has just begun to, or something of it has just come.
    assert not stands_still(looks(), -5.0) and not stands_still(looks(born_at=40), 20.0)
    assert stands_still(looks(born_at=10), 20.0) and not stands_still([], 20.0)


def stood_still(*steps: int, period: int | None = None) -> TrainingCost:
    return TrainingCost(batch_s=0.02, long_steps=steps, period_steps=period)


def test_a_step_for_which_the_training_stood_still_is_watched_until_it_would_have_come_again() -> None:
    def waits(steps: int, *long: int, window: Window = WINDOW, period: int | None = None) -> bool:
        measured = replace(SURE, steps_measured=steps, training_cost=stood_still(*long, period=period))
        return waits_for_long_steps(measured, window, [], steps + 2)

    assert not waits(100)
    assert waits(100, 74) and waits(140, 74)
    # It did not: nobody knows how often it comes, and nobody waits for it.
    assert not waits(160, 74)
    assert waits(160, 74, 149) and waits(220, 74, 149)
    assert not waits(230, 74, 149, 224, period=75)
    # Never for long, nor where the user said how many steps.
    assert not waits(300, 250)
    assert not waits(100, 74, window=Window(steps=100, max_steps=100))


def test_how_often_it_comes_is_known_from_the_studys_other_trials() -> None:
    def other(period: int | None, *long: int) -> TrialRecord:
        record = a_record()
        return replace(record, measurement=replace(record.measurement, training_cost=stood_still(*long, period=period)))

    unseen = replace(SURE, training_cost=stood_still())
    assert waits_for_long_steps(unseen, WINDOW, [other(75, 74, 149, 224)], 52)
    assert not waits_for_long_steps(replace(unseen, steps_measured=226), WINDOW, [other(75, 74, 149, 224)], 228)
    # Every tenth step logs something: that is in any window.
    assert not waits_for_long_steps(unseen, WINDOW, [other(10)], 52)
    assert not waits_for_long_steps(unseen, WINDOW, [other(None, 74)], 52)
