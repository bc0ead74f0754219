from __future__ import annotations

import pytest

from vtune.analysis.watching.log_lines import errors_of, progress_of, told_by
from vtune.domain.watching import Mark, Told


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("Epoch 3/30, step 120/4000, loss 0.31", Told(step=120, steps=4000, epoch=3, epochs=30)),
        ("[epoch: 2] iter 7 of 50", Told(step=7, steps=50, epoch=2)),
        ("Train step=1500 loss=0.2 lr=1e-3", Told(step=1500)),
        ("global_step: 88", Told(step=88)),
        ("Epoch [4/10] Iteration [20/100]", Told(step=20, steps=100, epoch=4, epochs=10)),
        ("Epoch 1: 12%|#2 | 61/500 [00:19<02:17, 3.20it/s]", Told(step=61, steps=500, epoch=1, steps_per_s=3.2)),
        ("  2%|2   | 10/500 [00:25<20:25,  2.50s/it]", Told(step=10, steps=500, steps_per_s=0.4)),
        ("step 7/" + 20 * "1", Told(step=7)),
        ("3/500 [00:00<?, 1.2.3it/s]", Told(step=3, steps=500)),
        ("  0%|    | 0/500 [00:00<?, ?it/s]", Told(step=0, steps=500)),
        ("RuntimeError: CUDA out of memory. Tried", Told(error="RuntimeError: CUDA out of memory. Tried")),
        ("Killed", Told(error="Killed")),
        ("step 5 loss: nan", Told(step=5, error="step 5 loss: nan")),
    ],
)  # fmt: skip
def test_a_line_tells_its_step_its_epoch_and_its_error(line: str, told: Told) -> None:
    assert told_by(line) == told


@pytest.mark.parametrize(
    "line",
    [
        "loading 500 volumes", "batch size 4", "learning rate 0.1", "2026-11-19 09:00:00 ready", "nanoseconds",
        "model has 3.2 M parameters", "it took 0.5 s", "finance loss", "Killed Bill is a film", "every step 0.5 s",
        "Epoch 99999999999999999999999999/3", "step " + 5000 * "1", 5000 * "1" + "/3 [00:00<00:00, 3.2it/s]",
    ],
)  # fmt: skip
def test_a_line_without_them_tells_nothing(line: str) -> None:
    assert told_by(line) is None


def _at(t_s: float | None, step: int, **more: int) -> Mark:
    return Mark(t_s=t_s, told=Told(step=step, **more))


def test_the_rate_is_of_what_came_while_one_looked() -> None:
    before = [_at(None, step) for step in range(100)]
    assert progress_of([*before, _at(10.0, 100), _at(20.0, 120), _at(30.0, 150)]).steps_per_s == pytest.approx(2.5)


def test_lines_that_come_together_are_one_moment() -> None:
    # A buffered log: what lay in the buffer was done before it came.
    marks = [_at(10.0, 1), _at(10.0, 50), _at(20.0, 51), _at(20.0, 100)]
    assert progress_of(marks).steps_per_s == pytest.approx(5.0)


def test_steps_that_begin_anew_with_an_epoch_go_on_counting() -> None:
    marks = [_at(0.0, 95, steps=100), _at(10.0, 5, steps=100)]
    assert progress_of(marks).steps_per_s == pytest.approx(1.0)


def test_a_line_that_names_the_batch_again_and_again_is_no_step() -> None:
    assert progress_of([_at(0.0, 4), _at(1.0, 4), _at(2.0, 4)]).steps_per_s is None


def test_what_is_left_needs_to_know_the_epochs_where_a_bar_counts_one() -> None:
    bar = Mark(t_s=1.0, told=Told(step=60, steps=100, steps_per_s=2.0))
    assert progress_of([bar]).left_s is None
    epoch = Mark(t_s=0.5, told=Told(epoch=1))
    assert progress_of([epoch, bar], epochs=3).left_s == pytest.approx((40 + 200) / 2)


def test_steps_of_the_whole_run_tell_what_is_left() -> None:
    marks = [_at(0.0, 10, steps=100), _at(10.0, 20, steps=100)]
    assert progress_of(marks).left_s == pytest.approx(80.0)


def test_what_was_raised_is_told_and_not_that_something_was() -> None:
    marks = [
        Mark(t_s=1.0, told=told)
        for line in ("Traceback (most recent call last):", "ValueError: odd", "ValueError: odd")
        if (told := told_by(line)) is not None
    ]
    assert errors_of(marks) == ("ValueError: odd",)
    assert errors_of(marks[:1]) == ("Traceback (most recent call last):",)


def test_a_rank_that_logs_a_little_behind_another_begins_no_epoch() -> None:
    marks = [_at(0.0, 100), _at(5.0, 110), _at(6.0, 109), _at(10.0, 120)]
    assert progress_of(marks).steps_per_s == pytest.approx(2.0)
