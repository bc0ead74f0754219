"""What every strategy has to keep to, whatever it looks for: it is a function of the history, and it ends."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import pytest

from support.choices import choose
from support.made_up import MACHINE, OWN, MadeUp, Settings, Told, an_experiment, launched
from support.simulated import SimulatedStudy, limited, simulated_experiment
from support.studies import a_trial
from vtune.config.plan_file import bundled_plans, load_plan
from vtune.domain.effects import Scalar
from vtune.domain.experiment import KnobBinding
from vtune.domain.phases import AskedPhases
from vtune.domain.record import TrialRecord
from vtune.domain.search import Sampler
from vtune.domain.trial import Proposal, TrialStatus
from vtune.execution.engines.simulated.surface import Surface
from vtune.execution.engines.simulated.surfaces import FOUR_CORES, SMALL_VOLUMES
from vtune.journal.records import record_from_json, record_to_json
from vtune.strategies.fixed import Once
from vtune.strategies.phases import Phases
from vtune.strategies.race import Race
from vtune.strategies.search import Search
from vtune.tuner import Strategy

FULL: Mapping[str, Scalar] = {
    **OWN, "batch_size": 2, "precision": "fp32", "filters": 32, "patch_size": 128, "gradient_checkpointing": False,
    "compile": False, "surface_distance_interval": 4, "threads": 4,
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    name: str
    # Anew each time: what it remembers must not be its own.
    made: Callable[[], Strategy]
    # It is asked once, and whatever came of it is the answer.
    asks_once: bool = False


def a_plan(name: str) -> Callable[[], Strategy]:
    experiment = an_experiment(FULL, allow="DIFFERENT")
    return lambda: Phases(AskedPhases(plan=load_plan(name), options=True), experiment, MACHINE)


def a_search(sampler: Sampler) -> Callable[[], Strategy]:
    bindings = tuple(
        KnobBinding(name=name, values=values)
        for name, values in (("workers", (1, 2, 4)), ("batch_size", (1, 2, 4, 8)), ("precision", ("fp32", "bf16")))
    )
    experiment = an_experiment(FULL, knobs=bindings)

    def made() -> Search:
        if sampler == "gp":
            # Where torch is there already, its asks need no process of their own; the answers are the same.
            pytest.importorskip("torch")
        # A Gaussian process takes half a second an ask, from its third trial on.
        return Search(experiment=experiment, machine=MACHINE, sampler=sampler, trials=6 if sampler == "gp" else 12)

    return made


CASES = (
    Case("once", lambda: Once({"workers": 2}), asks_once=True),
    Case("race", lambda: Race([{"workers": 2}, {"workers": 4}], {}, cores=12)),
    *(Case(name, a_plan(name)) for name in bundled_plans()),
    *(Case(f"search {sampler}", a_search(sampler)) for sampler in get_args(Sampler)),
)
# Optuna's Gaussian process takes seconds a proposal.
SLOW = ("search gp",)
every_strategy = pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.name in SLOW else []) for case in CASES],
)


def loader(settings: Settings) -> Told:
    """More of everything is better, up to what the training takes; 4 of a batch are too many."""
    if settings["batch_size"] > 4:
        return TrialStatus.OUT_OF_VRAM
    own = 30.0 * settings["batch_size"] ** 0.3 * (1.5 if settings["precision"] != "fp32" else 1.0)
    return float(min(own, settings["workers"] * (5 + 0.3 * settings["prefetch_factor"])))


def asked(record: TrialRecord | Proposal) -> str:
    settings = record.settings if isinstance(record, Proposal) else record.asked or {}
    changed = {name: value for name, value in settings.items() if FULL.get(name) != value}
    return json.dumps(dict(sorted(changed.items())))


def through_the_journal(history: list[TrialRecord]) -> list[TrialRecord]:
    return [record_from_json(json.loads(json.dumps(record_to_json(record)))) for record in history]


@every_strategy
def test_the_same_history_brings_the_same_proposal(case: Case) -> None:
    history = MadeUp(loader, FULL, luck=0.01).run(case.made())
    kept = case.made()
    for length in range(len(history) + 1):
        before = history[:length]
        proposal = kept.propose(before)
        assert proposal == kept.propose(list(before)) == case.made().propose(through_the_journal(before))


@every_strategy
def test_it_ends_and_stays_at_its_end(case: Case) -> None:
    strategy = case.made()
    history = MadeUp(loader, FULL).run(strategy, most=60)
    assert history and strategy.propose(history) is None


@every_strategy
def test_what_was_measured_is_not_proposed_again(case: Case) -> None:
    history = MadeUp(loader, FULL).run(case.made())
    seen = [asked(record) for record in history if record.origin != "confirm"]
    assert len(seen) == len(set(seen))
    once_more = [asked(record) for record in history if record.origin == "confirm" and record.race is None]
    assert len(once_more) == len(set(once_more))
    races = [(leg.race.id, leg.race.round, leg.race.contestant) for leg in history if leg.race is not None]
    assert len(races) == len(set(races))


@every_strategy
def test_it_goes_on_from_any_moment_as_if_nothing_had_happened(case: Case) -> None:
    trainer = MadeUp(loader, FULL, luck=0.01)
    whole = trainer.run(case.made())
    for length in range(0, len(whole), 3):
        assert trainer.run(case.made(), through_the_journal(whole[:length])) == whole


@every_strategy
def test_an_interrupted_launch_is_asked_for_again(case: Case) -> None:
    if case.asks_once:
        return
    trainer, strategy, history = MadeUp(loader, FULL), case.made(), list[TrialRecord]()
    while (proposal := strategy.propose(history)) is not None:
        cut = launched(proposal, len(history) + 1, TrialStatus.INTERRUPTED, own=FULL)
        assert strategy.propose([*history, cut]) == proposal
        history += [cut, trainer.measure(proposal, [*history, cut])]
        assert len(history) < 200
    assert [asked(one) for one in history[1::2]] == [asked(one) for one in trainer.run(case.made())]


QUICK_FAILURES = (TrialStatus.CRASHED, TrialStatus.OUT_OF_VRAM, TrialStatus.INVALID)
FAILURES = (
    *QUICK_FAILURES,
    *(one for one in TrialStatus if one not in (*QUICK_FAILURES, TrialStatus.COMPLETED, TrialStatus.INTERRUPTED)),
)


def failing(case: Case) -> tuple[TrialStatus, ...]:
    # A sampler of Optuna's is told that a trial failed, never how; the search around it is the same with "tpe".
    return FAILURES[:1] if case.name == "search gp" else FAILURES


@pytest.mark.parametrize(
    ("case", "status"),
    [
        pytest.param(
            case,
            status,
            id=f"{case.name}-{status}",
            marks=[pytest.mark.slow] if case.name in SLOW or status not in QUICK_FAILURES else [],
        )
        for case in CASES
        for status in failing(case)
    ],
)
def test_it_survives_whatever_fails(case: Case, status: TrialStatus) -> None:
    for fails in (
        lambda settings: True,
        lambda settings: any(settings.get(name) != value for name, value in FULL.items()),
        lambda settings: settings["workers"] > 2,
    ):
        trainer = MadeUp(lambda s, fails=fails: status if fails(s) else loader(s), FULL)  # type: ignore[misc]
        history = trainer.run(case.made(), most=60)
        seen = [asked(record) for record in history if record.origin != "confirm"]
        assert len(seen) == len(set(seen))


@pytest.mark.slow
@every_strategy
def test_it_ends_where_no_trial_tells_a_rate_or_enough_of_one(case: Case) -> None:
    for told in (
        {"samples_per_s": None, "samples_per_s_ci95": None, "samples_per_s_whole_run": None},
        {"samples_per_s_ci95": None},
        {"steady": False, "steps_measured": 3},
        {"fed_from_stock": True},
        {"effective_settings": {"workers": 2}},
    ):
        trainer = MadeUp(lambda settings, told=told: (10.0 + settings["workers"], told), FULL)  # type: ignore[misc]
        trainer.run(case.made(), most=60)


@pytest.mark.slow
@every_strategy
def test_trials_of_something_else_do_not_lead_it_astray(case: Case) -> None:
    strange = [
        a_trial(1, 9.0, asked={"workers": 3}),
        replace(a_trial(2, 900.0), reason="fed from memory", origin="probe"),
        a_trial(3, 1.0, batch=64, asked={"batch_size": 64}, measured={"cache": "cold"}),
        a_trial(4, 20.0, asked={"workers": 5}, measured={"effective_settings": {"workers": 9}}),
    ]
    strategy = case.made()
    if case.asks_once:
        strategy = Once({"workers": 2}, already=len(strange))
    history = MadeUp(loader, FULL).run(strategy, strange, most=60)
    assert history[: len(strange)] == strange and strategy.propose(history) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "plan", [name if name == "guided" else pytest.param(name, marks=pytest.mark.slow) for name in bundled_plans()]
)
@pytest.mark.parametrize(
    "surface", [SMALL_VOLUMES, pytest.param(FOUR_CORES, marks=pytest.mark.slow)], ids=lambda surface: surface.name
)
def test_a_plan_resumed_at_any_moment_proposes_and_chooses_the_same(
    surface: Surface, plan: str, tmp_path: Path
) -> None:
    """As after a kill: what is in the journal is there, what is not is asked for anew. With a model that learns."""
    experiment = simulated_experiment(surface, limits=limited(ram=0.6, vram=0.95))
    study = SimulatedStudy(surface, experiment, tmp_path)

    def made() -> Phases:
        return Phases(AskedPhases(plan=load_plan(plan)), experiment, study.machine)

    proposals: list[Proposal] = []
    clocks = [study.engine.clock_s]

    def seen(proposal: Proposal, record: TrialRecord) -> None:
        proposals.append(proposal)
        clocks.append(study.engine.clock_s)

    whole = study.run(made(), seen=seen)
    for length, proposal in enumerate(proposals):
        assert made().propose(through_the_journal(whole[:length])) == proposal
    walk = made().walk(whole)
    assert sorted(walk.trials) == [record.trial for record in whole]
    # A launch is told by its number: the same one at the same time is the same.
    kept = len(whole) // 2
    study.engine.clock_s = clocks[kept]
    assert study.run(made(), whole[:kept]) == whole
    best = choose(whole, limits=experiment.limits, ram_total_bytes=study.machine.ram_bytes, cores=study.machine.cores)
    assert best.best == walk.best
