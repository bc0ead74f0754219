"""A search whose training does not fit as it is set: what it tries, and what it says where nothing helps."""

from typing import Any

from support.made_up import MACHINE, OWN, MadeUp, Settings, Told, an_experiment, asked_for
from vtune.domain.experiment import Limit, Limits
from vtune.domain.trial import TrialStatus
from vtune.strategies.gentler import FIT_TRIES, gentler
from vtune.strategies.search import Search

MIB = 2**20


def a_search(own: Any = OWN, *, limits: Limits | None = None, **asked: Any) -> Search:
    experiment = an_experiment(own, limits=limits or Limits(), **asked)
    return Search(experiment=experiment, machine=MACHINE, trials=4, confirm=False)


def out_of_ram_with_workers(settings: Settings) -> Told:
    return TrialStatus.OUT_OF_RAM if settings["workers"] else 10.0


def test_a_single_worker_that_does_not_fit_is_left_away() -> None:
    search = a_search()
    history = MadeUp(out_of_ram_with_workers).run(search)
    hunt = search.hunt(history)
    assert {"workers": 0} in asked_for(history) and hunt.stopped is None
    assert hunt.best is not None and hunt.best.settings["workers"] == 0


def test_however_many_workers_there_are_none_at_all_is_among_the_tries() -> None:
    own = {**OWN, "workers": 64}
    tries = list(gentler(own, "RAM", an_experiment(own), turns_batch=False))[:FIT_TRIES]
    assert tries[0] == {"prefetch_factor": 1} and tries[-1] == {"workers": 0}
    fewer = [one["workers"] for one in tries[1:]]
    assert fewer == sorted(fewer, reverse=True) and fewer[0] == 32


def test_without_workers_nothing_is_asked_for_that_only_they_could_use() -> None:
    search = a_search(settings={"prefetch_factor": 4, "persistent_workers": True})
    history = MadeUp(out_of_ram_with_workers).run(search)
    asked = [one for one in asked_for(history) if one.get("workers") == 0]
    assert asked == [{"workers": 0}]


def test_where_nothing_gentler_could_be_tried_it_does_not_say_that_something_was() -> None:
    own = {**OWN, "workers": 0}
    search = a_search(own)
    history = MadeUp(lambda settings: TrialStatus.OUT_OF_RAM, own).run(search)
    hunt = search.hunt(history)
    assert len(history) == 1 and hunt.stopped is not None
    assert "that was tried" not in hunt.stopped and "nothing gentler could be tried" in hunt.stopped


def test_where_nothing_gentler_fits_the_nearest_relaxation_is_named() -> None:
    def told(settings: Settings) -> Told:
        return 10.0, {"ram_peak_bytes": (200 + 50 * settings["workers"]) * MIB}

    search = a_search(limits=Limits(ram=Limit(bytes=100 * MIB, text="100MiB")))
    history = MadeUp(told).run(search)
    hunt = search.hunt(history)
    assert hunt.stopped is not None and "--ram-limit 200MiB" in hunt.stopped, hunt.stopped
