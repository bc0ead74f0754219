"""Trials of a search that end early: the leader is one that a run can be made with, and nothing is tried twice."""

from __future__ import annotations

from dataclasses import replace

from support.made_up import MACHINE, OWN, MadeUp, Settings, Told, an_experiment, asked_for
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment, KnobBinding
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus
from vtune.strategies.search import Search

WORKERS = KnobBinding(name="workers", values=(1, 2, 4, 8))


def a_search(experiment: Experiment, **asked: object) -> Search:
    return Search(experiment=experiment, machine=MACHINE, sampler="grid", confirm=False, **asked)  # type: ignore[arg-type]


def more_is_faster(settings: Settings) -> Told:
    return 10.0 * float(settings["workers"]) ** 0.5


def searched(*, trials: int = 12) -> tuple[Experiment, list[TrialRecord]]:
    experiment = an_experiment(OWN, knobs=(WORKERS,))
    return experiment, MadeUp(more_is_faster).run(a_search(experiment, trials=trials))


def test_what_is_surely_slower_than_the_best_so_far_is_asked_to_end_early_and_not_asked_again() -> None:
    experiment, history = searched()
    early = [one for one in history if one.beaten is not None]
    assert early
    for one in early:
        before = [other for other in history if other.trial < one.trial and other.beaten is None]
        best = max(before, key=lambda other: other.measurement.samples_per_s or 0)
        assert one.beaten is not None and one.beaten.trial == best.trial
    asked = [tuple(sorted(one.items())) for one in asked_for(history)]
    assert len(asked) == len(set(asked))
    # Never the user's own.
    assert history[0].beaten is None and a_search(experiment).propose([]).beat is None  # type: ignore[union-attr]


def test_who_failed_in_a_later_launch_leads_no_more_and_nothing_is_tried_for_ever() -> None:
    experiment, history = searched(trials=8)
    best = max(history, key=lambda one: one.measurement.samples_per_s or 0)
    assert any(one.beaten is not None and one.beaten.trial == best.trial for one in history)
    died = replace(best, trial=len(history) + 1, origin="confirm", status=TrialStatus.OUT_OF_RAM, detail="it is full")
    went_on = MadeUp(more_is_faster).run(a_search(experiment, trials=20), [*history, died])
    after = went_on[len(history) + 1 :]
    assert after and all(one.beaten is None or one.beaten.trial != best.trial for one in after)
    asked: list[tuple[tuple[str, Scalar], ...]] = [tuple(sorted(one.items())) for one in asked_for(after)]
    assert len(asked) == len(set(asked))


def test_a_baseline_that_failed_by_itself_is_asked_for_once_more_by_the_next_call() -> None:
    experiment = an_experiment(OWN, knobs=(WORKERS,))
    crashed = MadeUp(lambda settings: TrialStatus.CRASHED).run(a_search(experiment))
    assert len(crashed) == 1 and a_search(experiment).hunt(crashed).stopped is not None
    again = a_search(experiment, already=1).propose(crashed)
    assert again is not None and again.settings == {}
    mended = MadeUp(more_is_faster).run(a_search(experiment, already=1, trials=4), crashed)
    assert len(mended) > 3 and a_search(experiment, already=1, trials=4).hunt(mended).best is not None
