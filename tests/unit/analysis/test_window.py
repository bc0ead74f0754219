from vtune.analysis.window import StepWindow, start_up_steps, steps_of_stock


def steps(*own_s: float) -> list[StepWindow]:
    windows, now = [], 0.0
    for number, own in enumerate(own_s, 1):
        windows.append(
            StepWindow(number=number, started_s=now, ended_s=now + own, batches=(), other_batches=(), boundary=False)
        )
        now += own
    return windows


def test_slow_first_steps_are_start_up() -> None:
    assert start_up_steps(steps(30, 5, 2, *[1] * 40)) == 3


def test_a_training_that_is_at_its_pace_at_once_loses_one_step() -> None:
    assert start_up_steps(steps(*[1] * 40)) == 1


def test_one_fast_step_among_slow_ones_is_not_the_end_of_the_start_up() -> None:
    assert start_up_steps(steps(30, 1, 30, 30, *[1] * 40)) == 4


def test_dear_nth_steps_are_not_start_up() -> None:
    assert start_up_steps(steps(*[5 if n % 16 == 0 else 1 for n in range(50)])) == 1
    assert start_up_steps(steps(*[3 if n % 2 else 1 for n in range(50)])) == 1


def test_a_training_that_never_settles_keeps_its_later_steps() -> None:
    assert start_up_steps(steps(*[100 - n for n in range(50)])) < 40


def test_too_few_steps_to_judge_are_taken_after_the_first() -> None:
    assert start_up_steps(steps(9, 1)) == 1
    assert start_up_steps([]) == 1


def test_the_stock_is_counted_in_batches() -> None:
    assert steps_of_stock(steps(1, 1, 1), 0, {0}) == 0
    assert steps_of_stock(steps(1, 1, 1), 2, {0}) == 3
