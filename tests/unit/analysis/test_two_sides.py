import math
import random
from typing import Any

import pytest

from support.studies import a_trial
from vtune.analysis.compare import Rate, pooled_rate
from vtune.analysis.two_sides import Gate, beyond_doubt, compare_sides, gate, launches_like

FOUR = {"workers": 4}


def test_one_launch_of_each_tells_a_fifth_and_no_twentieth() -> None:
    a = a_trial(1, 100.0)
    assert compare_sides([a], [a_trial(2, 80.0)]).verdict == "slower"
    assert compare_sides([a], [a_trial(2, 120.0)]).verdict == "faster"
    close = compare_sides([a], [a_trial(2, 97.0)])
    assert close.verdict == "tie" and close.resolvable == pytest.approx(0.0574, abs=0.001)
    assert close.ratio.value == pytest.approx(0.97)


def test_more_launches_see_smaller_differences() -> None:
    once = compare_sides([a_trial(1, 100.0)], [a_trial(2, 97.0)])
    often = compare_sides([a_trial(n, 100.0) for n in range(4)], [a_trial(n, 97.0) for n in range(4, 8)])
    assert once.resolvable and often.resolvable and often.resolvable < 0.6 * once.resolvable
    assert often.verdict == "slower" and often.ratio.value == pytest.approx(0.97)


def test_launches_that_disagree_see_less() -> None:
    apart = compare_sides([a_trial(1, 90.0), a_trial(2, 110.0)], [a_trial(3, 80.0), a_trial(4, 98.0)])
    assert apart.verdict == "tie" and apart.resolvable is not None and apart.resolvable > 0.1


def test_what_others_took_from_all_launches_is_not_averaged_out() -> None:
    busy = [a_trial(n, 90.0, measured={"others_cores": 1.0}) for n in range(9)]
    found = compare_sides([a_trial(20, 100.0)], busy, cores=(2.0, 2.0))
    assert found.verdict == "tie" and compare_sides([a_trial(20, 100.0)], busy, cores=(2.0, 64.0)).verdict == "slower"


def test_a_launch_on_a_full_machine_is_not_called_slower_and_the_gate_is_blind() -> None:
    full = {"others_cores": 1.38, "tree_cores": 0.6, "samples_per_s_ci95": (45.0, 55.0)}
    a, b = a_trial(1, 100.0), a_trial(2, 51.0, measured=full)
    found = compare_sides([a], [b], cores=(2.0, 2.0))
    assert found.verdict == "tie" and gate(found, 0.03) == Gate(most=0.03, failed=False, could_be_seen=False)
    # There was room beside them.
    roomy = compare_sides([a], [b], cores=(16.0, 16.0))
    assert roomy.verdict == "slower" and gate(roomy, 0.03).failed
    assert compare_sides([b], [a], cores=(2.0, 2.0)).verdict == "tie"
    # Downwards nothing is added: in spite of its neighbours it is the faster one.
    assert compare_sides([a], [a_trial(2, 130.0, measured={**full, "samples_per_s_ci95": (126.0, 134.0)})],
                         cores=(2.0, 2.0)).verdict == "faster"  # fmt: skip


def test_a_disturbed_launch_hardly_counts_beside_quiet_ones() -> None:
    full = {"others_cores": 1.38, "tree_cores": 0.6}
    side = [a_trial(2, 90.0), a_trial(3, 90.0), a_trial(4, 45.0, measured=full)]
    found = compare_sides([a_trial(n, 100.0) for n in (5, 6, 7)], side, cores=(2.0, 2.0))
    assert found.ratio.value == pytest.approx(0.9, abs=0.005) and found.verdict == "slower"


def test_without_an_interval_nothing_is_shown_and_no_gate_sees() -> None:
    found = compare_sides([a_trial(1, 100.0)], [a_trial(2, 50.0, ci=None)])
    assert found.verdict == "unknown" and found.resolvable is None and found.ratio.value == pytest.approx(0.5)
    assert not gate(found, 0.03).failed and not gate(found, 0.03).could_be_seen


def test_the_gate_says_no_to_what_is_shown_slower_and_by_as_much() -> None:
    def said(rate: float, most: float, launches: int = 1) -> tuple[bool, bool]:
        side = [a_trial(20 + n, rate) for n in range(launches)]
        found = gate(compare_sides([a_trial(n, 100.0) for n in range(launches)], side), most)
        return found.failed, found.could_be_seen

    assert said(85.0, 0.03) == (True, False)
    # Slower is shown, but not by as much as was asked for.
    assert said(94.0, 0.10) == (False, True)
    # As slow as was asked for, but it may be chance; and one launch each could not have shown it.
    assert said(97.0, 0.03) == (False, False)
    assert said(100.0, 0.10) == (False, True)
    assert said(97.0, 0.03, launches=6) == (True, True)
    assert said(110.0, 0.06) == (False, True)


def test_steady_rates_are_compared_where_one_whole_runs_rate_is_not_known() -> None:
    found = compare_sides([a_trial(1, 100.0)], [a_trial(2, 100.0, whole=False)])
    assert found.ranked_by == "samples_per_s" and found.ratio.value == pytest.approx(1.0)


def test_equals_are_told_apart_in_one_of_a_hundred_comparisons_or_two() -> None:
    chance, wrong = random.Random(5), 0
    for _ in range(400):
        sides = [[a_trial(n, 100 * math.exp(chance.gauss(0, 0.015))) for n in range(3)] for _ in range(2)]
        wrong += compare_sides(*sides).verdict != "tie"
    assert wrong / 400 <= 0.02


def test_what_an_interval_of_95_percent_shows_is_not_yet_called_different() -> None:
    found = compare_sides([a_trial(1, 100.0)], [a_trial(2, 95.0)])
    assert found.ratio.shown_slower and found.verdict == "tie" and not gate(found, 0.03).failed


def test_launches_of_the_same_settings_stand_for_each_other_unless_they_read_otherwise() -> None:
    warm, cold = {"cache": "warm"}, {"cache": "cold"}
    records = [
        a_trial(1, 10.0, measured=warm), a_trial(2, 10.1, measured=warm), a_trial(3, 9.0, measured=cold),
        a_trial(4, 20.0, asked=FOUR, measured=warm), a_trial(5, 10.0, measured={"fed_from_stock": True}),
        a_trial(6, 10.0, measured={"steady": False, "steps_measured": 3}),
    ]  # fmt: skip
    assert [record.trial for record in launches_like(records[0], records)] == [1, 2]
    assert [record.trial for record in launches_like(records[4], records)] == [1, 2, 3, 5]


def test_several_rates_become_one_by_their_intervals() -> None:
    one = pooled_rate([Rate(100.0, (96.0, 104.0)), Rate(110.0, (60.0, 200.0))])
    assert one.value == pytest.approx(100.0, rel=0.005)
    unknown = pooled_rate([Rate(100.0, None), Rate(121.0, None)])
    assert unknown.value == pytest.approx(110.0) and unknown.interval is None


def test_a_race_is_not_worth_it_where_either_side_is_beyond_doubt_and_only_there() -> None:
    def known(*rates: float, **measured: Any) -> bool:
        return beyond_doubt([a_trial(1, rates[0])], [a_trial(2, rates[1], asked=FOUR, measured=measured)]) is not None

    assert known(10.0, 14.0) and known(14.0, 10.0)
    # Shown, but two launches of equal settings have been seen to differ so.
    assert not known(10.0, 11.5) and not known(11.5, 10.0)
    assert not known(10.0, 14.0, fed_from_stock=True) and not known(10.0, 14.0, steady=False, steps_measured=3)
    apart = [a_trial(1, 10.0), a_trial(3, 13.0)]
    assert beyond_doubt(apart, [a_trial(2, 16.0, asked=FOUR)]) is None
    cold = a_trial(1, 10.0, measured={"cache": "cold"})
    assert beyond_doubt([cold], [a_trial(2, 14.0, asked=FOUR, measured={"cache": "warm"})]) is None
    assert beyond_doubt([a_trial(1, 10.0, ci=None)], [a_trial(2, 30.0, asked=FOUR)]) is None
