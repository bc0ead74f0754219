from dataclasses import replace

import numpy as np
import pytest

from support.records import a_record
from vtune.analysis.costs import Costs
from vtune.analysis.draws import SlowShare, drawn
from vtune.analysis.tail import pooled, slow_of, together, with_tail
from vtune.domain.record import Measurement, WorkerCost


def costs(load_s: np.ndarray, workers: int = 8) -> Costs:
    rows = len(load_s)
    return Costs(
        workers=workers, delivering=workers, prefetch=2,
        samples_per_batch=1.0, load_s=load_s, cpu_s=load_s / 2, dispatch_s=np.zeros(rows),
        own_s=np.full(rows, 0.01), others_s=np.zeros(rows), delivery_s=np.zeros(rows),
        waited=np.ones(rows, bool), kind=np.zeros(rows, int),
        load_kind=np.zeros(rows, int),
        load_pattern=np.zeros(1, int),
        pattern=np.zeros(1, int),
    )  # fmt: skip


EVEN = np.random.default_rng(0).gamma(100, 0.01, 80)
WITH_SLOW = np.append(EVEN, [9.0, 12.0])
RATED = Measurement(samples_per_s=8.0)


def test_slow_is_told_in_medians() -> None:
    assert slow_of(EVEN, np.zeros(len(EVEN), int)) == ()
    assert slow_of(WITH_SLOW, np.zeros(len(WITH_SLOW), int)) == pytest.approx((9.0, 12.0), rel=0.05)
    assert slow_of(np.zeros(3), np.zeros(3, int)) == ()


def test_trials_with_batches_of_the_same_size_are_pooled() -> None:
    def trial(batch_size: int, slow: tuple[float, ...]) -> object:
        record = a_record()
        cost = WorkerCost(batch_s=1.0, cpu_fraction=None, batches=100, slow=slow)
        measured = replace(
            record.measurement, worker_cost=cost, effective_settings={"workers": 4, "batch_size": batch_size}
        )
        return replace(record, measurement=measured)

    found = pooled([trial(2, (8.0,)), trial(4, (9.0, 9.0)), trial(2, ()), a_record()], 2)  # type: ignore[list-item]
    assert found == SlowShare(batches=200, ratios=(8.0,))
    assert together(found, costs(WITH_SLOW)).batches == 282 and len(together(found, costs(WITH_SLOW)).ratios) == 3


def test_no_slow_batch_is_no_proof_that_there_is_none() -> None:
    found = with_tail(RATED, costs(EVEN), SlowShare(batches=220, ratios=())).tail
    assert found is not None and (found.batches, found.slow, found.matters) == (300, 0, False)
    assert found.share_at_most == pytest.approx(0.01)
    # One batch in a hundred that takes ten times as long costs eight workers more than its tenth of the time.
    assert found.samples_per_s_at_worst is not None and 5.0 < found.samples_per_s_at_worst < 0.9 * 8


def test_beside_costs_that_recur_no_worst_rate_is_told() -> None:
    patterned = replace(costs(EVEN), load_kind=np.arange(80) % 2, load_pattern=np.arange(2))
    found = with_tail(RATED, patterned, None).tail
    assert found is not None and found.share_at_most is not None and found.samples_per_s_at_worst is None


def test_slow_batches_that_were_seen_are_counted_and_said_to_matter() -> None:
    found = with_tail(RATED, costs(WITH_SLOW), None).tail
    assert found is not None and (found.slow, found.matters) == (2, True)
    assert found.share_at_most is None and found.samples_per_s_at_worst is None


@pytest.mark.parametrize(
    ("slow", "usual", "matters"),
    [
        # One batch in a hundred, five times as long: a twentieth of the time.
        ([5.0], 99, False),
        # Twelve times as long: more than a tenth.
        ([12.0], 99, True),
        ([5.0] * 3, 97, True),
        # Every third is none that is rare.
        ([5.0] * 30, 60, False),
    ],
)
def test_rare_slow_batches_matter_by_their_share_of_the_time(slow: list[float], usual: int, matters: bool) -> None:
    found = with_tail(RATED, costs(np.append(np.full(usual, 1.0), slow)), None).tail
    assert found is not None and (found.slow, found.matters) == (len(slow), matters)


@pytest.mark.parametrize(("by_sample", "slow"), [([1.0] * 90, 0), ([1.0] * 88 + [20.0] * 2, 2)])
def test_a_larger_batch_is_no_slow_one(by_sample: list[float], slow: int) -> None:
    # Batches of 2, 4 and 40 samples, in which a sample takes as long.
    samples = np.tile([2.0, 4.0, 40.0], 30)
    seen = replace(costs(samples * by_sample), load_samples=samples)
    found = with_tail(RATED, seen, None).tail
    assert found is not None and (found.slow, found.matters) == (slow, slow > 0)
    # A smaller one that took as long as all is none either.
    even = replace(costs(np.ones(90)), load_samples=samples)
    alike = with_tail(RATED, even, None).tail
    assert alike is not None and alike.slow == 0


def test_without_workers_there_is_no_queue_to_hold_up() -> None:
    assert with_tail(RATED, costs(EVEN, workers=0), None).tail is None


def test_slow_batches_that_are_all_alike_are_drawn_as_often_as_they_were_seen() -> None:
    # Told in medians they are rounded, up or down: by that none may count twice, as a slow one and as a usual one.
    for ratio in (14.996, 15.0, 15.004):
        seen = costs(np.append(np.full(196, 1.0), np.full(4, ratio)), workers=1)
        known = SlowShare(batches=200, ratios=slow_of(seen.load_s, seen.load_kind))
        load, _ = drawn(seen, (4000, 200), np.random.default_rng(0), known)
        # (4 + 1/2) / (200 + 1), as the share is told by count.
        assert float((load > 4).mean()) == pytest.approx(4.5 / 201, rel=0.1)
