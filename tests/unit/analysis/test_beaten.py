"""When a trial that still runs is ended because the leader is surely faster, and what its record is worth then."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.choices import choose
from support.studies import a_failure, a_trial
from vtune.analysis.beaten import beat_of, beaten_words, surely_beaten
from vtune.analysis.estimate import rate_with_interval
from vtune.analysis.feasible import leaders
from vtune.analysis.model.fit import fit_model
from vtune.analysis.two_sides import launches_like
from vtune.domain.compared import Beat
from vtune.domain.experiment import Limit, Limits
from vtune.domain.record import Measurement, Tail, TrialRecord, WorkerCost
from vtune.domain.trial import TrialStatus

WHOLE = "samples_per_s_whole_run"
BEAT = Beat(trial=2, ranked_by="samples_per_s", samples_per_s=103.0, at_least=100.0)


def seen(rate: float, side: float = 0.05, *, steps: int = 30, **fields: Any) -> Measurement:
    measured = Measurement(
        samples_per_s=rate,
        samples_per_s_ci95=(rate * (1 - side), rate * (1 + side)),
        steps_measured=steps,
        rate_from="twin",
        effective_settings={"workers": 2, "prefetch_factor": 2},
        worker_cost=WorkerCost(batch_s=0.1, cpu_fraction=0.5, batches=2 * steps),
    )
    return replace(measured, **fields)


def test_what_is_far_below_the_leader_is_beaten_and_what_may_be_near_it_is_not() -> None:
    assert surely_beaten(seen(70.0), BEAT)
    assert not surely_beaten(seen(94.0, 0.02), BEAT)
    assert not surely_beaten(seen(70.0, 0.4), BEAT)
    assert not surely_beaten(seen(200.0), BEAT)


def test_less_than_twenty_steps_end_nothing() -> None:
    assert not surely_beaten(seen(10.0, steps=19), BEAT)
    assert surely_beaten(seen(10.0, steps=20), BEAT)


def test_workers_that_are_in_each_others_way_at_the_beginning_are_given_time() -> None:
    """Three rounds of eight workers are no window yet, and a ready queue that somebody fills is none either."""
    many = {"workers": 8, "prefetch_factor": 4}
    first = WorkerCost(batch_s=0.1, cpu_fraction=0.5, batches=25)
    assert not surely_beaten(seen(10.0, effective_settings=many, worker_cost=first), BEAT)
    assert surely_beaten(seen(10.0, effective_settings=many, worker_cost=replace(first, batches=26)), BEAT)
    blind = seen(10.0, effective_settings=many, rate_from="batch_means", worker_cost=None)
    assert not surely_beaten(blind, BEAT)
    assert surely_beaten(replace(blind, steps_measured=90), BEAT)
    assert not surely_beaten(replace(blind, steps_measured=90, rate_from="epochs"), BEAT)


def test_cold_reading_is_not_beaten_by_warm() -> None:
    warm = replace(BEAT, cache="warm")
    assert not surely_beaten(seen(10.0, cache="cold"), warm)
    assert surely_beaten(seen(10.0, cache="warm"), warm) and surely_beaten(seen(10.0), warm)


def test_what_a_run_pays_beside_its_steps_was_seen_once_and_beats_nobody() -> None:
    whole = replace(BEAT, ranked_by=WHOLE)
    assert not surely_beaten(seen(120.0, samples_per_s_whole_run=40.0), whole)
    assert surely_beaten(seen(60.0, samples_per_s_whole_run=58.0), whole)
    # Not known yet: by its steps alone it would be no slower.
    assert surely_beaten(seen(60.0), whole) and not surely_beaten(seen(120.0), whole)


def test_what_neighbours_may_have_taken_is_the_trials() -> None:
    assert surely_beaten(seen(70.0), BEAT, 4)
    assert not surely_beaten(seen(70.0, others_cores=2.0, tree_cores=2.0), BEAT, 4)


def a_study(rng: np.random.Generator, cv: float) -> Iterator[tuple[Measurement, Beat]]:
    """The looks at a trial whose settings are as fast as the leader's, which was the luckiest of three."""
    usual = [steps(rng, cv, 60) for _ in range(3)]
    rates = [rate_with_interval(one, [1] * 60, 1) for one in usual]
    best, interval = max(rates, key=lambda one: one[0])
    assert interval is not None
    beat = Beat(trial=1, ranked_by="samples_per_s", samples_per_s=best, at_least=interval[0])
    took = steps(rng, cv, 100)
    for count in range(20, 101, 5):
        mean, interval = rate_with_interval(took[:count], [1] * count, 1)
        yield seen(mean, steps=count, samples_per_s_ci95=interval, effective_settings={"workers": 0}), beat


def steps(rng: np.random.Generator, cv: float, count: int) -> list[float]:
    """Without a spread: 2 % of them take ten times as long."""
    luck = np.exp(0.015 * rng.standard_normal())
    each = rng.gamma(cv**-2, cv**2, count) if cv else np.where(rng.random(count) < 0.02, 10.0, 1.0)
    taken: list[float] = (luck * each).tolist()
    return taken


@pytest.mark.parametrize("cv", [0.3, *(pytest.param(cv, marks=pytest.mark.slow) for cv in (0.05, 1.0, 0.0))])
def test_of_settings_as_fast_as_the_leader_next_to_none_is_cut(cv: float) -> None:
    rng, studies = np.random.default_rng(3), 1000
    cut = sum(any(surely_beaten(*look) for look in a_study(rng, cv)) for _ in range(studies))
    assert cut < 0.005 * studies


def test_half_as_fast_is_cut_at_the_first_looks() -> None:
    rng = np.random.default_rng(4)
    found = []
    for _ in range(100):
        looks = [(replace(m, samples_per_s=m.samples_per_s / 2, samples_per_s_ci95=halved(m)), beat)
                 for m, beat in a_study(rng, 0.3) if m.samples_per_s]  # fmt: skip
        found.append(next(m.steps_measured for m, beat in looks if surely_beaten(m, beat)))
    assert np.median(found) == 20 and max(found) <= 35


def halved(measured: Measurement) -> tuple[float, float]:
    assert measured.samples_per_s_ci95 is not None
    low, high = measured.samples_per_s_ci95
    return low / 2, high / 2


def test_the_words_tell_both_sides() -> None:
    words = beaten_words(seen(3.0, 0.02, steps=24), replace(BEAT, at_least=5.2, samples_per_s=5.4), surely=True)
    assert words.startswith("ended after 24 steps: at most 3.") and words.endswith("trial 2 has at least 5.2")


def a_loser(trial: int, rate: float = 30.0, *, by: int = 2, **fields: Any) -> TrialRecord:
    record = a_trial(trial, rate, ci=0.3, asked={"workers": 2}, workers=2, **fields)
    measured = replace(record.measurement, steps_measured=24, steady=False, unsteady_because="the batches vary")
    beat = Beat(trial=by, ranked_by=WHOLE, samples_per_s=58.8, at_least=57.0)
    return replace(record, measurement=measured, beaten=beat, detail="ended after 24 steps: at most 41 samples/s")


BASE = a_trial(1, 20.0)
LEADER = a_trial(2, 60.0, asked={"workers": 4}, workers=4)


def test_the_leader_tells_what_has_to_be_reached() -> None:
    beat = beat_of(LEADER, WHOLE, 4)
    assert beat is not None and (beat.trial, beat.ranked_by) == (2, WHOLE)
    assert beat.at_least == pytest.approx(0.98 * 60 * 0.97, rel=0.01)
    assert beat_of(a_trial(2, 60.0, ci=None), WHOLE, 4) is None
    assert beat_of(a_loser(2), WHOLE, 4) is None
    assert beat_of(a_failure(2), WHOLE, 4) is None


def test_a_leader_that_may_have_missed_the_slow_batches_asks_for_less() -> None:
    tail = Tail(batches=50, slow=0, matters=False, share_at_most=0.06, samples_per_s_at_worst=45.0)
    lucky = replace(LEADER, measurement=replace(LEADER.measurement, tail=tail))
    sure, careful = beat_of(LEADER, WHOLE, 4), beat_of(lucky, WHOLE, 4)
    assert sure is not None and careful is not None
    assert careful.at_least == pytest.approx(0.75 * sure.at_least) and careful.samples_per_s == sure.samples_per_s


def test_a_trial_that_was_ended_early_is_never_chosen_and_says_why() -> None:
    found = choose([BASE, LEADER, a_loser(3)])
    assert found.best is not None and found.best.trial == 2
    lost = next(one for one in found.lost if one.trial == 3)
    assert (lost.reason, lost.why) == ("beaten", "ended after 24 steps: at most 41 samples/s")
    assert 3 not in found.tie and 3 not in found.provisional and found.ratios[3].value == pytest.approx(1.5)
    # Where the one that beat it is out, it counts by what was seen of it: it may be the best that fits.
    over = replace(LEADER, measurement=replace(LEADER.measurement, ram_peak_bytes=9 * 2**30))
    again = choose([BASE, over, a_loser(3)], limits=Limits(ram=Limit(bytes=4 * 2**30, text="4GiB")))
    assert again.best is not None and again.best.trial == 3 and 3 in again.unconfirmed
    base = replace(BASE, measurement=replace(BASE.measurement, ram_peak_bytes=9 * 2**30))
    only = choose([base, over, a_loser(3)], limits=Limits(ram=Limit(bytes=4 * 2**30, text="4GiB")))
    assert only.best is not None and only.best.trial == 3


def test_leaders_are_those_that_a_run_can_be_made_with() -> None:
    four = Limits(ram=Limit(bytes=4 * 2**30, text="4GiB"))
    over = replace(LEADER, measurement=replace(LEADER.measurement, ram_peak_bytes=9 * 2**30))
    assert leaders([BASE, LEADER, a_loser(3)], four, None) == {1, 2}
    assert leaders([BASE, over, a_loser(3)], four, None) == {1}
    died = replace(a_failure(4, TrialStatus.CRASHED, asked={"workers": 4}))
    assert leaders([BASE, LEADER, died], Limits(), None) == {1}


def test_it_stands_for_no_launch_of_its_settings_and_is_no_proof_that_they_fit() -> None:
    whole = replace(a_trial(4, 31.0, asked={"workers": 2}, workers=2))
    assert [one.trial for one in launches_like(whole, [BASE, a_loser(3), whole])] == [4]
    ran_out = a_failure(5, TrialStatus.OUT_OF_RAM, asked={"workers": 2})
    ran_out = replace(ran_out, settings={"workers": 2, "batch_size": 2})
    more = a_loser(6, measured={"effective_settings": {"workers": 3, "batch_size": 2}})
    fits = replace(more, beaten=None)
    for record, feasible in ((more, False), (fits, True)):
        model = fit_model([BASE, ran_out, record], cores=4)
        assert model is not None
        assert (model.surely_too_big({"workers": 2}, Limits()) is None) == feasible
