"""The end of a search: who races whom."""

from collections.abc import Mapping, Sequence

from support.made_up import MACHINE, OWN, MadeUp, Settings, Told, an_experiment, launched
from vtune.domain.record import TrialRecord
from vtune.domain.trial import OWN_AGAIN, Proposal
from vtune.strategies.confirm import MOST_LAUNCHES, Confirmation, Found, confirmation_of
from vtune.strategies.known import Known

# By the number of workers: the rate, and half of its interval as a share of it.
Rates = Mapping[object, tuple[float, float]]
CHOSEN, LUCKY, SLOWER = {"workers": 4}, {"workers": 6}, {"workers": 8}


def one_launch(rate: float, half: float) -> Told:
    return rate, {"samples_per_s_ci95": (rate * (1 - half), rate * (1 + half)), "samples_per_s_whole_run": None}


def rates_of(doubt: float = 0.4) -> Rates:
    """Six workers look faster than four, and one launch of them leaves open whether they are faster than one."""
    return {1: (10.0, 0.02), 4: (13.0, 0.02), 6: (14.5, doubt), 8: (11.0, 0.02)}


def searched(rates: Rates) -> list[TrialRecord]:
    history: list[TrialRecord] = []
    for settings in ({}, CHOSEN, LUCKY, SLOWER):
        launch(history, settings, one_launch(*rates[{**OWN, **settings}["workers"]]))
    return history


def launch(history: list[TrialRecord], settings: Settings, came: Told, origin: str = "search") -> None:
    proposal = Proposal(settings=settings, reason="" if settings else "the current settings", origin=origin)
    history.append(launched(proposal, len(history) + 1, came))


def confirmed(history: Sequence[TrialRecord]) -> Confirmation:
    experiment = an_experiment()
    found = Found(
        experiment=experiment, machine=MACHINE, baseline=history[0], own=OWN, trials=(1, 2, 3, 4), winner=history[2],
        settings=LUCKY,
    )  # fmt: skip
    known = Known(history, named=OWN, ram_limit_bytes=None)
    return confirmation_of(found, known, history)


def run_out(history: list[TrialRecord]) -> list[TrialRecord]:
    trainer = MadeUp(lambda settings: one_launch({1: 10.0, 4: 13.0, 6: 14.5}[settings["workers"]], 0.02), luck=0.005)
    while (proposal := confirmed(history).proposal) is not None:
        assert len(history) < 60
        history.append(trainer.measure(proposal, history))
    return history


def test_a_leader_that_looks_faster_than_the_chosen_one_races_with_it_and_the_users_own() -> None:
    history = run_out(searched(rates_of()))
    field = {str(dict(leg.asked or {})) for leg in history if leg.race is not None}
    assert field == {"{}", str(CHOSEN), str(LUCKY)}
    best = confirmed(history).best
    assert best is not None and best.settings["workers"] == 6
    assert len(history) - len(searched(rates_of())) <= MOST_LAUNCHES


def test_where_one_launch_each_told_them_apart_no_other_leader_races() -> None:
    history = run_out(searched(rates_of(doubt=0.02)))
    assert all((leg.asked or {}) in ({}, LUCKY) for leg in history if leg.race is not None)


def test_where_nothing_is_shown_to_be_faster_the_users_own_settings_come_once_more_and_only_once() -> None:
    history = searched({1: (10.0, 0.02), 4: (10.6, 0.02), 6: (10.7, 0.02), 8: (10.4, 0.02)})
    first = confirmed(history).proposal
    assert first is not None
    assert (first.settings, first.origin) == ({}, OWN_AGAIN)
    launch(history, {}, one_launch(10.0, 0.02), OWN_AGAIN)
    then = confirmed(history).proposal
    assert then is not None and then.origin != OWN_AGAIN
