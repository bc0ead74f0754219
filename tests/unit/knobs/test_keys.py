from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vtune.domain.experiment import Experiment, KnobBinding, Workload
from vtune.errors import UsageError
from vtune.knobs.keys import find_key, path_of, wrong_values
from vtune.knobs.registry import knob_named
from vtune.knobs.ways import current_settings


def experiment(config: dict[str, Any] | None, *bindings: KnobBinding) -> Experiment:
    workload = Workload(command=("x",), cwd=Path("/"), config=config)
    return Experiment(study="s", workload=workload, knobs=bindings)


def key_of(name: str, config: dict[str, Any] | None, *bindings: KnobBinding) -> tuple[str, ...] | None:
    return find_key(knob_named(name), experiment(config, *bindings))


SEGMENTATION = {"training": {"workers": 1, "train_batch_size": 1, "accumulate_steps": 1}, "batch_size": 9}
IMAGENET = {"num_workers": 8, "prefetch_factor": 2, "batch_size": 256, "persistent_workers": True}
CONNECTOMICS = {
    "data": {"num_workers": 4, "batch_size": 2, "pin_memory": True, "persistent_workers": True},
    "training": {"accumulate_grad_batches": 2, "precision": "16-mixed"},
}


@pytest.mark.parametrize(
    ("config", "settings"),
    [
        (SEGMENTATION, {"workers": 1, "batch_size": 1, "accumulate_steps": 1}),
        (IMAGENET, {"workers": 8, "prefetch_factor": 2, "batch_size": 256, "persistent_workers": True}),
        (
            CONNECTOMICS,
            {
                "workers": 4,
                "persistent_workers": True,
                "pin_memory": True,
                "batch_size": 2,
                "accumulate_steps": 2,
                "precision": "fp16",
            },
        ),
        (None, {}),
    ],
)
def test_the_keys_of_the_three_systems_are_known(config: dict[str, Any] | None, settings: dict[str, Any]) -> None:
    assert current_settings(experiment(config)) == settings


def test_the_users_binding_wins() -> None:
    binding = KnobBinding(name="workers", key=("loaders", "threads"))
    assert key_of("workers", {"workers": 1, "loaders": {"threads": 2}}, binding) == ("loaders", "threads")


def test_a_binding_to_an_absent_key_names_the_nearest() -> None:
    with pytest.raises(UsageError, match='no key "training.wrokers"; did you mean "training.workers"') as caught:
        key_of("workers", SEGMENTATION, KnobBinding(name="workers", key=("training", "wrokers")))
    assert caught.value.hint is not None


def test_a_binding_may_name_a_key_that_chooses_itself() -> None:
    binding = KnobBinding(name="workers", key=("n",))
    assert key_of("workers", {"n": "auto"}, binding) == ("n",)
    assert current_settings(experiment({"n": "auto"}, binding)) == {}
    with pytest.raises(UsageError, match=r"n, named for a knob: workers must be a whole number, got \[1\]"):
        key_of("workers", {"n": [1]}, binding)


def test_a_value_of_the_wrong_type_is_not_a_knobs_key() -> None:
    assert key_of("workers", {"training": {"workers": "auto"}, "num_workers": 2}) == ("num_workers",)
    assert key_of("workers", {"num_workers": True}) is None
    assert key_of("pin_memory", {"pin_memory": 1}) is None
    assert key_of("prefetch_factor", {"prefetch_factor": None}) == ("prefetch_factor",)
    assert key_of("workers", {"num_workers": None}) is None


def test_a_deeper_key_counts_only_when_it_is_the_only_one_of_the_trainings_loader() -> None:
    deep = {"a": {"b": {"num_workers": 3}}, "val_loader": {"num_workers": 1}, "test": {"x": {"num_workers": 2}}}
    assert key_of("workers", deep) == ("a", "b", "num_workers")
    assert key_of("workers", {**deep, "c": {"workers": 2}}) is None
    assert key_of("workers", {"validation": {"loader": {"num_workers": 1}}}) is None
    # "interval" holds "val" and is no validation.
    assert key_of("workers", {"interval": {"x": {"num_workers": 1}}}) == ("interval", "x", "num_workers")


def test_flat_dotted_keys_are_found_too() -> None:
    assert key_of("workers", {"data.num_workers": 2}) == ("data.num_workers",)
    assert path_of({"a": {"b.c": {"d": 1}}}, "a.b.c.d") == ("a", "b.c", "d")
    assert path_of({"a": 3}, "a.b") is None


@pytest.mark.parametrize(
    ("config", "wrong"),
    [
        ({"training": {"workers": -4}}, [(("training", "workers"), "training.workers must be at least 0, got -4")]),
        ({"batch_size": 2.5}, [(("batch_size",), "batch_size must be a whole number, got 2.5")]),
        (
            {"training": {"workers": "lots"}},
            [(("training", "workers"), 'training.workers must be a whole number, got "lots"')],
        ),
        ({"training": {"workers": "auto", "batch_size": "${x}"}, "workers": "host1,host2"}, []),
        ({"batch_size": {"train": 4, "val": 1}, "num_workers": [4, 1], "prefetch_factor": None}, []),
        ({"pin_memory": "yes please", "other": -1}, []),
    ],
)
def test_only_keys_that_knobs_map_to_are_checked(config: dict[str, Any], wrong: list[Any]) -> None:
    assert wrong_values(config) == wrong


def test_keys_that_are_no_text_and_shared_mappings_do_no_harm() -> None:
    shared: dict[Any, Any] = {"x": 1}
    config: dict[Any, Any] = {1: {"num_workers": 2}, "a": shared, "b": shared}
    shared["self"] = shared
    assert key_of("workers", config) is None
