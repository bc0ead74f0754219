"""Simulated trainings: four times the batch is not chosen for a gain that nobody showed, and still for one that is; and
where nothing is to be gained, the tuners see it within a few trials."""

import pytest

from choice.walks import NOISES, Outcome, batch_gains, nothing_to_gain, run

# Of the first twelve seeds, those in which a larger batch was chosen for nothing before there was a rule.
LUCKY = (4, 10)


def walks(gain: float, seeds: tuple[int, ...]) -> list[Outcome]:
    return [run(batch_gains(gain), "ladder", seed, up_to=2) for seed in seeds]


@pytest.mark.slow
def test_a_batch_that_brings_next_to_nothing_is_not_chosen() -> None:
    found = walks(0.009, LUCKY)
    assert [one.another_batch for one in found] == [False] * len(LUCKY)
    assert [one.rolled_back for one in found] == [False] * len(LUCKY)
    # The gain of the workers, which needs no other training, is not lost.
    assert all(one.settings == {"workers": 2} for one in found)


@pytest.mark.parametrize("seed", [1])
def test_a_batch_that_brings_seven_percent_is_chosen_and_shown(seed: int) -> None:
    (found,) = walks(0.069, (seed,))
    assert found.another_batch and found.shown
    assert not found.rolled_back


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["quiet", "shared"])
def test_a_ladder_sees_within_four_trials_that_nothing_is_to_be_gained(noise: str) -> None:
    found = [run(nothing_to_gain(NOISES[noise]), "ladder", seed) for seed in range(2)]
    assert max(one.launches for one in found) <= 4
    assert [one.settings for one in found] == [{}] * 2


@pytest.mark.slow
@pytest.mark.parametrize("frees_batch", [False, True])
def test_a_search_sees_within_six_trials_that_nothing_is_to_be_gained(frees_batch: bool) -> None:
    found = [run(nothing_to_gain(), "search", seed, frees_batch=frees_batch) for seed in range(2)]
    assert max(one.launches for one in found) <= 6
    assert [one.settings for one in found] == [{}] * 2
