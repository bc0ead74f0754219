from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vtune.domain.experiment import Experiment, KnobBinding, Workload
from vtune.domain.knob import TrainLoader
from vtune.domain.machine import Machine
from vtune.knobs.describe import KnobView, describe, describe_all
from vtune.knobs.registry import KNOB_NAMES, knob_named

MACHINE = Machine(host="h", kernel="k", cpu_model=None, cores=4, ram_bytes=None, shm_bytes=None)
LOADER = TrainLoader(
    key="t.py:9:Scrolls#0@0", where="/p/src/t.py:9", settings={"workers": 1, "batch_size": 2, "pin_memory": False}
)


def experiment(
    words: str = "python t.py", config: dict[str, Any] | None = None, *bindings: KnobBinding, file: str = "/p/exp.yaml"
) -> Experiment:
    path = None if config is None else Path(file)
    workload = Workload(command=tuple(words.split()), cwd=Path("/p"), config=config, config_path=path)
    return Experiment(study="s", workload=workload, knobs=bindings)


def view(name: str, asked: Experiment | None, loader: TrainLoader | None = None) -> KnobView:
    return describe(knob_named(name), MACHINE, asked, loader)


def told(name: str, asked: Experiment, loader: TrainLoader | None = None) -> tuple[Any, ...]:
    way = view(name, asked, loader).way
    assert way is not None
    return way.way, way.through, way.how, way.current, way.current_from


def test_without_a_workload_every_knob_has_its_class_and_no_way() -> None:
    views = describe_all(MACHINE, None)
    assert [view.knob.name for view in views] == list(KNOB_NAMES)
    assert all(view.way is None and (view.values or view.values_note) for view in views)


def test_a_key_of_the_config_is_named_with_its_file_and_value() -> None:
    asked = experiment(config={"training": {"workers": 1}})
    expected = ("config_key", "training.workers", "config key training.workers of exp.yaml", 1, "training.workers")
    assert told("workers", asked) == expected


def test_a_binding_of_the_users_is_said_to_be_theirs() -> None:
    asked = experiment("python t.py", {"n": "auto"}, KnobBinding(name="workers", key=("n",), values=(1, 9)))
    assert told("workers", asked) == ("config_key", "n", "config key n of exp.yaml, as vtune.knobs says", None, None)
    assert view("workers", asked).values == (1, 9)
    assert view("workers", asked).values_note == "from vtune.knobs.workers.values"


def test_a_flag_of_the_command_is_named_as_it_was_typed() -> None:
    asked = experiment("python t.py --batch-size=2")
    assert told("batch_size", asked) == ("flag", "--batch-size", "--batch-size of the command", 2, "--batch-size")
    assert view("batch_size", asked).values == (1, 2, 4, 8, 16)


def test_a_loader_that_is_not_known_yet_is_to_be_learnt() -> None:
    how = "from inside the loader, learnt by a scout run first"
    assert told("workers", experiment()) == ("hook", None, how, None, None)


def test_a_loader_that_was_learnt_is_named_by_its_line_and_tells_what_it_runs_with() -> None:
    how = "from inside, in the loader made at src/t.py:9"
    assert told("workers", experiment(), LOADER) == ("hook", "src/t.py:9", how, 1, "src/t.py:9")
    assert told("pin_memory", experiment(), LOADER)[3:] == (False, "src/t.py:9")
    assert told("prefetch_factor", experiment(), LOADER)[3:] == (None, None)
    assert view("batch_size", experiment(), LOADER).values == (1, 2, 4, 8, 16)


@pytest.mark.parametrize(
    ("words", "reason", "current"),
    [
        ("python t.py --pin-memory", "--pin-memory is a switch without a value", True),
        ("python t.py --no-pin-memory", "--no-pin-memory is a switch without a value", False),
        ("python t.py pin_memory=maybe", 'pin_memory of the command is "maybe"', None),
    ],
)
def test_a_flag_that_is_left_to_the_hook_is_said_with_the_reason(words: str, reason: str, current: object) -> None:
    way, _, how, value, source = told("pin_memory", experiment(words))
    assert (way, value) == ("hook", current) and how.endswith(f"; {reason}")
    assert source == (None if current is None else "the command")


def test_keys_of_a_toml_config_are_keys_like_any_other() -> None:
    asked = experiment(config={"workers": 2, "accumulate_steps": 2}, file="/p/exp.toml")
    assert told("workers", asked)[::3] == ("config_key", 2) and told("accumulate_steps", asked)[::3] == (
        "config_key",
        2,
    )


def test_threads_are_named_by_their_variable() -> None:
    how = "OMP_NUM_THREADS in the environment, which a script may overrule"
    assert told("threads", experiment()) == ("environment", "OMP_NUM_THREADS", how, None, None)


def test_a_value_that_cannot_be_read_is_said() -> None:
    way = view("compile", experiment(config={"model": {"compile": {"mode": "default"}}})).way
    assert way is not None and way.way is None
    assert str(way.why_not).startswith("its key model.compile is {'mode': 'default'}, which vtune cannot read")
    assert view("filters", experiment()).values_note == "by the current value, which is not known"


def test_what_has_no_way_says_why_and_how_to_open_one() -> None:
    way = view("accumulate_steps", experiment()).way
    assert way is not None and way.way is way.how is None
    assert "no key of its config and no flag" in str(way.why_not)
    assert "vtune.knobs.accumulate_steps.key" in str(way.why_not)
