import math
import random
from dataclasses import replace

import pytest

from support.choices import choose
from support.records import a_gpu_record
from support.studies import a_failure, a_trial
from vtune.analysis.comparable import lived_longer
from vtune.analysis.compare import Rate, disagreement, launched, lost_to_others, ratio_of, widening_for
from vtune.domain.choice import Choice
from vtune.domain.experiment import Limit, Limits
from vtune.domain.record import Ceiling, Projection, TrialRecord
from vtune.domain.trial import RaceLeg, TrialStatus

GIB = 2**30
BASELINE = a_trial(1, 10.0)
FOUR = {"workers": 4}


def limits(ram: int | None = None, vram: int | None = None) -> Limits:
    return Limits(
        ram=Limit(bytes=ram, text=f"{ram} B") if ram else None,
        vram=Limit(bytes=vram, text=f"{vram} B") if vram else None,
    )


def reasons(choice: Choice) -> dict[int, str]:
    return {lost.trial: lost.reason for lost in choice.lost}


def best(choice: Choice) -> int | None:
    return choice.best.trial if choice.best else None


def test_what_is_shown_to_be_faster_wins_and_the_speedup_has_an_interval() -> None:
    choice = choose([BASELINE, a_trial(2, 31.0, asked=FOUR)])
    assert best(choice) == 2 and choice.baseline == BASELINE and choice.baseline_is_own
    assert choice.speedup is not None and choice.speedup.ci95 is not None
    assert choice.speedup.value == pytest.approx(3.1)
    low, high = choice.speedup.ci95
    # Both rates are known to 3 %: their ratio to some 4.2 %.
    assert low == pytest.approx(3.1 / 1.0433, rel=0.002) and high == pytest.approx(3.1 * 1.0433, rel=0.002)
    assert reasons(choice) == {1: "baseline"}


def test_what_only_looks_faster_does_not_win() -> None:
    choice = choose([BASELINE, a_trial(2, 10.3, asked=FOUR)])
    assert best(choice) == 1 and choice.tie == (2,) and reasons(choice) == {2: "tie"}
    assert choice.speedup is not None and choice.speedup.value == 1


def test_without_an_interval_nothing_is_shown() -> None:
    assert best(choose([BASELINE, a_trial(2, 50.0, asked=FOUR, ci=None)])) == 1
    assert best(choose([replace(BASELINE, measurement=replace(BASELINE.measurement, samples_per_s_ci95=None)),
                        a_trial(2, 50.0, asked=FOUR)])) == 1  # fmt: skip


def test_the_fastest_of_many_equal_settings_is_rarely_called_a_winner() -> None:
    """95 %, however many are compared: without widening it would be two studies in three."""
    chance, won = random.Random(7), 0
    for _ in range(200):
        rates = [10 * math.exp(chance.gauss(0, 0.03 / 1.96)) for _ in range(20)]
        trials = [a_trial(n, rate, asked={"workers": n} if n > 1 else {}) for n, rate in enumerate(rates, 1)]
        won += best(choose(trials)) != 1
    assert won <= 20


def test_a_faster_trial_over_the_ram_limit_loses_to_a_slower_one_within_it() -> None:
    large = a_trial(2, 40.0, asked={"workers": 8}, measured={"ram_peak_bytes": 30 * GIB})
    records = [BASELINE, large, a_trial(3, 20.0, asked=FOUR)]
    choice = choose(records, limits=limits(ram=24 * GIB))
    assert best(choice) == 3 and reasons(choice)[2] == "over_limit"
    why = next(lost.why for lost in choice.lost if lost.trial == 2)
    assert "30 GiB" in why and "24 GiB" in why and "--ram-limit 30GiB" in why
    assert best(choose(records, limits=limits(ram=32 * GIB))) == 2


def test_what_one_launch_was_seen_to_take_counts_for_the_others_of_its_settings() -> None:
    # The second one waited for the validation.
    small, large = {"ram_peak_bytes": 2 * 2**30}, {"ram_peak_bytes": 5 * 2**30}
    records = [
        a_trial(1, 10.0, measured=small),
        a_trial(2, 10.0, measured=large),
        a_trial(3, 8.0, asked={"workers": 4}, measured=small),
    ]
    choice = choose(records, limits=Limits(ram=Limit(bytes=4 * 2**30, text="4GiB")))
    assert best(choice) == 3 and reasons(choice)[1] == reasons(choice)[2] == "over_limit"


def test_a_baseline_over_the_limit_gives_way_to_a_slower_trial() -> None:
    heavy = a_trial(1, 10.0, measured={"ram_peak_bytes": 9 * GIB})
    choice = choose([heavy, a_trial(2, 8.0, asked={"workers": 0})], limits=limits(ram=4 * GIB))
    assert best(choice) == 2 and choice.speedup is not None and choice.speedup.value == pytest.approx(0.8)


def test_with_everything_over_a_limit_the_nearest_is_named() -> None:
    records = [
        a_trial(n, 10.0 * n, asked={"workers": n}, measured={"ram_peak_bytes": size * GIB})
        for n, size in ((1, 9), (2, 5), (3, 7))
    ]
    choice = choose(records, limits=limits(ram=4 * GIB))
    assert best(choice) is None and choice.speedup is None and choice.tie == ()


def test_vram_is_held_against_each_device_and_a_share_is_of_its_own_size() -> None:
    gpu = replace(a_gpu_record(trial=1), asked={})
    assert best(choose([gpu], limits=limits(vram=80 * GIB))) == 1
    assert best(choose([gpu], limits=limits(vram=60 * GIB))) is None
    half, most = (Limits(vram=Limit(fraction=share, text="share")) for share in (0.5, 0.95))
    assert best(choose([gpu], limits=half)) is None and best(choose([gpu], limits=most)) == 1


def test_a_limit_that_could_not_be_judged_is_told() -> None:
    without_gpu = choose([BASELINE], limits=limits(vram=8 * GIB))
    assert best(without_gpu) == 1 and any("VRAM" in line and "no GPU" in line for line in without_gpu.remarks)
    share = Limits(ram=Limit(fraction=0.5, text="50%"))
    assert any("RAM limit of 50%" in line for line in choose([BASELINE], limits=share).remarks)
    assert best(choose([BASELINE], limits=share, ram_total_bytes=4 * GIB)) is None


@pytest.mark.parametrize("status", [status for status in TrialStatus if status is not TrialStatus.COMPLETED])
def test_a_trial_that_did_not_complete_never_wins_however_fast(status: TrialStatus) -> None:
    choice = choose([BASELINE, a_trial(2, 99.0, asked=FOUR, status=status, detail="why")])
    assert best(choice) == 1 and reasons(choice) == {2: "failed"} and 2 not in choice.ratios


def test_a_window_that_lived_on_stock_never_wins() -> None:
    choice = choose([BASELINE, a_trial(2, 99.0, asked=FOUR, measured={"fed_from_stock": True})])
    assert best(choice) == 1 and reasons(choice) == {2: "not_lasting"}


def test_failures_only_choose_nothing() -> None:
    choice = choose([a_failure(1), a_failure(2, TrialStatus.HUNG)])
    assert choice.best is None and choice.baseline is None and choice.ranked_by is None
    assert choose([]) == Choice()


def test_one_measure_ranks_all() -> None:
    slow_start = a_trial(2, 31.0, asked=FOUR, measured={"samples_per_s_whole_run": 12.0})
    assert choose([BASELINE, slow_start]).ranked_by == "samples_per_s_whole_run"
    assert choose([BASELINE, slow_start]).speedup.value == pytest.approx(12 / 9.8)  # type: ignore[union-attr]
    lacking = choose([BASELINE, slow_start, a_trial(3, 20.0, asked={"workers": 2}, whole=False)])
    assert lacking.ranked_by == "samples_per_s" and any("trial 3" in line for line in lacking.remarks)
    assert best(lacking) == 2


def test_among_equals_the_one_that_asks_less_wins() -> None:
    records = [
        BASELINE,
        a_trial(2, 30.3, asked={"workers": 12}),
        a_trial(3, 30.0, asked=FOUR),
        a_trial(4, 30.2, asked={"workers": 2, "batch_size": 4}, batch=4),
    ]
    choice = choose(records)
    assert best(choice) == 3 and set(choice.tie) == {2, 4}
    assert "asks less" in next(lost.why for lost in choice.lost if lost.trial == 2)


def test_a_clearly_faster_trial_wins_though_it_asks_more() -> None:
    assert (
        best(choose([BASELINE, a_trial(2, 20.0, asked={"workers": 2}), a_trial(3, 30.0, asked={"workers": 12})])) == 3
    )


def test_cold_and_warm_are_not_compared() -> None:
    cold = a_trial(1, 10.0, measured={"cache": "cold"})
    warm = a_trial(2, 31.0, asked=FOUR, measured={"cache": "warm"})
    choice = choose([cold, warm])
    assert best(choice) == 1 and reasons(choice) == {2: "other_cache"}
    assert any("cold" in line and "warm" in line for line in choice.remarks)
    again = choose([cold, warm, a_trial(3, 15.0, measured={"cache": "warm"})])
    assert best(again) == 2 and again.baseline is not None and again.baseline.trial == 3
    assert again.speedup is not None and again.speedup.value == pytest.approx(31 / 15)


def test_the_first_of_several_baselines_is_the_baseline_and_the_others_are_no_rivals() -> None:
    choice = choose([BASELINE, a_trial(2, 10.2), a_trial(3, 9.9)])
    assert choice.baseline == BASELINE and best(choice) == 1 and set(reasons(choice).values()) == {"repeated"}


def test_repeats_that_disagree_widen_every_interval() -> None:
    calm = choose([BASELINE, a_trial(2, 12.0, asked=FOUR)])
    assert best(calm) == 2
    drifting = choose([BASELINE, a_trial(2, 17.0, asked=FOUR), a_trial(3, 14.0)])
    assert best(drifting) == 3 and any("widened" in line for line in drifting.remarks)


def test_of_two_launches_of_the_baseline_the_faster_counts_and_of_two_winners_the_slower() -> None:
    unlucky, lucky = a_trial(1, 10.0), a_trial(2, 10.4)
    choice = choose([unlucky, lucky, a_trial(3, 15.0, asked=FOUR), a_trial(4, 15.4, asked=FOUR)])
    assert choice.baseline == lucky and best(choice) == 3
    assert choice.speedup is not None and choice.speedup.value == pytest.approx(15 / 10.4)


def test_the_middle_of_several_launches_stands_for_its_settings() -> None:
    records = [BASELINE, *(a_trial(n, rate, asked=FOUR) for n, rate in ((2, 30.0), (3, 31.0), (4, 30.5)))]
    assert best(choose(records)) == 4


def test_without_a_trial_of_the_users_own_the_first_stands_in_and_says_so() -> None:
    choice = choose([a_failure(1), a_trial(2, 10.0, asked={"workers": 2}), a_trial(3, 30.0, asked=FOUR)])
    assert choice.baseline is not None and choice.baseline.trial == 2 and not choice.baseline_is_own


def test_an_older_record_tells_by_its_reason_that_nothing_was_turned() -> None:
    older = replace(BASELINE, asked=None)
    assert choose([a_trial(1, 9.0, asked=FOUR), replace(older, trial=2)]).baseline == replace(older, trial=2)


def test_a_ratios_interval_joins_the_far_sides_of_both() -> None:
    ratio = ratio_of(Rate(20.0, (10.0, 40.0)), Rate(10.0, (10.0, 10.0)))
    assert ratio.ci95 == pytest.approx((1.0, 4.0))
    both = ratio_of(Rate(20.0, (10.0, 40.0)), Rate(10.0, (5.0, 20.0)))
    assert both.ci95 == pytest.approx((2 / 2**2**0.5, 2 * 2**2**0.5))
    lopsided = ratio_of(Rate(10.0, (10.0, 10.0)), Rate(10.0, (5.0, 10.0)))
    assert lopsided.ci95 == pytest.approx((1.0, 2.0))
    assert ratio_of(Rate(1.0, (2.0, 3.0)), Rate(1.0, (1.0, 1.0))).ci95 is None


def test_an_interval_is_never_narrower_than_launches_differ() -> None:
    low, high = launched(Rate(100.0, (99.9, 100.1))).interval or (0, 0)
    assert low == pytest.approx(100 / 1.0298, rel=1e-3) and high == pytest.approx(102.98, rel=1e-3)
    wide = Rate(100.0, (80.0, 120.0))
    assert launched(wide).interval == pytest.approx(wide.interval)
    assert launched(Rate(100.0, None)).interval is None


def test_others_make_a_rate_a_lower_bound() -> None:
    quiet, disturbed = launched(Rate(100.0, (97.0, 103.0))), launched(Rate(100.0, (97.0, 103.0)), lost_to_others(0.6))
    assert quiet.interval and disturbed.interval
    assert disturbed.interval[0] == quiet.interval[0] and disturbed.interval[1] == pytest.approx(116.5, abs=0.1)
    assert lost_to_others(5.0) == lost_to_others(1.0) == 0.25


def test_widening_grows_with_the_number_of_comparisons() -> None:
    assert widening_for(0) == widening_for(1) == 1
    assert widening_for(2) == pytest.approx(1.14, abs=0.01) and widening_for(20) == pytest.approx(1.54, abs=0.01)


def test_agreeing_repeats_widen_nothing() -> None:
    assert disagreement([[Rate(10.0, (9.7, 10.3)), Rate(10.05, (9.7, 10.4))], [Rate(5.0, (4.9, 5.1))]]) == 1
    assert disagreement([[Rate(10.0, (9.7, 10.3)), Rate(14.0, (13.6, 14.4))]]) > 5


# Five probes of one training with a setting that cannot matter, while others kept 1.2 to 1.5 of its 2 cores busy.
EQUAL = [
    (90.93, 87.77, 94.19),
    (92.20, 89.29, 95.21),
    (82.79, 78.82, 86.95),
    (87.39, 84.20, 90.71),
    (87.87, 84.89, 90.96),
]


def beside_others(others: float, *rates: tuple[float, float, float]) -> list[TrialRecord]:
    return [
        a_trial(n, value, asked={"prefetch_factor": n} if n > 1 else {},
                measured={"samples_per_s_ci95": (low, high), "others_cores": others})
        for n, (value, low, high) in enumerate(rates, 1)
    ]  # fmt: skip


@pytest.mark.parametrize("first", range(5))
@pytest.mark.parametrize("whole", [2, 3, 5])
def test_five_real_probes_of_one_training_beside_others_are_a_tie(first: int, whole: int) -> None:
    rates = [EQUAL[first], *EQUAL[:first], *EQUAL[first + 1 :]][:whole]
    choice = choose(beside_others(1.2, *rates), cores=2.0)
    assert best(choice) == 1 and choice.speedup is not None and choice.speedup.value == 1
    assert set(choice.tie) == set(range(2, whole + 1))
    assert any("1.2 of 2 cores busy" in line and "16% higher" in line for line in choice.remarks)


def test_others_count_by_the_cores_there_are_and_by_the_busy_ones_where_those_are_not_known() -> None:
    rates = [EQUAL[2], EQUAL[1]]
    assert best(choose(beside_others(1.2, *rates), cores=64.0)) == 2
    assert best(choose(beside_others(1.2, *rates))) == 1
    assert not choose(beside_others(0.05, *rates), cores=2.0).remarks


def test_a_quiet_baseline_loses_to_a_faster_trial_that_others_disturbed() -> None:
    faster = a_trial(2, 11.5, asked=FOUR, measured={"others_cores": 1.5})
    assert best(choose([BASELINE, faster], cores=2.0)) == 2
    assert (
        best(choose([a_trial(1, 10.0, measured={"others_cores": 1.5}), a_trial(2, 11.5, asked=FOUR)], cores=2.0)) == 1
    )


def studies(seed: int, *, trials: int, gain: float, share: float) -> list[Choice]:
    """Launches as they were seen to differ: by 1.5 %, and by 0.056 of the share that others took; the window's own
    interval tells 2 to 5 % of it."""
    chance, made = random.Random(seed), []
    for _ in range(200):
        records = []
        for n in range(1, trials + 1):
            window, lost = chance.uniform(0.01, 0.025), abs(chance.gauss(0, 0.056 * share / 0.6))
            rate = 100 * (gain if n == trials else 1) * math.exp(chance.gauss(0, math.hypot(0.015, window)) - lost)
            asked = {"prefetch_factor": n} if n > 1 else {}
            half = 1.96 * math.hypot(0.015, window)
            records.append(a_trial(n, rate, ci=half, asked=asked, measured={"others_cores": 2 * share}))
        made.append(choose(records, cores=2.0))
    return made


@pytest.mark.parametrize("trials", [2, 5, 20])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.7])
def test_equal_settings_are_seldom_called_different_whatever_the_neighbours_do(trials: int, share: float) -> None:
    wrong = sum(best(choice) != 1 for choice in studies(11, trials=trials, gain=1.0, share=share))
    assert wrong / 200 < 0.05


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_a_gain_of_a_third_is_found(share: float) -> None:
    found = sum(best(choice) == 5 for choice in studies(12, trials=5, gain=1.3, share=share))
    assert found / 200 > 0.9


def test_a_gain_too_small_to_matter_is_none_however_narrow_the_intervals() -> None:
    little = choose([a_trial(1, 10.0, ci=0.001), a_trial(2, 10.55, asked=FOUR, ci=0.001)])
    assert little.ratios[2].shown_faster and best(little) == 1 and "more than 2%" in little.lost[0].why


def test_a_winner_is_unconfirmed_until_both_were_launched_twice_or_the_gap_is_beyond_doubt() -> None:
    once = [BASELINE, a_trial(2, 11.5, asked=FOUR)]
    assert best(choose(once)) == 2 and choose(once).unconfirmed == (1, 2)
    again = [*once, a_trial(3, 11.45, asked=FOUR)]
    assert choose(again).unconfirmed == (1,)
    both = choose([*again, a_trial(4, 10.05)])
    assert best(both) == 3 and both.unconfirmed == ()
    assert choose([BASELINE, a_trial(2, 13.0, asked=FOUR)]).unconfirmed == ()
    assert choose([BASELINE, a_trial(2, 10.1, asked=FOUR)]).unconfirmed == ()


def test_a_launch_from_another_cache_confirms_nothing() -> None:
    warm, cold = {"cache": "warm"}, {"cache": "cold"}
    records = [a_trial(1, 10.0, measured=warm), a_trial(2, 11.5, asked=FOUR, measured=warm)]
    assert choose([*records, a_trial(3, 9.0, measured=cold)]).unconfirmed == (1, 2)


def test_too_few_steps_win_only_where_nothing_better_is_there_and_are_called_provisional() -> None:
    short = {"steady": False, "steps_measured": 1}
    faster = a_trial(2, 31.0, asked=FOUR, measured=short)
    choice = choose([BASELINE, faster])
    assert best(choice) == 1 and reasons(choice) == {2: "too_short"} and "1 measured step," in choice.lost[0].why
    assert choice.tie == () and choice.provisional == ()
    assert best(choose([BASELINE, faster, a_trial(3, 20.0, asked={"workers": 2})])) == 3
    both = choose([a_trial(1, 10.0, measured=short), faster])
    assert best(both) == 2 and both.provisional == (1, 2)
    for enough in ({"steady": True, "steps_measured": 5}, {"steady": False, "steps_measured": 20}):
        assert best(choose([BASELINE, a_trial(2, 31.0, asked=FOUR, measured=enough)])) == 2


def test_a_slower_trial_of_few_steps_is_slower() -> None:
    slow = a_trial(2, 5.0, asked=FOUR, measured={"steady": False, "steps_measured": 3})
    assert reasons(choose([BASELINE, slow])) == {2: "slower"}


def test_where_the_number_of_epochs_is_not_known_an_epoch_with_its_restart_ranks() -> None:
    def short(trial: int, rate: float, epoch_s: float, **asked: object) -> TrialRecord:
        known = {"projected": Projection(epoch_s=epoch_s), "samples_per_epoch": 160}
        return a_trial(trial, rate, asked=asked, whole=False, measured=known)

    # The same rate in the steps, but half of each epoch goes to starting its workers.
    choice = choose([short(1, 366.0, 0.94), short(2, 366.0, 0.48, persistent_workers=True)])
    assert choice.ranked_by == "samples_per_s_epoch" and choice.best is not None and choice.best.trial == 2
    assert choice.speedup is not None and choice.speedup.value == pytest.approx(0.94 / 0.48)
    assert any("vtune.run.epochs" in line for line in choice.remarks)


def test_a_rate_of_a_whole_run_that_is_none_is_named_with_its_trial() -> None:
    none = {"samples_per_s_whole_run": 0.0, "projected": Projection()}
    choice = choose([BASELINE, a_trial(2, 31.0, asked=FOUR, measured=none)])
    assert any(line.endswith("not known for trial 2") for line in choice.remarks)


def a_race(first: int, *rounds: tuple[float, ...], delta: float | None = None, **measured: object) -> list[TrialRecord]:
    """Contestant 0 is the baseline, the others turn workers; one row of rates a round."""
    numbers = iter(range(first, 1000))
    return [
        replace(
            a_trial(next(numbers), rate, asked={"workers": 4 * c} if c else {}, measured=dict(measured)),
            origin="confirm",
            race=RaceLeg(id="r", round=at, contestant=c, contestants=len(rates), rounds=8, delta=delta),
        )
        for at, rates in enumerate(rounds, 1)
        for c, rate in enumerate(rates)
    ]


def test_the_rounds_of_a_race_tell_apart_what_single_launches_cannot() -> None:
    single = [BASELINE, a_trial(2, 10.6, asked=FOUR)]
    assert best(choose(single)) == 1
    drifting = a_race(3, (10.0, 10.6), (9.5, 10.1), (9.0, 9.5), (8.6, 9.1), (8.2, 8.7), (8.0, 8.5))
    choice = choose([*single, *drifting])
    assert choice.best is not None and choice.best.settings["workers"] == 4 and choice.unconfirmed == ()
    assert choice.speedup is not None and choice.speedup.value == pytest.approx(1.06, abs=0.005)
    assert choice.speedup.ci95 is not None and choice.speedup.ci95[0] > 1


def test_a_race_takes_back_what_a_lucky_launch_promised() -> None:
    lucky = [BASELINE, a_trial(2, 13.0, asked=FOUR)]
    assert best(choose(lucky)) == 2
    choice = choose([*lucky, *a_race(3, *[(10.0, 10.05), (10.1, 10.0), (9.9, 10.0), (10.0, 10.1)])])
    assert choice.best is not None and choice.best.settings["workers"] == 1 and 2 in choice.tie


def test_a_race_of_a_narrower_zone_wins_by_less_and_the_ratio_tells_its_rounds() -> None:
    rows = [(10.0, 10.15), (10.1, 10.25), (9.9, 10.05), *[(10.0, 10.15)] * 9]
    for delta, workers in ((None, 1), (0.01, 4)):
        choice = choose([BASELINE, a_trial(2, 10.2, asked=FOUR), *a_race(3, *rows, delta=delta)])
        assert choice.best is not None and choice.best.settings["workers"] == workers
        assert choice.paired_rounds[2] == 12 and BASELINE.trial not in choice.paired_rounds
    kept = choose([BASELINE, a_trial(2, 10.2, asked=FOUR), *a_race(3, *rows)])
    assert any("by 12 rounds of a race" in lost.why for lost in kept.lost if lost.trial == 2)
    assert choose([BASELINE, a_trial(2, 10.2, asked=FOUR)]).paired_rounds == {}


def test_neighbours_widen_single_launches_only() -> None:
    busy = a_race(1, *[(10.0, 11.5), (10.1, 11.6), (9.9, 11.4), (10.0, 11.5)], others_cores=1.5)
    choice = choose(busy, cores=2.0)
    assert choice.best is not None and choice.best.settings["workers"] == 4
    assert best(choose([a_trial(1, 10.0, measured={"others_cores": 1.5}), a_trial(2, 11.5, asked=FOUR)], cores=2)) == 1


def test_of_equals_that_beat_the_baseline_in_a_race_the_one_that_asks_less_wins() -> None:
    choice = choose(a_race(1, *[(10.0, 20.0, 20.2), (10.1, 20.2, 20.3), (9.9, 19.9, 20.1), (10.0, 20.0, 20.1)]))
    assert choice.best is not None and choice.best.settings["workers"] == 4


def test_among_equals_memory_counts_before_workers_and_a_little_memory_is_none() -> None:
    def asks(trial: int, workers: int, ram: float) -> TrialRecord:
        return a_trial(trial, 30.0, asked={"workers": workers}, measured={"ram_peak_bytes": int(ram * GIB)})

    assert best(choose([BASELINE, asks(2, 4, 20.0), asks(3, 8, 10.0)])) == 3
    assert best(choose([BASELINE, asks(2, 8, 10.0), asks(3, 4, 10.1)])) == 3


def test_a_search_for_the_ceiling_is_no_contestant() -> None:
    fed = a_trial(2, 500.0, asked=FOUR, origin="probe:ceiling", measured={"ceiling": Ceiling()})
    choice = choose([BASELINE, fed])
    assert best(choice) == 1 and reasons(choice) == {2: "ceiling"} and 2 not in choice.ratios
    assert choose([fed]).best is None


def test_settings_that_failed_in_one_of_their_launches_are_not_chosen() -> None:
    failed = a_failure(3, TrialStatus.CRASHED, asked=FOUR)
    choice = choose([BASELINE, a_trial(2, 31.0, asked=FOUR), failed, a_trial(4, 20.0, asked={"workers": 3})])
    assert best(choice) == 4
    why = {lost.trial: lost.why for lost in choice.lost}
    assert why[2] == "trial 3, another launch of the same settings, failed: crashed"


def test_settings_that_did_not_take_effect_once_are_not_chosen_unless_they_did_afterwards() -> None:
    faster, without = a_trial(2, 31.0, asked=FOUR), a_failure(3, TrialStatus.INVALID, asked=FOUR)
    more = a_trial(4, 30.8, asked={"workers": 6})
    assert best(choose([BASELINE, faster, without, more])) == 4, "what asks for more of it stays a rival"
    assert best(choose([BASELINE, faster, without])) == 1
    assert best(choose([BASELINE, faster, without, a_trial(4, 31.0, asked=FOUR)])) in (2, 4)


def test_settings_that_failed_first_and_ran_afterwards_may_win() -> None:
    failed = a_failure(2, TrialStatus.CRASHED, asked=FOUR)
    assert best(choose([BASELINE, failed, a_trial(3, 31.0, asked=FOUR)])) == 3


def test_a_baseline_that_failed_once_stays_the_baseline() -> None:
    assert best(choose([BASELINE, a_failure(2, TrialStatus.CRASHED, asked={})])) == 1


def test_settings_are_judged_by_a_longer_launch_where_no_other_read_its_data_as_the_baseline_did() -> None:
    cold, mixed = {"cache": "cold"}, {"cache": "mixed"}
    own, other = a_trial(1, 10.0, measured=cold), a_trial(3, 30.0, asked=FOUR, workers=4, measured=cold)
    six = [
        a_trial(trial, 40.0, asked={"workers": 6}, workers=6, measured=read) for trial, read in ((2, mixed), (4, cold))
    ]
    proof = replace(six[1], origin="confirm")
    assert lived_longer(proof)
    best = choose([own, six[0], other, proof]).best
    assert best is not None and best.trial == 4
    # Else the trial that is as long as all others stands for them.
    best = choose([own, replace(six[0], measurement=six[1].measurement), other, proof]).best
    assert best is not None and best.trial == 2
