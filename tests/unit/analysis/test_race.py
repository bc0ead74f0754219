import math
import random
from collections.abc import Sequence

import pytest

from vtune.analysis.compare import Rate
from vtune.analysis.race import Lap, Round, Rules, Standing, judge_race, level, paired, worth_racing

TWO = Rules(contestants=2)


def laps(*rates: float | None, **fields: object) -> Round:
    return {n: Lap(rate=rate, **fields) for n, rate in enumerate(rates)}  # type: ignore[arg-type]


def run_race(chance: random.Random, gains: Sequence[float], sd: float, *, drift: float = 0.003) -> tuple[Standing, int]:
    """As it would be run: round by round, in random order, on a machine that drifts from launch to launch."""
    rules = Rules(contestants=len(gains))
    weather, rounds = 0.0, list[Round]()
    while not (standing := judge_race(rounds, rules)).decided:
        order, this = list(standing.running) or list(range(len(gains))), dict[int, Lap]()
        chance.shuffle(order)
        for contestant in order:
            weather += chance.gauss(0, drift)
            this[contestant] = Lap(rate=100 * math.exp(gains[contestant] + weather + chance.gauss(0, sd)))
        rounds.append(this)
    return standing, len(rounds)


def called(standing: Standing) -> str:
    """As the figures of benchmarks/truth count it."""
    return "faster" if standing.won else "slower" if standing.out.get(1) == "slower" else "tie"


def called_different(standing: Standing) -> bool:
    return standing.won or "slower" in standing.out.values()


@pytest.mark.parametrize("sd", [0.0224, *(pytest.param(sd, marks=pytest.mark.slow) for sd in (0.01, 0.03))])
def test_equals_are_seldom_called_different_though_every_round_is_looked_at(sd: float) -> None:
    chance = random.Random(11)
    wrong = sum(called_different(run_race(chance, [0, 0], sd)[0]) for _ in range(400))
    assert wrong / 400 < 0.05


def test_equals_are_seldom_called_different_by_launches_of_any_spread() -> None:
    chance = random.Random(12)
    wrong = sum(called_different(run_race(chance, [0, 0], chance.uniform(0.01, 0.03))[0]) for _ in range(400))
    assert wrong / 400 < 0.05


@pytest.mark.parametrize("rivals", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_of_several_equals_seldom_one_is_called_a_winner_over_the_baseline(rivals: int) -> None:
    chance = random.Random(13)
    wrong = sum(run_race(chance, [0] * (rivals + 1), 0.03)[0].won for _ in range(60))
    assert wrong / 60 < 0.05


def test_a_difference_of_a_twentieth_is_found_within_the_rounds() -> None:
    chance = random.Random(14)
    seen = [run_race(chance, [0, math.log(1.05)], 0.0224) for _ in range(300)]
    assert sum(standing.won and standing.lead == 1 for standing, _ in seen) / 300 > 0.9
    assert max(rounds for _, rounds in seen) <= 8


def test_a_slower_contestant_is_dropped_and_the_baseline_stays() -> None:
    standing, _ = run_race(random.Random(15), [0, math.log(0.9)], 0.01)
    assert standing.lead == 0 and not standing.won and standing.out == {1: "slower"}


def test_the_paired_interval_holds_the_truth_though_it_is_what_all_looks_leave() -> None:
    chance, missed = random.Random(16), 0
    for _ in range(300):
        rounds = [laps(*(100 * math.exp(gain + chance.gauss(0, 0.0224)) for gain in (0.0, 0.04))) for _ in range(8)]
        found = paired(rounds, 1, 0, TWO)
        assert found is not None and found.ratio.ci95 is not None
        low, high = found.ratio.ci95
        assert low <= found.ratio.value <= high
        missed += not low <= math.exp(0.04) <= high
    assert missed / 300 < 0.05


def test_what_a_look_has_shown_stays_shown() -> None:
    clear = [laps(100.0, 120.0)] * 3
    found = paired([*clear, laps(100.0, 96.0), laps(100.0, 97.0)], 1, 0, TWO)
    assert found is not None and found.ratio.shown_faster


def test_the_other_contestants_tell_how_much_pairs_spread() -> None:
    five, chance = Rules(contestants=5), random.Random(17)
    two = [(100 * math.exp(chance.gauss(0, 0.01)), 100 * math.exp(chance.gauss(0, 0.01))) for _ in range(8)]

    def width(others: Sequence[float]) -> float:
        found = paired([laps(base, rival, *(base * other for other in others)) for base, rival in two], 1, 0, five)
        wild = paired([laps(base, rival, base * (1 + n % 2)) for n, (base, rival) in enumerate(two)], 1, 0, five)
        assert found is not None and found.ratio.ci95 is not None
        assert wild is not None and wild.ratio.ci95 is not None
        assert wild.ratio.ci95[1] - wild.ratio.ci95[0] > 3 * (found.ratio.ci95[1] - found.ratio.ci95[0])
        return found.ratio.ci95[1] - found.ratio.ci95[0]

    assert width([1.01, 0.99, 1.02]) < 0.9 * width([])


def test_a_large_gap_is_decided_early_and_not_by_one_round() -> None:
    rounds = [laps(100.0, 130.0), laps(101.0, 131.0), laps(99.0, 130.5), laps(100.0, 129.0)]
    assert not judge_race(rounds[:1], TWO).decided
    decided = next(n for n in range(2, 5) if judge_race(rounds[:n], TWO).decided)
    standing = judge_race(rounds[:decided], TWO)
    assert decided <= 3 and standing.won and standing.lead == 1 and standing.running == ()
    assert standing.against_baseline[1].ratio.value == pytest.approx(1.3, rel=0.01)


def test_what_drifts_for_both_of_a_round_is_no_difference() -> None:
    falling = [laps(100 * 0.93**n, 110 * 0.93**n) for n in range(5)]
    found = paired(falling, 1, 0, TWO)
    assert found is not None and found.ratio.value == pytest.approx(1.1) and found.ratio.shown_faster


def test_equals_on_a_quiet_machine_are_a_tie_before_the_rounds_are_used_up() -> None:
    rounds = [laps(100.0, 100.1), laps(100.2, 100.0), laps(99.9, 100.0), laps(100.0, 99.9), *([laps(100.0, 100.0)] * 4)]
    decided = next(n for n in range(2, 9) if judge_race(rounds[:n], TWO).decided)
    standing = judge_race(rounds[:decided], TWO)
    assert 4 <= decided < 8 and not standing.won and set(standing.equals) == {0, 1}


def test_a_gap_within_the_indifference_zone_is_no_win_however_sure() -> None:
    rounds = [laps(100.0, 101.5)] * 8
    standing = judge_race(rounds, TWO)
    assert standing.decided and not standing.won and standing.out == {}


@pytest.mark.parametrize("gap", [0.0, 0.025, 0.05, -0.05])
def test_a_race_of_two_ends_as_its_rounds_are_read_afterwards(gap: float) -> None:
    chance, seen = random.Random(18), set()
    for _ in range(60):
        rounds: list[Round] = []
        while not (standing := judge_race(rounds, TWO)).decided:
            rounds.append(laps(*(100 * math.exp(one + chance.gauss(0, 0.0224)) for one in (0.0, gap))))
        found = paired(rounds, 1, 0, TWO)
        assert found is not None and found.called == called(standing)
        seen.add(found.called)
    assert "tie" in seen or abs(gap) > 0.03
    assert {0.05: "faster", -0.05: "slower"}.get(gap, "tie") in seen


def test_what_counts_as_equal_is_what_the_race_says() -> None:
    rounds = [laps(100.0, 101.5)] * 12
    for delta, said in ((0.02, "tie"), (0.01, "faster")):
        found = paired(rounds, 1, 0, Rules(contestants=2, rounds=12, delta=delta))
        back = paired(rounds, 0, 1, Rules(contestants=2, rounds=12, delta=delta))
        assert found is not None and found.ratio.shown_faster and found.called == said
        assert back is not None and back.called == {"tie": "tie", "faster": "slower"}[said]


def test_a_failure_puts_its_contestant_out_at_once_and_the_others_race_on() -> None:
    three = Rules(contestants=3)
    standing = judge_race([{0: Lap(rate=100.0), 1: Lap(rate=None)}], three)
    assert standing.out == {1: "failed"} and standing.running == (0, 2) and not standing.decided
    assert judge_race([{1: Lap(rate=None)}], TWO).decided
    lost = judge_race([laps(100.0, 110.0), laps(None, 110.0)], TWO)
    assert lost.decided and not lost.won and lost.out == {0: "failed"}


def test_a_cold_launch_is_not_paired_with_a_warm_one_and_another_round_makes_up_for_it() -> None:
    first = {0: Lap(rate=50.0, cache="cold"), 1: Lap(rate=100.0, cache="warm")}
    warm = [laps(100.0, 101.0, cache="warm")] * 2
    found = paired([first, *warm], 1, 0, TWO)
    assert found is not None and found.pairs == 2 and found.not_paired == 1
    assert found.ratio.value == pytest.approx(1.01)
    four = Rules(contestants=2, rounds=2)
    assert not judge_race([first, warm[0]], four).decided and judge_race([first, *warm], four).decided


def test_a_round_that_was_read_cold_by_both_is_another_question_than_those_read_warm() -> None:
    rounds = [laps(50.0, 80.0, cache="cold"), *[laps(100.0, 101.0, cache="warm")] * 3]
    found = paired(rounds, 1, 0, TWO)
    assert found is not None and found.pairs == 3 and found.ratio.value == pytest.approx(1.01)
    unknown = paired([laps(50.0, 80.0), *rounds[1:]], 1, 0, TWO)
    assert unknown is not None and unknown.pairs == 4


def test_a_disturbed_pair_weighs_less_than_a_quiet_one() -> None:
    quiet = [laps(100.0, 100.0)] * 3
    disturbed = {0: Lap(rate=100.0), 1: Lap(rate=80.0, lost=0.2)}
    found = paired([*quiet, disturbed], 1, 0, TWO)
    even = paired([*quiet, laps(100.0, 80.0)], 1, 0, TWO)
    assert found is not None and even is not None
    assert found.ratio.value > 0.98 > 0.95 > even.ratio.value and not found.ratio.shown_slower


def test_neighbours_that_never_leave_do_not_stop_a_race_from_telling() -> None:
    rounds = [laps(100.0 + n % 2, 115.0, lost=0.15) for n in range(6)]
    found = paired(rounds, 1, 0, TWO)
    assert found is not None and found.ratio.shown_faster


def test_an_early_look_may_err_less_than_the_last_one_and_many_contestants_less_than_two() -> None:
    assert level(2, TWO) < level(4, TWO) < level(8, TWO) == level(9, TWO)
    assert level(8, Rules(contestants=5)) == level(8, TWO) / 4


def test_one_round_shows_nothing() -> None:
    assert paired([laps(100.0, 200.0)], 1, 0, TWO) is None


def around(*values: float) -> list[Rate]:
    return [Rate(value, (value * 0.95, value * 1.05)) for value in values]


def test_a_race_is_skipped_where_the_gap_exceeds_the_intervals() -> None:
    assert worth_racing(around(100, 200)) == ()
    assert worth_racing(around(100, 60, 50)) == ()


def test_a_race_is_between_those_that_intervals_cannot_tell_apart_and_the_baseline() -> None:
    assert worth_racing(around(100, 200, 198)) == (0, 1, 2)
    assert worth_racing(around(100, 104, 50)) == (0, 1)
    # Shown, but by so little that two launches of equal settings have been seen to differ so much.
    assert worth_racing(around(100, 112)) == (0, 1)
    assert worth_racing([Rate(100, None), Rate(300, None)]) == (0, 1)
    # Launches of the same settings were seen to disagree.
    assert worth_racing(around(100, 130)) == () and worth_racing(around(100, 130), spread=4.0) == (0, 1)
