"""Plans walked over made-up trainings: what is asked for, in which order, what is kept and why."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from support.choices import choose
from support.made_up import MACHINE, OWN, MadeUp, Settings, Told, an_experiment, asked_for, launched
from vtune.domain.effects import Scalar
from vtune.domain.experiment import KnobBinding, Limit, Limits
from vtune.domain.phases import AskedPhases, Option, Phase, PhaseOutcome, Plan, RungValue, Success, Times, rolled_back
from vtune.domain.record import TrialRecord
from vtune.domain.repeated import Repeated, Repeats
from vtune.domain.trial import Proposal, TrialStatus
from vtune.strategies.confirm import MOST_LAUNCHES
from vtune.strategies.phases import Phases

OOM = TrialStatus.OUT_OF_VRAM


def a_phase(number: int, knob: str, *values: RungValue, beyond: Sequence[RungValue] = (), **fields: Any) -> Phase:
    return Phase(
        number=number,
        name=knob,
        knob=knob,
        rungs=tuple({knob: value} for value in values),
        beyond=tuple({knob: value} for value in beyond),
        **fields,
    )


WORKERS = a_phase(1, "workers", 1, 2, 4, 6, beyond=(8, 12, 16))
BATCH = a_phase(2, "batch_size", Times(factor=1), Times(factor=2), Times(factor=4), accumulate_instead=True)
LADDER = Plan(
    name="ladder",
    about="a test's",
    phases=(WORKERS, BATCH, a_phase(3, "prefetch_factor", 2, 4), a_phase(4, "persistent_workers", True)),
)


def loader(settings: Settings) -> float:
    """A worker delivers 5 samples a second, the training takes 40 at batch 1 and up to 60 at a larger one."""
    training = 60 / (1 + 0.5 / settings["batch_size"])
    return float(min(5.0 * settings["workers"], training))


def the_phases(plan: Plan = LADDER, own: Mapping[str, Scalar] = OWN, **fields: Any) -> Phases:
    experiment = fields.pop("experiment", None) or an_experiment(own, **fields.pop("of_experiment", {}))
    machine, others = fields.pop("machine", MACHINE), fields.pop("left_out", frozenset())
    asked = AskedPhases(plan=plan, **{"confirm": False, **fields})
    return Phases(asked, experiment, machine, left_out=others)


def only(*phases: Phase) -> Plan:
    return Plan(name="p", about="", phases=phases)


def rungs(outcome: PhaseOutcome) -> list[tuple[dict[str, Scalar], str]]:
    return [(dict(rung.turned), rung.state) for rung in outcome.rungs]


def test_the_users_own_configuration_is_measured_first() -> None:
    walk = the_phases().walk([])
    assert walk.stage == "baseline" and walk.baseline is None and walk.best is None
    assert walk.proposal == Proposal(settings={}, reason="the current settings", origin="phase:0:baseline")


def test_what_was_typed_belongs_to_it_and_to_all_that_follows() -> None:
    phases = the_phases(of_experiment={"settings": {"prefetch_factor": 3}})
    first = phases.propose([])
    assert first is not None and dict(first.settings) == {"prefetch_factor": 3}
    assert first.reason == "asked for prefetch_factor=3"
    history = [launched(first, 1, 5.0)]
    second = phases.propose(history)
    assert second is not None and dict(second.settings) == {"prefetch_factor": 3, "workers": 2}


def test_one_knob_after_the_other_is_climbed_and_what_wins_is_carried_forward() -> None:
    phases = the_phases()
    history = MadeUp(loader).run(phases)
    assert asked_for(history) == [
        {},
        {"workers": 2},
        {"workers": 4},
        {"workers": 6},
        {"workers": 6, "batch_size": 2},
        {"workers": 6, "batch_size": 4},
        {"workers": 6, "prefetch_factor": 4},
        {"workers": 6, "persistent_workers": True},
    ]
    walk = phases.walk(history)
    assert walk.stage == "done" and walk.proposal is None and walk.left == (0, 0)
    assert [dict(outcome.kept) for outcome in walk.phases] == [{"workers": 6}, {}, {}, {}]
    assert dict(walk.settings) == {"workers": 6} and walk.best is not None and walk.best.trial == 4
    assert walk.trials == tuple(record.trial for record in history)
    # The two that the ladder begins with are what is set already, and are passed over without a word.
    assert rungs(walk.phases[0]) == [({"workers": 2}, "kept"), ({"workers": 4}, "kept"), ({"workers": 6}, "kept")]
    assert all(outcome.why and all(rung.why for rung in outcome.rungs) for outcome in walk.phases)


def test_the_reason_and_the_origin_say_phase_and_change() -> None:
    history = MadeUp(loader).run(the_phases(up_to=2))
    assert [record.origin for record in history[:2]] == ["phase:0:baseline", "phase:1:workers"]
    assert history[1].reason == "phase 1 of 2, workers 1 → 2"
    assert history[4].reason == "phase 2 of 2, batch_size 1 → 2"


def test_up_to_ends_after_that_phase() -> None:
    walk = the_phases(up_to=1).walk(MadeUp(loader).run(the_phases(up_to=1)))
    assert [outcome.phase.number for outcome in walk.phases] == [1] and walk.stage == "done"


def test_going_on_to_a_later_phase_measures_nothing_again() -> None:
    trainer = MadeUp(loader)
    whole = trainer.run(the_phases())
    again = trainer.run(the_phases(), trainer.run(the_phases(up_to=2)))
    assert asked_for(again) == asked_for(whole)


def test_extend_climbs_on_while_it_wins() -> None:
    history = MadeUp(loader).run(the_phases(only(WORKERS), extend=True))
    assert asked_for(history)[-1] == {"workers": 12} and {"workers": 8} in asked_for(history)
    # 8 workers fill the training; 12 win nothing, and 16 are not tried.
    assert dict(the_phases(only(WORKERS), extend=True).walk(history).settings) == {"workers": 8}
    assert {"workers": 8} not in asked_for(MadeUp(loader).run(the_phases(only(WORKERS))))


def test_past_the_documented_end_nothing_is_tried_once_the_end_did_not_win() -> None:
    history = MadeUp(lambda s: float(min(5 * s["workers"], 20))).run(the_phases(only(WORKERS), extend=True))
    assert asked_for(history) == [{}, {"workers": 2}, {"workers": 4}, {"workers": 6}]


def test_a_ladder_is_left_after_two_rungs_in_a_row_that_were_no_better() -> None:
    phases = the_phases(only(a_phase(1, "workers", 2, 4, 6, 8)))
    history = MadeUp(lambda s: 5.0).run(phases)
    assert asked_for(history) == [{}, {"workers": 2}, {"workers": 4}]
    outcome = phases.walk(history).phases[0]
    assert rungs(outcome)[2:] == [({"workers": 6}, "skipped"), ({"workers": 8}, "skipped")]
    assert outcome.rungs[2].why == "two in a row were no better" and outcome.kept == {}


def test_rungs_that_are_too_noisy_to_tell_end_no_ladder_and_win_nothing() -> None:
    phases = the_phases(only(a_phase(1, "workers", 2, 4, 6, 8)))
    history = MadeUp(lambda s: (5.0, {"samples_per_s_ci95": (0.2, 100.0)})).run(phases)
    [outcome] = phases.walk(history).phases
    assert rungs(outcome) == [({"workers": workers}, "undecided") for workers in (2, 4, 6, 8)]
    assert outcome.kept == {} and {rung.gain for rung in outcome.rungs} == {None}


def noisy_at_four(settings: Settings) -> Told:
    """Of 4 workers a single launch shows that they are faster than 1, and nothing against 2."""
    noisy = {"samples_per_s_ci95": (12.0, 55.0)} if settings["workers"] == 4 else {}
    return {1: 10.0, 2: 20.0, 4: 30.0}[settings["workers"]], noisy


@pytest.mark.parametrize(("confirm", "workers", "state"), [(False, 2, "undecided"), (True, 4, "kept")])
def test_a_step_that_is_not_decided_wins_only_by_a_race_against_the_one_that_was_kept(
    confirm: bool, workers: int, state: str
) -> None:
    phases = the_phases(only(a_phase(1, "workers", 1, 2, 4)), confirm=confirm)
    history = MadeUp(noisy_at_four).run(phases)
    walk = phases.walk(history)
    assert walk.best is not None and walk.best.settings["workers"] == workers
    assert [rung.state for rung in walk.phases[0].rungs] == ["kept", state]
    chosen = choose(history, rolled_back=rolled_back(walk.phases[0].rungs)).best
    assert chosen is not None and chosen.settings["workers"] == workers
    assert dict(walk.phases[0].kept) == {"workers": workers}


def test_what_ends_one_ladder_of_a_phase_says_nothing_of_the_next() -> None:
    optional = Phase(
        number=1,
        name="optional",
        knob="workers",
        rungs=({"workers": 2}, {"workers": 4}, {"persistent_workers": True}, {"prefetch_factor": 4}),
    )
    history = MadeUp(lambda s: 5.0 + 5 * (s["prefetch_factor"] == 4)).run(the_phases(only(optional)))
    assert asked_for(history)[3:] == [{"persistent_workers": True}, {"prefetch_factor": 4}]


def out_of_vram_from(batch: int) -> MadeUp:
    def told(settings: Settings) -> Told:
        return OOM if settings["batch_size"] >= batch else 10.0 * settings["batch_size"] ** 0.5

    return MadeUp(told)


def test_out_of_memory_is_rolled_back_and_nothing_larger_is_tried() -> None:
    plan = only(a_phase(1, "batch_size", 1, 2, 4, 8, 16))
    phases = the_phases(plan)
    history = out_of_vram_from(4).run(phases)
    assert asked_for(history) == [{}, {"batch_size": 2}, {"batch_size": 4}]
    walk = phases.walk(history)
    assert dict(walk.settings) == {"batch_size": 2}
    assert [state for _, state in rungs(walk.phases[0])] == ["kept", "rejected", "skipped", "skipped"]
    assert "out of vram" in walk.phases[0].rungs[1].why


def test_where_a_batch_does_not_fit_half_of_it_is_accumulated_twice() -> None:
    phases = the_phases(only(replace(BATCH, number=1)))
    history = out_of_vram_from(4).run(phases)
    assert asked_for(history) == [
        {},
        {"batch_size": 2},
        {"batch_size": 4},
        {"batch_size": 2, "accumulate_steps": 2},
    ]
    assert history[-1].reason.endswith("accumulate_steps 1 → 2 in place of batch_size 4")
    # Not faster, so it is not what is carried on.
    assert dict(phases.walk(history).settings) == {"batch_size": 2}


def test_without_a_way_to_accumulate_nothing_stands_in() -> None:
    own = {**OWN, "accumulate_steps": None}
    history = MadeUp(lambda s: OOM if s["batch_size"] > 1 else 5.0, own).run(the_phases(only(BATCH), own))
    assert asked_for(history) == [{}, {"batch_size": 2}]


def test_over_a_limit_counts_as_out_of_memory() -> None:
    limits = Limits(ram=Limit(bytes=4 * 2**30, text="4GiB"))

    def told(settings: Settings) -> Told:
        return 5.0 * settings["workers"], {"ram_peak_bytes": settings["workers"] * 2**30}

    phases = the_phases(only(WORKERS), of_experiment={"limits": limits})
    history = MadeUp(told).run(phases)
    walk = phases.walk(history)
    assert dict(walk.settings) == {"workers": 4} and "the limit is 4 GiB" in walk.phases[0].rungs[-1].why


def test_what_crashed_is_rolled_back_and_the_next_rung_still_has_its_turn() -> None:
    def told(settings: Settings) -> Told:
        return TrialStatus.CRASHED if settings["workers"] == 4 else 5.0 * settings["workers"]

    phases = the_phases(only(WORKERS))
    walk = phases.walk(MadeUp(told).run(phases))
    assert [state for _, state in rungs(walk.phases[0])] == ["kept", "rejected", "kept"]
    assert dict(walk.settings) == {"workers": 6}


def test_less_workers_are_tried_where_more_were_slower() -> None:
    """A lock, or fewer cores than workers."""
    own = {**OWN, "workers": 4}
    trainer = MadeUp(lambda s: 60.0 / (1 + s["workers"] / 4), own)
    phases = the_phases(only(WORKERS), own)
    history = trainer.run(phases)
    assert asked_for(history) == [{}, {"workers": 6}, {"workers": 2}, {"workers": 1}]
    assert dict(phases.walk(history).settings) == {"workers": 1}


def test_workers_beyond_the_cores_are_taken_back_without_a_hint() -> None:
    own = {**OWN, "workers": 16}
    phases = the_phases(only(WORKERS), own, machine=replace(MACHINE, cores=4))
    history = MadeUp(lambda s: 20.0 if s["workers"] > 6 else 30.0, own).run(phases)
    assert asked_for(history) == [{}, {"workers": 6}, {"workers": 4}]


def test_less_is_not_tried_where_nothing_says_that_it_is_faster() -> None:
    own = {**OWN, "workers": 4}
    phases = the_phases(only(WORKERS), own)
    history = MadeUp(lambda s: 5.0 * min(4, s["workers"]), own).run(phases)
    assert asked_for(history) == [{}, {"workers": 6}]
    below = phases.walk(history).phases[0].rungs[1:]
    assert [dict(rung.turned) for rung in below] == [{"workers": 2}, {"workers": 1}]
    assert {rung.why for rung in below} == {"nothing says that less of it is faster"}


def test_a_knob_without_a_way_is_skipped_with_the_reason() -> None:
    phases = the_phases(only(a_phase(1, "gradient_checkpointing", True)))
    walk = phases.walk(MadeUp(loader).run(phases))
    assert rungs(walk.phases[0]) == [({"gradient_checkpointing": True}, "skipped")]
    assert "vtune.knobs.gradient_checkpointing.key names it" in walk.phases[0].rungs[0].why
    assert walk.phases[0].why == walk.phases[0].rungs[0].why


def test_what_needs_workers_is_skipped_without_them() -> None:
    own = {**OWN, "workers": 0, "prefetch_factor": None, "persistent_workers": None}
    phases = the_phases(only(a_phase(1, "prefetch_factor", 4), a_phase(2, "persistent_workers", True)), own)
    history = MadeUp(lambda s: 5.0, own).run(phases)
    assert asked_for(history) == [{}]
    assert "needs at least one worker" in phases.walk(history).phases[1].why


def test_another_training_is_only_tried_where_it_is_allowed() -> None:
    own = {**OWN, "filters": 32}
    phase = a_phase(1, "filters", Times(factor=0.5), needs_allow=True)
    phases = the_phases(only(phase), own)
    history = MadeUp(lambda s: 5.0 * 32 / s["filters"], own).run(phases)
    assert asked_for(history) == [{}] and "--allow different" in phases.walk(history).phases[0].why
    allowed = the_phases(only(phase), own, of_experiment={"allow": "DIFFERENT"})
    assert asked_for(MadeUp(lambda s: 5.0 * 32 / s["filters"], own).run(allowed)) == [{}, {"filters": 16}]
    # A plan that names it without that condition is the user's word.
    named = the_phases(only(replace(phase, needs_allow=False)), own)
    assert named.propose(history) is not None


def test_factors_are_of_the_users_own_value_also_after_another_has_won() -> None:
    own = {**OWN, "batch_size": 3}
    history = MadeUp(lambda s: 5.0 * s["batch_size"], own).run(the_phases(only(BATCH), own))
    assert asked_for(history) == [{}, {"batch_size": 6}, {"batch_size": 12}]


def test_a_larger_effective_batch_says_what_follows_from_it() -> None:
    phases = the_phases(only(BATCH))
    walk = phases.walk(MadeUp(lambda s: 5.0 * s["batch_size"]).run(phases))
    assert "the effective batch is 4 instead of 1" in walk.phases[0].rungs[1].why
    assert "×2 for Adam" in walk.phases[0].rungs[1].why


def test_the_window_of_a_phase_goes_with_its_trials() -> None:
    phases = the_phases(only(replace(WORKERS, steps=(100, 200))))
    first = phases.propose([])
    assert first is not None and first.steps is None
    second = phases.propose([launched(first, 1, 5.0)])
    assert second is not None and second.steps == (100, 200)


def test_a_criterion_that_cannot_be_judged_here_is_told_with_the_rung() -> None:
    phases = the_phases(only(replace(WORKERS, success=Success(gpu_util_percent=50))))
    walk = phases.walk(MadeUp(loader).run(phases))
    assert all(rung.not_judged == ("GPU > 50 %: not judged, no GPU was seen",) for rung in walk.phases[0].rungs)


@pytest.mark.parametrize("status", [TrialStatus.CRASHED, TrialStatus.NOT_OBSERVED, TrialStatus.HUNG])
def test_a_baseline_that_gives_nothing_to_build_on_ends_the_walk(status: TrialStatus) -> None:
    phases = the_phases()
    history = MadeUp(lambda s: status).run(phases)
    walk = phases.walk(history)
    assert len(history) == 1 and walk.stage == "done" and walk.best is None
    assert walk.stopped is not None and f"it is {status}" in walk.stopped
    assert walk.baseline is not None and walk.baseline.status is status


def fed(times: int, *, rate: float = 11.0) -> MadeUp:
    """So many launches of the user's own settings live on what lay ready; workers bring 5 samples a second each."""
    launches = 0

    def told(settings: Settings) -> Told:
        nonlocal launches
        if settings["workers"] > 1:
            return 5.0 * settings["workers"]
        launches += 1
        return (rate, {"fed_from_stock": True}) if launches <= times else 5.0

    return MadeUp(told)


def test_a_baseline_that_lived_on_its_queue_is_measured_once_more_for_longer() -> None:
    phases = the_phases(only(a_phase(1, "workers", 2)))
    trainer = fed(1)
    first = trainer.run(phases, most=3)[:1]
    again = phases.propose(first)
    assert again is not None and dict(again.settings) == {} and again.steps == (200, 200)
    assert again.origin == "phase:0:baseline" and "trial 1 lived on batches that lay ready" in again.reason
    history = fed(1).run(phases)
    assert asked_for(history) == [{}, {}, {"workers": 2}]
    walk = phases.walk(history)
    assert walk.baseline is not None and walk.baseline.trial == 2 and walk.trials == (1, 2, 3)
    assert "of trial 2" in walk.phases[0].rungs[0].why and dict(walk.settings) == {"workers": 2}


def test_a_baseline_that_still_lives_on_its_queue_decides_nothing() -> None:
    phases = the_phases(only(a_phase(1, "workers", 2)))
    history = fed(9).run(phases)
    assert asked_for(history) == [{}, {}, {"workers": 2}]
    [rung] = phases.walk(history).phases[0].rungs
    assert rung.state == "rejected" and rung.gain is None
    assert "trial 2 lived on batches that lay ready" in rung.why
    # What beats even that is faster.
    history = fed(9, rate=6.0).run(phases)
    assert [rung.state for rung in phases.walk(history).phases[0].rungs] == ["kept"]


@pytest.mark.parametrize("status", [TrialStatus.CRASHED, TrialStatus.NOT_OBSERVED, TrialStatus.HUNG])
def test_a_baseline_that_failed_is_tried_again_by_a_new_call_and_never_twice_by_one(status: TrialStatus) -> None:
    phases = the_phases(only(WORKERS))
    failed = MadeUp(lambda s: status).run(phases)
    assert len(failed) == 1
    anew = replace(phases, already=1)
    walk = anew.walk(failed)
    assert walk.stage == "baseline" and walk.stopped is None and walk.proposal is not None
    still = MadeUp(lambda s: status).run(anew, failed)
    assert len(still) == 2 and "trial 2" in (anew.walk(still).stopped or "")
    # The user mended the script; after that it is not asked for again.
    mended = MadeUp(loader).run(anew, failed)
    assert asked_for(mended) == [{}, {}, {"workers": 2}, {"workers": 4}, {"workers": 6}]
    assert replace(phases, already=5).walk(mended).stage == "done"


def test_a_baseline_that_did_not_fit_and_steps_that_failed_are_not_tried_again_by_a_new_call() -> None:
    own = {**OWN, "batch_size": 8}
    phases = the_phases(only(WORKERS), own)

    def told(settings: Settings) -> Told:
        if settings["batch_size"] > 4:
            return OOM
        return TrialStatus.CRASHED if settings["workers"] == 4 else 5.0 * settings["workers"]

    history = MadeUp(told, own).run(phases)
    assert replace(phases, already=len(history)).walk(history) == phases.walk(history)


def test_a_baseline_that_does_not_fit_is_made_to_fit_by_the_same_effective_batch() -> None:
    own = {**OWN, "batch_size": 8}
    trainer = MadeUp(lambda s: OOM if s["batch_size"] > 2 else 5.0 * s["workers"], own)
    phases = the_phases(only(WORKERS), own)
    history = trainer.run(phases)
    assert asked_for(history)[:4] == [
        {},
        {"batch_size": 4, "accumulate_steps": 2},
        {"batch_size": 2, "accumulate_steps": 4},
        {"batch_size": 2, "accumulate_steps": 4, "workers": 2},
    ]
    walk = phases.walk(history)
    assert walk.phases[0].phase.number == 0 and walk.phases[0].phase.name == "fit"
    assert dict(walk.phases[0].kept) == {"batch_size": 2, "accumulate_steps": 4}
    assert walk.baseline is not None and walk.baseline.trial == 1 and walk.stopped is None
    assert dict(walk.settings) == {"batch_size": 2, "accumulate_steps": 4, "workers": 6}


def out_of_ram_at_the_start(*, seen: Mapping[str, Scalar], most: int) -> MadeUp:
    """A plain command, of which a trial tells what its loader was seen to have; it fits up to so many workers."""

    class AtTheStart(MadeUp):
        def measure(self, proposal: Proposal, history: Sequence[TrialRecord]) -> TrialRecord:
            record = super().measure(proposal, history)
            failed = record.status is not TrialStatus.COMPLETED
            return replace(record, settings={**seen, **proposal.settings}) if failed else record

    own = {**OWN, "workers": 8}
    return AtTheStart(lambda s: TrialStatus.OUT_OF_RAM if s["workers"] > most else 5.0, own)


NAMED_NOWHERE: Mapping[str, Scalar] = dict.fromkeys(OWN)


def test_a_plain_command_without_room_is_relieved_of_the_workers_that_its_loader_was_seen_to_have() -> None:
    phases = the_phases(only(), NAMED_NOWHERE)
    history = out_of_ram_at_the_start(seen={"workers": 8, "prefetch_factor": 2}, most=2).run(phases)
    assert asked_for(history) == [{}, {"prefetch_factor": 1}, {"workers": 4}, {"workers": 2}]
    walk = phases.walk(history)
    assert walk.stopped is None and dict(walk.settings) == {"workers": 2}


def test_where_nobody_knows_what_less_would_be_nothing_is_said_to_have_been_tried() -> None:
    phases = the_phases(only(), NAMED_NOWHERE)
    history = out_of_ram_at_the_start(seen={}, most=0).run(phases)
    walk = phases.walk(history)
    assert asked_for(history) == [{}] and walk.stopped is not None
    assert "that was tried" not in walk.stopped
    assert "nothing gentler could be tried: its workers and batch_size are not known" in walk.stopped
    assert "--set workers=" in walk.stopped


def test_what_has_no_way_to_be_gentler_says_so() -> None:
    own = {**OWN, "batch_size": 8, "accumulate_steps": None}
    phases = the_phases(only(WORKERS), own)
    walk = phases.walk(MadeUp(lambda s: OOM, own).run(phases))
    assert walk.stopped is not None and "nothing gentler could be tried: " in walk.stopped
    assert "accumulate_steps" in walk.stopped


def test_a_baseline_over_its_ram_is_relieved_of_queues_and_workers_before_its_batch() -> None:
    own = {**OWN, "workers": 8, "prefetch_factor": 4, "batch_size": 2}
    limits = Limits(ram=Limit(bytes=3 * 2**30, text="3GiB"))

    def told(settings: Settings) -> Told:
        return 5.0, {"ram_peak_bytes": settings["workers"] * 2**30}

    phases = the_phases(only(WORKERS), own, of_experiment={"limits": limits})
    history = MadeUp(told, own).run(phases)
    assert asked_for(history)[:4] == [{}, {"prefetch_factor": 1}, {"workers": 4}, {"workers": 2}]
    assert phases.walk(history).phases[0].kept == {"workers": 2}


def test_fitting_is_given_up_after_four_launches() -> None:
    own = {**OWN, "batch_size": 64}
    phases = the_phases(LADDER, own)
    history = MadeUp(lambda s: OOM, own).run(phases)
    walk = phases.walk(history)
    assert len(history) == 5 and walk.stopped is not None and walk.best is None
    assert walk.stopped.endswith("nothing gentler that was tried does")


def test_options_are_only_named_unless_they_are_asked_for() -> None:
    options = (
        Option(name="A", settings={"batch_size": Times(factor=2), "workers": 4}),
        Option(name="B", settings={"gradient_checkpointing": True}),
    )
    plan = replace(only(WORKERS), options=options)
    unasked = the_phases(plan)
    history = MadeUp(loader).run(unasked)
    walk = unasked.walk(history)
    assert [option.trial for option in walk.options] == [None, None]
    assert dict(walk.options[0].settings) == {"batch_size": 2, "workers": 4}
    measured = the_phases(plan, options=True)
    history = MadeUp(loader).run(measured, history)
    walk = measured.walk(history)
    assert history[-1].origin == "phase:options:A" and asked_for(history)[-1] == {"batch_size": 2, "workers": 4}
    assert walk.options[0].trial == history[-1].trial and walk.options[1].trial is None
    assert "gradient_checkpointing" in walk.options[1].why


def by(walk_of: Phases, history: Sequence[TrialRecord]) -> dict[str, Scalar]:
    return dict(walk_of.walk(history).settings)


def test_a_small_gain_is_held_against_the_baseline_in_a_race_and_a_large_one_is_not() -> None:
    plan = only(a_phase(1, "workers", 2))
    small = the_phases(plan, confirm=True)
    history = MadeUp(lambda s: 10.0 if s["workers"] == 1 else 11.5, luck=0.004).run(small)
    legs = [record for record in history if record.race is not None]
    walk = small.walk(history)
    assert len(legs) >= 4 and {leg.origin for leg in legs} == {"confirm"} and walk.stage == "done"
    assert by(small, history) == {"workers": 2} and set(walk.trials) == {record.trial for record in history}
    large = the_phases(plan, confirm=True)
    assert not [one for one in MadeUp(lambda s: 10.0 * s["workers"]).run(large) if one.race is not None]
    assert len(MadeUp(lambda s: 10.0 if s["workers"] == 1 else 11.5).run(the_phases(plan))) == 2


def test_what_looks_faster_and_was_not_shown_to_be_is_raced_for_as_well() -> None:
    # Of two launches each by itself 5 % are less than 99 % of an interval leave: it is rolled back.
    phases = the_phases(only(a_phase(1, "workers", 2)), confirm=True)
    history = MadeUp(lambda s: 10.0 if s["workers"] == 1 else 10.5, luck=0.002).run(phases)
    walk = phases.walk(history)
    (rung,) = walk.phases[0].rungs
    assert [one for one in history if one.race is not None]
    # One screen does not take back and adopt the same.
    assert rung.state == "kept" and "not shown to be faster" in rung.why and rung.why.endswith("confirm show it")
    assert by(phases, history) == {"workers": 2} and walk.stage == "done"
    # Of less nobody would take the trouble.
    little = MadeUp(lambda s: 10.0 if s["workers"] == 1 else 10.3, luck=0.002).run(phases)
    assert len(little) == 2


def test_among_neighbours_that_leave_everything_open_nothing_is_raced_for() -> None:
    phases = the_phases(only(a_phase(1, "workers", 2)), confirm=True)

    def told(settings: Settings) -> Told:
        rate = 10.0 if settings["workers"] == 1 else 14.0
        return rate, {"samples_per_s_ci95": (rate / 2, rate * 2)}

    assert not [one for one in MadeUp(told).run(phases) if one.race is not None]


def test_while_it_races_it_says_how_many_launches_are_left() -> None:
    plan = only(a_phase(1, "workers", 2))
    phases = the_phases(plan, confirm=True)
    trainer = MadeUp(lambda s: 10.0 if s["workers"] == 1 else 11.5)
    history: list[TrialRecord] = []
    for _ in range(4):
        proposal = phases.propose(history)
        assert proposal is not None
        history.append(trainer.measure(proposal, history))
    walk = phases.walk(history)
    assert walk.stage == "confirm" and walk.proposal is not None and walk.proposal.race is not None
    assert 1 <= walk.left[0] <= walk.left[1] <= 19


def test_a_gain_that_was_luck_is_taken_back_by_the_race() -> None:
    plan = only(a_phase(1, "workers", 2))
    phases = the_phases(plan, confirm=True)

    def told(settings: Settings) -> Told:
        return 10.0

    first = MadeUp(lambda s: 10.0 if s["workers"] == 1 else 11.5)
    history = first.run(the_phases(plan))
    history = MadeUp(told, luck=0.004).run(phases, history)
    walk = phases.walk(history)
    assert walk.stage == "done" and dict(walk.settings) == {} and walk.best is not None
    assert walk.best.asked == {}


def test_a_baseline_that_is_over_a_limit_does_not_race() -> None:
    own = {**OWN, "batch_size": 4}
    limits = Limits(ram=Limit(bytes=3 * 2**30, text="3GiB"))

    def told(settings: Settings) -> Told:
        return 10.0, {"ram_peak_bytes": settings["batch_size"] * 2**30}

    phases = the_phases(only(), own, confirm=True, of_experiment={"limits": limits, "allow": "DIFFERENT"})
    history = MadeUp(told, own).run(phases)
    walk = phases.walk(history)
    assert not [record for record in history if record.race] and walk.best is not None
    assert dict(walk.settings) == {"batch_size": 2, "accumulate_steps": 2}


def test_what_is_to_come_is_shown_before_it_is_measured() -> None:
    walk = the_phases(confirm=True).walk([])
    assert [outcome.phase.number for outcome in walk.phases] == [1, 2, 3, 4]
    assert rungs(walk.phases[0]) == [({"workers": 2}, "open"), ({"workers": 4}, "open"), ({"workers": 6}, "open")]
    assert rungs(walk.phases[1]) == [({"batch_size": 2}, "open"), ({"batch_size": 4}, "open")]
    # The baseline, 3 + 2 + 1 + 1 rungs, accumulation in place of a batch, and all that may confirm.
    assert walk.left == (1, 9 + MOST_LAUNCHES)
    assert the_phases().walk([]).left == (1, 9)


def interrupted_at(phases: Phases, trainer: MadeUp, trial: int) -> list[TrialRecord]:
    history = list[TrialRecord]()
    while len(history) < trial and (proposal := phases.propose(history)) is not None:
        history.append(trainer.measure(proposal, history))
    cut = replace(history[-1], status=TrialStatus.INTERRUPTED, settings=dict(history[-1].asked or {}))
    return [*history[:-1], cut]


def test_a_step_that_was_interrupted_stands_among_its_phases_steps_until_it_is_run_again() -> None:
    phases, trainer = the_phases(only(WORKERS)), MadeUp(loader)
    history = interrupted_at(phases, trainer, 3)
    walk = phases.walk(history)
    states = [({"workers": 2}, "kept"), ({"workers": 4}, "interrupted"), ({"workers": 6}, "open")]
    assert rungs(walk.phases[0]) == states and not walk.phases[0].done
    cut = walk.phases[0].rungs[1]
    assert cut.trial == 3 and cut.gain is None and "run again" in cut.why
    whole = phases.walk(trainer.run(phases, history))
    assert [state for _, state in rungs(whole.phases[0])] == ["kept", "kept", "kept"]


def test_the_step_that_is_being_tried_stands_among_its_phases_steps() -> None:
    phases = the_phases(only(WORKERS))
    history = MadeUp(loader).run(phases)[:2]
    states = [({"workers": 2}, "kept"), ({"workers": 4}, "open"), ({"workers": 6}, "open")]
    assert rungs(phases.walk(history).phases[0]) == states
    # Of the search for something that fits, too.
    own = {**OWN, "batch_size": 8}
    phases = the_phases(only(WORKERS), own)
    [fit, *_] = phases.walk(interrupted_at(phases, MadeUp(lambda s: OOM, own), 2)).phases
    assert rungs(fit) == [({"batch_size": 4, "accumulate_steps": 2}, "interrupted")]


def test_what_hangs_on_values_that_nobody_knows_yet_is_counted_and_not_shown() -> None:
    own = {**OWN, "batch_size": None}
    walk = the_phases(only(BATCH), own).walk([])
    assert rungs(walk.phases[0]) == [] and walk.left == (1, 4)


@pytest.mark.parametrize(
    "phase",
    [
        a_phase(1, "filters", Times(factor=0.5)),
        a_phase(1, "gradient_checkpointing", True),
        Phase(number=1, name="m", knob="gradient_checkpointing", by_model=True),
        Phase(number=1, name="m", knob="precision", by_model=True, needs_allow=True),
    ],
)
def test_what_cannot_be_tried_is_not_counted_among_what_is_to_come(phase: Phase) -> None:
    """The baseline alone, which may be measured again."""
    walk = the_phases(only(phase), {**OWN, "precision": "fp32"}).walk([])
    assert walk.left == (1, 1) and walk.left_again == 1


def test_accumulation_that_has_no_way_is_not_counted() -> None:
    assert the_phases(only(BATCH)).walk([]).left == (1, 4)
    assert the_phases(only(BATCH), {**OWN, "accumulate_steps": None}).walk([]).left == (1, 3)


def test_what_needs_workers_is_counted_where_they_may_come() -> None:
    own = {**OWN, "workers": 0, "prefetch_factor": None, "persistent_workers": None}
    prefetch = a_phase(2, "prefetch_factor", 4)
    assert the_phases(only(a_phase(1, "workers", 2), prefetch), own).walk([]).left == (1, 3)
    assert the_phases(only(replace(prefetch, number=1)), own).walk([]).left == (1, 1)


def test_launches_that_only_come_where_something_is_amiss_are_told_beside_the_others() -> None:
    phases = the_phases(only(WORKERS))
    walk = phases.walk([])
    # To make it fit; and once more the baseline, and what each of the three steps is compared with.
    assert (walk.left, walk.left_to_fit, walk.left_again) == ((1, 4), 4, 4)
    walk = phases.walk(MadeUp(loader).run(phases)[:1])
    assert (walk.left, walk.left_to_fit, walk.left_again) == ((1, 3), 0, 3)
    whole = phases.walk(MadeUp(loader).run(phases))
    assert (whole.left, whole.left_to_fit, whole.left_again) == ((0, 0), 0, 0)


def test_no_walk_takes_more_launches_than_it_said() -> None:
    """It does not fit at first, and each trial reads its data otherwise than the one before."""
    own = {**OWN, "batch_size": 8}
    caches = ["cold", "warm"] * 40

    def told(settings: Settings) -> Told:
        return OOM if settings["batch_size"] > 2 else (5.0 * settings["workers"], {"cache": caches.pop()})

    phases = the_phases(only(WORKERS, replace(BATCH, rungs=())), own)
    said = phases.walk([])
    history = MadeUp(told, own).run(phases)
    assert any("once more" in record.reason for record in history)
    assert len(history) <= said.left[1] + said.left_to_fit + said.left_again


def test_what_is_left_never_grows_by_more_than_it_said() -> None:
    phases, trainer, history = the_phases(), MadeUp(loader), list[TrialRecord]()
    before = phases.walk(history).left[1]
    while (proposal := phases.propose(history)) is not None:
        history.append(trainer.measure(proposal, history))
        left = phases.walk(history).left[1]
        assert left < before
        before = left


def test_what_read_its_data_otherwise_is_compared_with_a_fresh_launch_of_what_had_won() -> None:
    """The first trial reads cold, all that follow warm: twice as fast, whatever they turn."""
    phases = the_phases(only(WORKERS))
    first = True

    def told(settings: Settings) -> Told:
        nonlocal first
        cache, first = "cold" if first else "warm", False
        return 5.0 * (1 if cache == "cold" else 2), {"cache": cache}

    history = MadeUp(told).run(phases)
    assert asked_for(history) == [{}, {"workers": 2}, {}, {"workers": 4}]
    assert history[2].reason == "what won so far once more: trial 1 read its data cold, trial 2 warm"
    walk = phases.walk(history)
    assert walk.phases[0].kept == {} and "1.00×" in walk.phases[0].rungs[0].why
    assert walk.best is not None and walk.best.trial == 3 and len(history) == len(walk.trials)


def test_trials_of_another_command_count_for_nothing() -> None:
    trainer = MadeUp(loader)
    before = trainer.run(the_phases(up_to=1))
    others = frozenset(record.trial for record in before)
    again = trainer.run(the_phases(up_to=1, left_out=others), before)
    assert asked_for(again) == 2 * asked_for(before)
    walk = the_phases(up_to=1, left_out=others).walk(again)
    assert others.isdisjoint(walk.trials) and walk.best is not None and walk.best.trial not in others


def test_what_a_probe_has_measured_already_is_taken_into_the_walk() -> None:
    trainer = MadeUp(loader)
    probes: list[TrialRecord] = []
    for settings in ({"workers": 4}, {}, {"workers": 3}):
        asked = Proposal(settings=settings, reason="probe", origin="probe")
        probes.append(trainer.measure(asked, probes))
    phases = the_phases(only(WORKERS))
    history = trainer.run(phases, probes)
    assert asked_for(history[3:]) == [{"workers": 2}, {"workers": 6}]
    assert phases.walk(history).trials == (2, 4, 1, 5)


def test_the_same_journal_under_other_limits_comes_to_another_winner() -> None:
    def told(settings: Settings) -> Told:
        return 5.0 * settings["workers"], {"ram_peak_bytes": settings["workers"] * 2**30}

    history = MadeUp(told).run(the_phases(only(WORKERS)))
    limits = Limits(ram=Limit(bytes=5 * 2**30, text="5GiB"))
    tighter = the_phases(only(WORKERS), of_experiment={"limits": limits}).walk(history)
    assert tighter.stage == "done" and dict(tighter.settings) == {"workers": 4}
    assert dict(the_phases(only(WORKERS)).walk(history).settings) == {"workers": 6}


def test_what_only_workers_could_use_goes_with_them() -> None:
    plan = only(a_phase(1, "prefetch_factor", 4), a_phase(2, "workers", 0))
    phases = the_phases(plan)

    def told(settings: Settings) -> Told:
        return 40.0 if settings["workers"] == 0 else 5.0 * settings["prefetch_factor"]

    history = MadeUp(told).run(phases)
    # Fewer than one worker are only looked at where there are more of them than cores.
    assert asked_for(history) == [{}, {"prefetch_factor": 4}]
    phases = the_phases(plan, machine=replace(MACHINE, cores=0.5))
    history = MadeUp(told).run(phases)
    assert asked_for(history) == [{}, {"prefetch_factor": 4}, {"workers": 0}]
    assert dict(phases.walk(history).settings) == {"workers": 0}


def by_model(number: int, knob: str, **fields: Any) -> Phase:
    return Phase(number=number, name=knob, knob=knob, by_model=True, **fields)


def test_where_no_model_knows_a_phase_that_asks_it_takes_the_next_values_up_while_they_win() -> None:
    history = MadeUp(loader).run(the_phases(only(by_model(1, "workers"))))
    # Of 0, 1, 2, 4, 6, 8, 12 and 18 on twelve cores.
    assert asked_for(history) == [{}, {"workers": 2}, {"workers": 4}, {"workers": 6}, {"workers": 8}]
    flat = MadeUp(lambda s: 5.0).run(the_phases(only(by_model(1, "workers"))))
    assert asked_for(flat) == [{}, {"workers": 2}, {"workers": 4}]


def test_what_was_slower_is_tried_the_other_way() -> None:
    own = {**OWN, "workers": 8}
    phases = the_phases(only(by_model(1, "workers")), own)
    history = MadeUp(lambda s: 60.0 / (1 + s["workers"] / 4), own).run(phases)
    assert asked_for(history)[:2] == [{}, {"workers": 12}] and {"workers": 6} in asked_for(history)
    assert by(phases, history)["workers"] < 8


def test_of_a_larger_batch_none_is_far_beyond_what_has_run() -> None:
    own = {**OWN, "batch_size": 4}
    history = MadeUp(lambda s: 5.0 * s["batch_size"], own).run(the_phases(only(by_model(1, "batch_size")), own))
    assert asked_for(history) == [{}, {"batch_size": 8}, {"batch_size": 16}, {"batch_size": 32}]


def test_what_does_not_fit_is_made_up_for_by_one_more_try_and_nothing_larger() -> None:
    own = {**OWN, "batch_size": 4}
    trainer = MadeUp(lambda s: OOM if s["batch_size"] >= 16 else 5.0 * s["batch_size"], own)
    assert asked_for(trainer.run(the_phases(only(by_model(1, "batch_size")), own))) == [
        {},
        {"batch_size": 8},
        {"batch_size": 16},
    ]


def test_another_training_is_named_with_what_allows_it_and_not_tried() -> None:
    own = {**OWN, "precision": "fp32"}
    phases = the_phases(only(by_model(1, "precision", needs_allow=True)), own)
    walk = phases.walk(MadeUp(lambda s: 5.0, own).run(phases))
    assert {rung.state for rung in walk.phases[0].rungs} == {"skipped"}
    assert "--allow different" in walk.phases[0].why and walk.stage == "done"
    allowed = the_phases(only(by_model(1, "precision", needs_allow=True)), own, of_experiment={"allow": "DIFFERENT"})
    history = MadeUp(lambda s: 5.0 if s["precision"] == "fp32" else 9.0, own).run(allowed)
    assert by(allowed, history) == {"precision": "bf16"}


def test_the_winner_is_launched_once_more_for_longer() -> None:
    plan = only(a_phase(1, "workers", 2))
    phases = the_phases(plan, confirm=True)
    trainer = MadeUp(lambda s: 10.0 * s["workers"])
    history = trainer.run(the_phases(plan))
    again = phases.propose(history)
    assert again is not None and dict(again.settings) == {"workers": 2} and again.race is None
    assert again.steps == (200, 200) and again.origin == "confirm" and "once more, for longer" in again.reason
    assert phases.walk(history).stage == "confirm" and phases.walk(history).left == (1, MOST_LAUNCHES)
    history.append(trainer.measure(again, history))
    walk = phases.walk(history)
    assert walk.stage == "done" and dict(walk.settings) == {"workers": 2} and 3 in walk.trials
    # Nothing is launched again where nothing won, or where a trial has seen as much.
    assert len(MadeUp(lambda s: 10.0).run(phases)) == 2
    long = MadeUp(lambda s: (10.0 * s["workers"], {"steps_measured": 250}))
    assert len(long.run(phases)) == 2


def test_a_winner_that_does_not_live_long_leaves_its_place_to_the_next() -> None:
    """A worker that is ended by somebody's server after a while."""
    plan = only(a_phase(1, "workers", 2, 4, 6))
    phases = the_phases(plan, confirm=True)
    launches: list[int] = []

    def told(settings: Settings) -> Told:
        launches.append(settings["workers"])
        if settings["workers"] >= 4 and launches.count(settings["workers"]) > 1:
            return TrialStatus.CRASHED
        return 10.0 * settings["workers"]

    history = MadeUp(told).run(phases)
    walk = phases.walk(history)
    assert [one["workers"] for one in asked_for(history)[1:]] == [2, 4, 6, 6, 4, 2]
    assert dict(walk.settings) == {"workers": 2} and walk.best is not None and walk.stage == "done"


def test_what_failed_is_made_up_for_with_less_of_it() -> None:
    """An iterable data set that does not split itself: only with one worker is each sample read once."""
    own = {**OWN, "workers": 4}
    trainer = MadeUp(lambda s: TrialStatus.INVALID if s["workers"] > 4 else 5.0, own)
    history = trainer.run(the_phases(only(by_model(1, "workers")), own))
    assert asked_for(history)[:2] == [{}, {"workers": 6}]
    assert all(one.get("workers", 4) <= 6 for one in asked_for(history))


def test_of_what_did_not_take_effect_more_may_still_be_tried() -> None:
    """One value that the script replaces by its own says nothing of the next."""

    class LeavesSixAlone(MadeUp):
        def measure(self, proposal: Proposal, history: Sequence[TrialRecord]) -> TrialRecord:
            record = super().measure(proposal, history)
            seen = replace(record.measurement, effective_settings={"workers": 4})
            return replace(record, measurement=seen) if record.status is TrialStatus.INVALID else record

    own = {**OWN, "workers": 4}
    trainer = LeavesSixAlone(lambda s: TrialStatus.INVALID if s["workers"] == 6 else 5.0 * s["workers"], own)
    phases = the_phases(only(by_model(1, "workers")), own)
    history = trainer.run(phases)
    assert asked_for(history)[:3] == [{}, {"workers": 6}, {"workers": 8}]
    assert by(phases, history)["workers"] >= 8


def test_a_knob_of_the_users_own_is_a_phase_like_any_other() -> None:
    own = {**OWN, "flip": 4}
    flip = KnobBinding(name="flip", key=("training", "flip"), values=(2, 8))
    plan = only(
        a_phase(1, "workers", 2, 4),
        a_phase(2, "flip", Times(factor=0.5), 8, needs_allow=True),
        replace(a_phase(3, "flip"), by_model=True),
    )
    walker = the_phases(plan, own, of_experiment={"knobs": (flip,)})
    history = MadeUp(lambda settings: loader(settings) * (2.0 if settings["flip"] == 2 else 1.0), own).run(walker)
    assert {"workers": 4, "flip": 2} in asked_for(history)
    assert walker.walk(history).settings == {"workers": 4, "flip": 2}


COPIES = Repeated(reason=Repeats.SAME_NUMBERS, workers=2, dataset="Patches", where="data.py:8", generator="self.rng")


class RepeatsData(MadeUp):
    """Two workers or more draw the same numbers: each of its trials with another number than the user's is invalid."""

    def measure(self, proposal: Proposal, history: Sequence[TrialRecord]) -> TrialRecord:
        record = super().measure(proposal, history)
        workers = proposal.settings.get("workers", self.own["workers"])
        if workers in (1, self.own["workers"]):
            return record
        measured = replace(record.measurement, repeated=COPIES)
        return replace(record, status=TrialStatus.INVALID, detail="they repeat data", measurement=measured)


def test_data_that_workers_repeat_ends_their_ladder_and_promises_nothing_of_more_of_them() -> None:
    options = (
        Option(name="A", settings={"batch_size": Times(factor=2), "workers": 4}),
        Option(name="B", settings={"batch_size": Times(factor=2)}),
        Option(name="C", settings={"prefetch_factor": 4}),
    )
    plan = replace(only(WORKERS), options=options)
    for asked in (False, True):
        phases = the_phases(plan, options=asked)
        history = RepeatsData(loader).run(phases)
        walk = phases.walk(history)
        assert rungs(walk.phases[0]) == [({"workers": 2}, "rejected"), ({"workers": 4}, "skipped"),
                                         ({"workers": 6}, "skipped")]  # fmt: skip
        assert {rung.repeats for rung in walk.phases[0].rungs} == {Repeats.SAME_NUMBERS}
        first, second, third = walk.options
        assert (first.repeats, first.predicted, first.trial) == (Repeats.SAME_NUMBERS, None, None)
        assert second.repeats is None and third.repeats is None
        assert [option.trial is not None for option in walk.options] == [False, asked, asked]
        # Another training, by the settings.
        assert [option.batch for option in walk.options] == [(2, 1), (2, 1), None]


def test_where_the_users_own_workers_repeat_data_no_other_number_but_one_is_ruled_out_by_it() -> None:
    own = {**OWN, "workers": 4}
    measured = {"repeated": COPIES, "effective_settings": {"workers": 4}}
    phases = the_phases(only(a_phase(1, "workers", 1, 2, 6)), own)
    history = MadeUp(lambda s: (10.0, measured), own).run(phases)
    assert asked_for(history) == [{}]
    ruled_out = {rung.turned["workers"]: rung.repeats for rung in phases.walk(history).phases[0].rungs}
    assert ruled_out == {6: Repeats.SAME_NUMBERS, 2: Repeats.SAME_NUMBERS, 1: None}


def test_a_phase_whose_values_the_model_names_tries_no_more_workers_that_repeat_data() -> None:
    plan = only(replace(a_phase(1, "workers"), rungs=(), by_model=True))
    history = RepeatsData(loader).run(the_phases(plan))
    assert asked_for(history) == [{}, {"workers": 2}, {"workers": 0}]
