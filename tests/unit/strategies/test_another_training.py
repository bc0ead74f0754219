"""Simulated ladders: four times the batch is not chosen for a gain that nobody showed, and still for one that is."""

import pytest

from choice.walks import Outcome, batch_gains, run

# Of the first twelve seeds, those in which a larger batch was chosen for nothing before there was a rule.
LUCKY = (4, 6, 7, 10)


def walks(gain: float, seeds: tuple[int, ...]) -> list[Outcome]:
    return [run(batch_gains(gain), "ladder", seed, up_to=2) for seed in seeds]


def test_a_batch_that_brings_next_to_nothing_is_not_chosen() -> None:
    found = walks(0.009, LUCKY)
    assert [one.another_batch for one in found] == [False] * len(LUCKY)
    assert [one.rolled_back for one in found] == [False] * len(LUCKY)
    # The gain of the workers, which needs no other training, is not lost.
    assert all(one.settings == {"workers": 2} for one in found)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_batch_that_brings_seven_percent_is_chosen_and_shown(seed: int) -> None:
    (found,) = walks(0.069, (seed,))
    assert found.another_batch and found.shown
    assert not found.rolled_back
