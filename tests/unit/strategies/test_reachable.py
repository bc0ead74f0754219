"""Settings that phases could have come to together."""

from __future__ import annotations

from dataclasses import replace

from support.simulated import simulated_experiment
from support.walks import BATCH, PREFETCH, WORKERS
from vtune.domain.effects import Scalar
from vtune.domain.experiment import KnobBinding
from vtune.domain.phases import Phase
from vtune.execution.engines.simulated.engine import machine_of
from vtune.execution.engines.simulated.surfaces import SMALL_VOLUMES
from vtune.strategies.reachable import reachable

EXPERIMENT, MACHINE = simulated_experiment(SMALL_VOLUMES), machine_of(SMALL_VOLUMES)
OWN: dict[str, Scalar] = {"workers": 1, "batch_size": 2, "prefetch_factor": 2, "persistent_workers": False}
PERSISTENT = Phase(number=4, name="p", knob="persistent_workers", rungs=({"persistent_workers": True},))


def found(*phases: Phase, won: dict[str, Scalar] | None = None, experiment=EXPERIMENT) -> list[dict[str, Scalar]]:
    every = reachable(phases, own=OWN, won=won or {}, experiment=experiment, machine=MACHINE)
    return [dict(one) for one in every]


def test_the_knobs_of_the_phases_are_turned_together_and_each_settings_stand_once() -> None:
    every = found(WORKERS, BATCH, PREFETCH, PERSISTENT)
    assert {"workers": 4, "batch_size": 4, "prefetch_factor": 4, "persistent_workers": True} in every
    assert {} in every and len({tuple(sorted(one.items())) for one in every}) == len(every)
    assert not any(one.get("workers") == 1 or one.get("batch_size") == 2 for one in every)  # they are set already
    assert 100 < len(every) < 3000


def test_only_what_the_phases_turn_is_turned() -> None:
    assert all(set(one) <= {"workers"} for one in found(WORKERS))
    assert all(set(one) <= {"workers"} for one in found(replace(WORKERS, rungs=(), by_model=True)))
    assert found() == [{}]


def test_without_workers_nothing_is_asked_that_needs_them() -> None:
    alone = [one for one in found(WORKERS, PREFETCH, PERSISTENT) if one.get("workers") == 0]
    assert alone == [{"workers": 0}]


def test_what_the_model_has_no_law_for_stays_as_it_was_won() -> None:
    precision = Phase(number=1, name="precision", knob="precision", rungs=({"precision": "bf16"},))
    assert all(one["precision"] == "bf16" for one in found(precision, WORKERS, won={"precision": "bf16", "workers": 4}))


def test_a_plans_phase_that_has_to_be_allowed_is_left_out_unless_it_is() -> None:
    batch = replace(BATCH, needs_allow=True)
    assert all("batch_size" not in one for one in found(batch))
    assert any("batch_size" in one for one in found(batch, experiment=replace(EXPERIMENT, allow="DIFFERENT")))
    # Another phase names it without that: it is the plan's word then.
    assert any("batch_size" in one for one in found(batch, replace(BATCH, number=3)))


def test_values_that_the_user_bound_are_the_only_ones() -> None:
    bound = replace(EXPERIMENT, knobs=(KnobBinding(name="workers", values=(3, 5)),))
    assert {one.get("workers") for one in found(WORKERS, experiment=bound)} <= {3, 5, None}
