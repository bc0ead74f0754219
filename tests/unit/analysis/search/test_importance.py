"""Which knob mattered, on surfaces whose answer is known."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from support.hunts import BASELINE, FASTEST, RECORDS, SMALL
from vtune.analysis.search.importance import Foreseen, Settings, choice_of, importances, why_untold
from vtune.domain.search import Dimension, Space

OWN = {"workers": 1, "prefetch_factor": 2, "pin_memory": False}
WORKERS = Dimension(name="workers", choices=tuple({"workers": n} for n in (0, 1, 2, 4)))
PREFETCH = Dimension(
    name="prefetch_factor", choices=({"prefetch_factor": 2}, {"prefetch_factor": 4}), needs_workers=True
)
PIN = Dimension(name="pin_memory", choices=({"pin_memory": False}, {"pin_memory": True}))


def space(*dimensions: Dimension) -> Space:
    settings = []
    for combined in itertools.product(*(one.choices for one in dimensions)):
        asked = {name: value for choice in combined for name, value in choice.items()}
        if asked.get("workers") == 0:
            asked.pop("prefetch_factor", None)
        asked = {name: value for name, value in asked.items() if OWN[name] != value}
        settings += [asked] if asked not in settings else []
    return Space(dimensions=dimensions, settings=tuple(settings))


def foreseen(rate: Callable[[Settings], float | None], fits: Callable[[Settings], bool] = lambda ran: True) -> Foreseen:
    return Foreseen(
        rates=lambda asked: [rate({**OWN, **one}) for one in asked], fits=lambda asked: fits({**OWN, **asked})
    )


def test_a_knob_is_worth_what_the_best_loses_without_it() -> None:
    def rate(ran: Settings) -> float:
        return 10.0 * max(0.5, ran["workers"]) * (1.2 if ran["prefetch_factor"] == 4 and ran["workers"] else 1.0)

    best = {"workers": 4, "prefetch_factor": 4}
    workers, prefetch, pin = importances(
        space(WORKERS, PREFETCH, PIN), own=OWN, best=best, foreseen=foreseen(rate), measured=[]
    )
    assert (workers.knob, prefetch.knob, pin.knob) == ("workers", "prefetch_factor", "pin_memory")
    # 48 over 12 with one worker, over 5 without any, where prefetching does nothing.
    assert (workers.over_own, workers.over_worst) == pytest.approx((4.0, 9.6))
    assert (prefetch.over_own, prefetch.over_worst) == pytest.approx((1.2, 1.2))
    assert (pin.over_own, pin.over_worst) == pytest.approx((1.0, 1.0))
    assert pin.share == pytest.approx(0.0) and workers.share > 0.9 > 0.1 > prefetch.share > 0


def test_shares_of_knobs_that_do_not_touch_each_other_make_the_whole() -> None:
    a = Dimension(name="workers", choices=({"workers": 1}, {"workers": 2}))
    # Logarithms 0, ln 4 and 0, ln 2: variances go as 4 to 1.
    found = importances(
        space(a, PIN), own=OWN, best={"workers": 2, "pin_memory": True}, measured=[],
        foreseen=foreseen(lambda ran: (4.0 if ran["workers"] == 2 else 1.0) * (2.0 if ran["pin_memory"] else 1.0)),
    )  # fmt: skip
    assert {one.knob: one.share for one in found} == pytest.approx({"workers": 0.8, "pin_memory": 0.2})


def test_what_does_not_fit_is_no_value_to_compare_with() -> None:
    found = importances(
        space(WORKERS), own=OWN, best={"workers": 4}, measured=[],
        foreseen=foreseen(lambda ran: 1.0 + ran["workers"], fits=lambda ran: ran["workers"] in (2, 4)),
    )  # fmt: skip
    assert [(one.over_own, one.over_worst) for one in found] == [pytest.approx((5 / 2, 5 / 3))]


def test_a_knob_of_which_nothing_is_known_is_left_out() -> None:
    nothing = foreseen(lambda ran: None)
    assert importances(space(WORKERS, PIN), own=OWN, best={}, measured=[], foreseen=nothing) == ()
    alone = Dimension(name="pin_memory", choices=({"pin_memory": False},))
    assert importances(space(alone), own=OWN, best={}, measured=[], foreseen=foreseen(lambda ran: 2.0)) == ()
    # It has no prefetch to vary.
    found = importances(
        space(WORKERS, PREFETCH),
        own=OWN,
        best={"workers": 0},
        measured=[],
        foreseen=foreseen(lambda ran: 1.0 + (ran["workers"] == 0)),
    )
    assert [one.knob for one in found] == ["workers"]


def test_knobs_that_only_make_sense_together_are_one() -> None:
    together = Dimension(
        name="batch_size", choices=({"batch_size": 2, "accumulate_steps": 2}, {"batch_size": 4, "accumulate_steps": 1})
    )
    own = {"batch_size": 4, "accumulate_steps": 1}
    assert choice_of(together, {}, own) == 1
    assert choice_of(together, {"batch_size": 2, "accumulate_steps": 2}, own) == 0
    assert choice_of(together, {"batch_size": 2}, own) is None


def test_what_a_knob_is_by_itself_may_not_be_known() -> None:
    unknown = Dimension(name="pin_memory", choices=({}, {"pin_memory": True}))
    assert choice_of(unknown, {}, {}) == 0 and choice_of(unknown, {"pin_memory": True}, {}) == 1


def test_what_no_trial_turned_is_known_by_the_model_alone() -> None:
    measured = [{}, {"workers": 4}, {"workers": 0}, {"workers": 0, "pin_memory": True}]
    found = importances(
        space(WORKERS, PREFETCH, PIN), own=OWN, best={"workers": 4}, measured=measured,
        foreseen=foreseen(lambda ran: 1.0 + ran["workers"]),
    )  # fmt: skip
    assert {one.knob: one.turned for one in found} == {"workers": True, "prefetch_factor": False, "pin_memory": True}


def test_fewer_than_three_measured_trials_tell_nothing_of_a_knob() -> None:
    assert why_untold([], None) == "no trial was measured"
    assert why_untold([BASELINE], "samples_per_s") == "only 1 trial was measured, it takes 3"
    # What failed tells of no rate.
    assert why_untold([BASELINE, FASTEST, RECORDS[3]], "samples_per_s") == "only 2 trials were measured, it takes 3"
    assert why_untold([BASELINE, FASTEST, replace(FASTEST, trial=5)], "samples_per_s") is None


def test_a_model_that_is_wrong_tells_nothing_of_a_knob() -> None:
    wrong = [replace(SMALL, trial=number) for number in (5, 6)]
    told = why_untold([BASELINE, SMALL, *wrong], "samples_per_s")
    assert told == "0 of 3 predictions of the model came inside of their interval"
    assert why_untold(RECORDS, "samples_per_s") is None
