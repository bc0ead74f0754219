"""All that a search may set, by what the training has ways for and what the user allows."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from support.made_up import MACHINE, OWN, an_experiment
from support.studies import a_trial
from vtune.domain.effects import Scalar
from vtune.domain.experiment import KnobBinding
from vtune.domain.search import Space
from vtune.strategies.space import MOST_SETTINGS, comes_to, space_of

UNPINNED = ["workers", "prefetch_factor", "persistent_workers"]
SAME = [*UNPINNED, "pin_memory"]
WITH_GPU = replace(MACHINE, gpus=("A device",))


def space(own: Mapping[str, Scalar] = OWN, **fields: Any) -> Space:
    return space_of(an_experiment(own, **fields), WITH_GPU, own=own)


def values(space: Space, name: str) -> list[Mapping[str, Scalar]]:
    return next((list(one.choices) for one in space.dimensions if one.name == name), [])


def about(space: Space, name: str) -> str:
    return next(line for line in space.left_out if line.startswith(f"{name}:"))


def test_only_what_leaves_the_training_the_same_is_turned_unasked() -> None:
    found = space()
    assert [one.name for one in found.dimensions] == SAME
    assert "--allow close" in about(found, "in_order") and "--allow different" in about(found, "batch_size")
    assert "in_order" in [one.name for one in space(allow="CLOSE").dimensions]


def test_memory_is_pinned_only_where_there_is_a_device_to_copy_to() -> None:
    experiment, seen = an_experiment(), a_trial(1, 10.0, measured={"vram_peak_bytes": 2**30})
    without = space_of(experiment, MACHINE, own=OWN, baseline=a_trial(1, 10.0))
    assert [one.name for one in without.dimensions] == UNPINNED
    assert "no GPU was seen" in about(without, "pin_memory")
    assert all("pin_memory" not in settings for settings in without.settings)
    for found in (
        space_of(experiment, WITH_GPU, own=OWN),
        space_of(experiment, MACHINE, own=OWN, baseline=seen),
        space_of(experiment, replace(MACHINE, gpus_unread_because="its driver shows nothing"), own=OWN),
        space_of(an_experiment(knobs=(KnobBinding(name="pin_memory"),)), MACHINE, own=OWN),
    ):
        assert [one.name for one in found.dimensions] == SAME


def test_values_that_trials_ran_with_are_among_its_values() -> None:
    own: dict[str, Scalar] = {**OWN, "batch_size": 8, "accumulate_steps": 2}
    ran = {"workers": {5}, "batch_size": {1}, "prefetch_factor": {3}}
    found = space_of(an_experiment(own), WITH_GPU, own=own, ran=ran)
    assert {"workers": 5} in values(found, "workers") and {"prefetch_factor": 3} in values(found, "prefetch_factor")
    rising = [one["workers"] for one in values(found, "workers")]
    assert rising == sorted(rising)  # type: ignore[type-var]
    assert {"batch_size": 1, "accumulate_steps": 16} in values(found, "batch_size")
    assert any(one.get("workers") == 5 for one in found.settings)
    named = an_experiment(own, knobs=(KnobBinding(name="workers", values=(2, 8)),))
    assert {"workers": 5} not in values(space_of(named, WITH_GPU, own=own, ran=ran), "workers")


def test_the_users_own_settings_come_first_and_ask_for_nothing() -> None:
    found = space()
    assert found.settings[0] == {}
    assert all(OWN.get(name) != value for settings in found.settings for name, value in settings.items())


def test_every_combination_is_there_once_and_without_workers_nothing_that_they_would_use() -> None:
    found = space()
    assert len({comes_to(one, OWN) for one in found.settings}) == len(found.settings)
    idle = [one for one in found.settings if one.get("workers") == 0]
    assert idle and all(set(one) <= {"workers", "pin_memory"} for one in idle)
    sizes = {one.name: len(one.choices) for one in found.dimensions}
    assert len(found.settings) == 2 + (sizes["workers"] - 1) * sizes["prefetch_factor"] * 2 * 2


def test_a_batch_and_its_accumulation_keep_the_effective_batch() -> None:
    found = space({**OWN, "batch_size": 8, "accumulate_steps": 2})
    pairs = values(found, "batch_size")
    assert {"batch_size": 8, "accumulate_steps": 2} in pairs and {"batch_size": 2, "accumulate_steps": 8} in pairs
    assert {one["batch_size"] * one["accumulate_steps"] for one in pairs} == {16}  # type: ignore[operator]
    assert not values(found, "accumulate_steps")


def test_without_a_way_to_accumulate_the_batch_stays_and_it_is_said_why() -> None:
    found = space({**OWN, "batch_size": 8, "accumulate_steps": None})
    assert not values(found, "batch_size") and "accumulate_steps" in about(found, "batch_size")


def test_who_names_the_batch_or_allows_another_training_frees_it() -> None:
    own: dict[str, Scalar] = {**OWN, "batch_size": 8, "accumulate_steps": 2}
    named = space(own, knobs=(KnobBinding(name="batch_size", values=(8, 16, 64)),))
    assert values(named, "batch_size") == [{"batch_size": 8}, {"batch_size": 16}, {"batch_size": 64}]
    allowed = space(own, allow="DIFFERENT")
    assert {"batch_size": 64} in values(allowed, "batch_size") and not values(allowed, "accumulate_steps")


def test_what_the_user_has_set_is_not_turned() -> None:
    found = space(settings={"workers": 4})
    assert not values(found, "workers") and "4" in about(found, "workers")
    assert all(one["workers"] == 4 for one in found.settings)


def test_without_workers_that_were_ruled_out_nothing_that_they_would_use_is_turned() -> None:
    found = space(settings={"workers": 0})
    assert [one.name for one in found.dimensions] == ["pin_memory"] and len(found.settings) == 2
    assert "none was asked for" in about(found, "prefetch_factor")


def test_the_users_own_value_is_among_the_values_that_they_named() -> None:
    found = space(knobs=(KnobBinding(name="workers", values=(2, 8)),))
    assert values(found, "workers") == [{"workers": 1}, {"workers": 2}, {"workers": 8}]
    assert found.settings[0] == {}


def test_a_knob_without_a_way_into_the_training_is_left_out_with_the_reason() -> None:
    found = space(allow="DIFFERENT")
    assert not values(found, "filters")
    assert "no key of its config and no flag of its command is known to be filters" in about(found, "filters")


def test_a_space_of_millions_keeps_what_changes_least_of_what_nobody_can_predict() -> None:
    own: dict[str, Scalar] = {
        **OWN, "precision": "fp32", "compile": False, "filters": 32, "patch_size": 128, "gradient_checkpointing": False,
        "surface_distance_interval": 4, "threads": 4,
    }  # fmt: skip
    found = space(own, allow="DIFFERENT")
    assert len(found.settings) == MOST_SETTINGS
    rare = {"precision", "compile", "filters", "patch_size", "gradient_checkpointing", "surface_distance_interval"}
    changed = [len((rare | {"threads"}) & set(one)) for one in found.settings]
    assert changed == sorted(changed) and {name for one in found.settings for name in one} >= rare


def test_a_knob_of_the_users_own_is_searched_unasked_beside_the_others() -> None:
    own = {**OWN, "flip": 0.3}
    found = space(own, knobs=(KnobBinding(name="flip", key=("training", "flip"), values=(0.1, 0.5)),))
    assert values(found, "flip") == [{"flip": 0.1}, {"flip": 0.3}, {"flip": 0.5}]
    assert {"flip": 0.5, "workers": 4} in found.settings
