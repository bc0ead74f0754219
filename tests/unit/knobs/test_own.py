"""Knobs that vtune does not know: named, valued and placed by the user."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from vtune.domain.effects import Scalar, SetArgument, SetConfigKey
from vtune.domain.experiment import Experiment, KnobBinding, Workload
from vtune.domain.machine import Machine
from vtune.errors import UsageError
from vtune.knobs.describe import describe_all
from vtune.knobs.own import own_knob
from vtune.knobs.plan import effects_of
from vtune.knobs.registry import KNOB_NAMES, knob_named
from vtune.knobs.settings import parse_assignment
from vtune.knobs.ways import ThroughCommand, current_settings, way_of

MACHINE = Machine(host="h", kernel="k", cpu_model=None, cores=4, ram_bytes=None, shm_bytes=None)
BY_KEY = KnobBinding(name="flip", key=("augmentation", "flip_probability"), values=(0.1, 0.5))
BY_FLAG = KnobBinding(name="loss", flag="--loss", values=("dice", "ce"))


def experiment(command: str = "python t.py --loss dice", *knobs: KnobBinding) -> Experiment:
    config = {"augmentation": {"flip_probability": 0.3}}
    workload = Workload(command=tuple(command.split()), cwd=Path("/p"), config=config, config_path=Path("/p/exp.yaml"))
    return Experiment(study="s", workload=workload, knobs=knobs or (BY_KEY, BY_FLAG))


def test_a_knob_of_the_users_is_turned_through_its_key_or_its_flag() -> None:
    effects = effects_of({"flip": 0.5, "loss": "ce"}, experiment(), None)
    assert effects == (
        SetConfigKey(path=("augmentation", "flip_probability"), value=0.5),
        SetArgument(argument="--loss", position=3, word="ce", value="ce"),
    )


def test_what_it_is_now_stands_in_the_config_and_in_the_command() -> None:
    assert current_settings(experiment()) == {"flip": 0.3, "loss": "dice"}


@pytest.mark.parametrize(
    ("flag", "command", "typed"),
    [
        ("--flip-p", "python t.py --flip-p=0.2", "--flip-p"),
        ("--aug.flip", "python t.py --aug.flip 0.2", "--aug.flip"),
        ("aug.flip", "python t.py aug.flip=0.2", "aug.flip"),
        ("-p", "python t.py -p 0.2", "-p"),
        ("--filters", "python t.py --filters 0.2", "--filters"),
    ],
)
def test_a_flag_is_found_as_it_was_named(flag: str, command: str, typed: str) -> None:
    binding = KnobBinding(name="flip", flag=flag, values=(0.1, 0.5))
    way = way_of(own_knob(binding), experiment(command, binding))
    assert isinstance(way, ThroughCommand)
    assert (way.flag.typed, way.flag.value) == (typed, 0.2)


@pytest.mark.parametrize(
    ("values", "typed", "wanted"),
    [
        ((0.1, 0.5), "0.25", 0.25),
        ((0, 0.5), "1", 1.0),
        ((1, 8), "4", 4),
        ((False, True), "yes", True),
        (("Light", "heavy"), "Light", "Light"),
    ],
)
def test_what_is_typed_becomes_a_value_of_its_type(values: tuple[Scalar, ...], typed: str, wanted: Scalar) -> None:
    name, value = parse_assignment(f"mine={typed}", [replace(BY_KEY, name="mine", values=values)])
    assert (name, value, type(value)) == ("mine", wanted, type(wanted))


@pytest.mark.parametrize(("values", "typed"), [((0.1, 0.5), "much"), ((0.1, 0.5), "nan"), ((1, 2), "1.5")])
def test_what_is_of_another_type_is_refused(values: tuple[Scalar, ...], typed: str) -> None:
    with pytest.raises(UsageError, match="mine must be a"):
        parse_assignment(f"mine={typed}", [replace(BY_KEY, name="mine", values=values)])


def test_it_is_unknown_to_another_experiment() -> None:
    assert knob_named("flip", [BY_KEY]).numerics == "DIFFERENT"
    with pytest.raises(UsageError, match='unknown knob "flip"'):
        knob_named("flip")


def test_it_is_shown_behind_vtunes_own_with_its_values() -> None:
    views = describe_all(MACHINE, experiment())
    assert [view.knob.name for view in views] == [*KNOB_NAMES, "flip", "loss"]
    flip, loss = views[-2:]
    assert (flip.values, flip.values_note) == ((0.1, 0.5), "from vtune.knobs.flip.values")
    assert flip.way is not None and flip.way.how == (
        "config key augmentation.flip_probability of exp.yaml, as vtune.knobs says"
    )
    assert loss.way is not None and (loss.way.through, loss.way.current) == ("--loss", "dice")


def test_the_user_says_what_it_does_to_the_numbers() -> None:
    assert own_knob(replace(BY_KEY, numerics="SAME")).numerics == "SAME"
