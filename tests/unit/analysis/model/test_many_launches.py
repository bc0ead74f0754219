"""Launches of the same settings are one observation, and what ran out of memory is kept in its least form."""

from dataclasses import replace
from itertools import product

import pytest

from support.studies import a_failure, a_trial
from vtune.analysis.model.fit import fit_model
from vtune.analysis.model.setup import Setup
from vtune.analysis.model.telling import Sure, together
from vtune.analysis.model.too_big import Shortage, _asks_more, measured_over, shortages_of, took_by
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus


def test_four_observations_are_twice_as_sure_as_one_and_the_surer_ones_weigh_more() -> None:
    four = together([Sure(value=1.0, sd=0.1)] * 4)
    assert (four.value, four.sd) == pytest.approx((1.0, 0.05))
    assert together([Sure(value=0.0, sd=0.1), Sure(value=1.0, sd=0.3)]).value == pytest.approx(0.1)


def launch(trial: int, rate: float = 20.0) -> TrialRecord:
    return a_trial(trial, rate, measured={"effective_settings": {"workers": 2, "batch_size": 2}})


def test_a_race_makes_its_settings_surer_and_its_model_no_larger() -> None:
    one, many = (fit_model([launch(at + 1) for at in range(count)], cores=4) for count in (1, 12))
    assert one is not None and many is not None
    once, often = one.predict({}), many.predict({})
    assert once is not None and often is not None
    widths = [p.samples_per_s_ci95[1] / p.samples_per_s_ci95[0] for p in (once, often)]
    assert widths[1] < widths[0] and often.notes == ("from one trial",)


def a_setup(workers: int, batch: int, prefetch: int = 2) -> Setup:
    return Setup(
        workers=workers, prefetch=prefetch, batch=batch, accumulate=1, persistent=False, pin=False, in_order=True,
        regime=(),
    )  # fmt: skip


@pytest.mark.parametrize(
    "status", [TrialStatus.OUT_OF_RAM, TrialStatus.OUT_OF_VRAM, TrialStatus.OUT_OF_SHM, TrialStatus.REFUSED]
)
def test_few_shortages_rule_out_what_all_of_them_did(status: TrialStatus) -> None:
    setups = [a_setup(*each) for each in product((0, 1, 3, 8), (1, 2, 4, 9), (1, 4))]
    failed = [(a_failure(at + 1, status), setup) for at, setup in enumerate(setups) if at % 3]
    ran = [(launch(at + 100), setup) for at, setup in enumerate(setups[:9]) if not at % 3]
    found = shortages_of([*failed, *ran], [])
    memory = found[0].memory
    each = [Shortage(memory=memory, setup=setup, what="") for _, setup in failed]
    each = [one for one in each if not any(_asks_more(memory, setup, one.setup) for _, setup in ran)]
    assert len(found) < len(each)
    for setup in setups:
        ruled_out = any(one.rules_out(setup, {}) is not None for one in each)
        assert any(one.rules_out(setup, {}) is not None for one in found) == ruled_out


def test_what_a_limit_of_the_users_ended_does_not_stand_for_what_really_ran_out() -> None:
    ended = replace(
        a_failure(1, TrialStatus.OUT_OF_RAM),
        evidence={"ended_by": "limit", "ram_guard": {"limit_bytes": 100, "is_default": False}},
    )
    found = shortages_of([(ended, a_setup(1, 1)), (a_failure(2, TrialStatus.OUT_OF_RAM), a_setup(4, 4))], [])
    assert [one.up_to_bytes for one in found] == [100.0, None]


def took(trial: int, ram_bytes: int) -> TrialRecord:
    return a_trial(trial, 20.0, measured={"ram_peak_bytes": ram_bytes, "ram_projected_bytes": None})


def test_what_passed_a_limit_rules_out_what_asks_for_as_much_unless_a_trial_contradicts_it() -> None:
    small, large, larger = a_setup(1, 2), a_setup(3, 2), a_setup(3, 2, prefetch=4)
    known = [(took(1, 100), small), (took(2, 220), large), (took(3, 240), larger)]
    assert [one.setup for one in measured_over(took_by(known), "RAM", 200)] == [large]
    assert measured_over(took_by(known), "RAM", 230) == measured_over(took_by([*known[:1], known[2]]), "RAM", 230)
    assert measured_over(took_by(known), "RAM", None) == measured_over(took_by(known), "RAM", 300) == []
    # Another launch of it kept within the limit, or one of something that asks for more.
    assert [one.setup for one in measured_over(took_by([*known, (took(4, 190), large)]), "RAM", 200)] == [larger]
    assert measured_over(took_by([*known, (took(4, 190), larger)]), "RAM", 200) == []
