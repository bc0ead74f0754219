"""`vtune.knobs` with names that vtune does not know."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from vtune.config.experiment_file import write_experiment
from vtune.config.load import load_experiment
from vtune.config.plan_file import load_plan
from vtune.config.problems import ConfigErrors
from vtune.domain.experiment import Experiment, KnobBinding

Load = Callable[..., Experiment]
Errors = Callable[..., list[str]]

FILE = """\
vtune:
  command: python train.py {{config}} --loss dice --num-workers 2
  knobs:
    {knobs}
augmentation: {{flip: 0.3, rotate: true}}
training: {{workers: 1}}
"""
FLIP = "flip: {key: augmentation.flip, values: [0.1, 0.5]}"


def with_knobs(*knobs: str) -> str:
    return FILE.format(knobs="\n    ".join(knobs))


def test_a_knob_of_the_users_is_read_with_its_key_or_flag(load: Load) -> None:
    loss = "loss: {flag: --loss, values: [dice, ce], numerics: close}"
    experiment = load(with_knobs(FLIP, loss), sets=("flip=0.5", "loss=ce"))
    assert experiment.knobs == (
        KnobBinding(name="flip", key=("augmentation", "flip"), values=(0.1, 0.5)),
        KnobBinding(name="loss", flag="--loss", values=("dice", "ce"), numerics="CLOSE"),
    )
    assert experiment.settings == {"flip": 0.5, "loss": "ce"}


def test_numbers_with_and_without_a_fraction_are_one_type(load: Load) -> None:
    values = load(with_knobs("flip: {key: augmentation.flip, values: [0, 0.5]}")).knobs[0].values
    assert values == (0.0, 0.5) and all(isinstance(value, float) for value in values)


def test_it_may_be_set_in_the_file_too(load: Load) -> None:
    text = with_knobs(FLIP).replace("  knobs:", "  settings: {flip: 1}\n  knobs:")
    assert load(text).settings == {"flip": 1.0}


def test_it_is_written_with_the_study_and_read_again(load: Load, here: Path) -> None:
    experiment = load(with_knobs(FLIP, "loss: {flag: --loss, values: [dice, ce], numerics: same}"))
    write_experiment(experiment, here / "again.yaml")
    assert load_experiment(here / "again.yaml").knobs == experiment.knobs


@pytest.mark.parametrize(
    ("knob", "expected"),
    [
        (
            "wokers: {values: [1, 2]}",
            'exp.yaml:4:5: vtune.knobs: unknown knob "wokers"; did you mean "workers"?',
        ),
        (
            "wokers: {key: augmentation.flip, values: [1.0, 2.0]}",
            'exp.yaml:4:5: vtune.knobs: unknown knob "wokers"; did you mean "workers"?',
        ),
        ("flip: {values: [0.1, 0.5]}", 'exp.yaml:4:5: vtune.knobs: unknown knob "flip", and no key or flag is named'),
        ("flip: {key: augmentation.flip}", 'exp.yaml:4:5: vtune.knobs: unknown knob "flip", and no values are named'),
        ("flip:", 'exp.yaml:4:5: vtune.knobs: unknown knob "flip", and no key or flag and no values are named'),
        (
            "flip: {key: augmentation.flip, flag: --loss, values: [0.1, 0.5]}",
            'exp.yaml:4:42: vtune.knobs: flip has a key and a flag',
        ),
        (
            "Flip: {key: augmentation.flip, values: [0.1, 0.5]}",
            'exp.yaml:4:5: vtune.knobs: a knob of your own is named in a-z, 0-9 and _, got "Flip"',
        ),
        (
            "flip: {key: augmentation.flip, values: [0.1]}",
            "exp.yaml:4:44: vtune.knobs: flip needs two values or more, got [0.1]",
        ),
        (
            "flip: {key: augmentation.flip, values: [0.1, 0.1]}",
            "exp.yaml:4:50: vtune.knobs: flip has the value 0.1 twice",
        ),
        (
            "flip: {key: augmentation.flip, values: [0.1, true]}",
            "exp.yaml:4:50: vtune.knobs: flip must be a number as its first value is, got true",
        ),
        (
            "flip: {key: augmentation.flip, values: [[1], [2]]}",
            "exp.yaml:4:45: vtune.knobs: flip must be numbers, words or true and false, got [1]",
        ),
        (
            "flip: {key: augmentation.flip, values: [0.1, .inf]}",
            "exp.yaml:4:50: vtune.knobs: flip must be a number as its first value is, got inf",
        ),
        (
            "flip: {key: augmentation.flpi, values: [0.1, 0.5]}",
            'exp.yaml:4:17: the training\'s config has no key "augmentation.flpi"; did you mean "augmentation.flip"?',
        ),
        (
            "turn: {key: augmentation.rotate, values: [0.1, 0.5]}",
            "exp.yaml:4:17: augmentation.rotate, named for a knob: turn must be a number, got true",
        ),
        ("flip: {flag: --flip, values: [0.1, 0.5]}", 'exp.yaml:4:18: vtune.knobs.flip.flag: the command has no --flip'),
        (
            "flip: {flag: --loss, values: [0.1, 0.5]}",
            'exp.yaml:4:18: vtune.knobs.flip.flag: --loss of the command is "dice"',
        ),
        (
            "loads: {flag: --num-workers, values: [1, 2]}",
            "exp.yaml:4:19: vtune.knobs.loads: --num-workers is turned by the knob workers already",
        ),
        (
            "flip: {key: augmentation.flip, values: [0.1, 0.5], numerics: almost}",
            'exp.yaml:4:66: vtune.knobs.flip.numerics must be same, close or different, got "almost"',
        ),
        (
            "workers: {key: training.workers, flag: --loss}",
            "exp.yaml:4:44: vtune.knobs: workers is vtune's own, and takes no flag",
        ),
        (
            "workers: {key: training.workers, numerics: different}",
            "exp.yaml:4:48: vtune.knobs: workers is vtune's own, and takes no numerics",
        ),
    ],
)  # fmt: skip
def test_each_mistake_in_one_is_told_once_and_where_it_is(errors: Errors, knob: str, expected: str) -> None:
    assert errors(with_knobs(knob)) == [expected]


def test_a_number_that_yaml_takes_for_a_word_comes_with_the_way_to_write_it(load: Load) -> None:
    text = with_knobs("lr: {key: lr, values: [1.0e-4, 1.0e-3]}") + "lr: 1e-4\n"
    with pytest.raises(ConfigErrors, match='lr, named for a knob: lr must be a number, got "1e-4"') as caught:
        load(text)
    assert caught.value.hint == "YAML takes 1e-4 for a word, and 1.0e-4 for a number"
    assert load(text.replace("1.0e-4, 1.0e-3", "1e-4, 1e-3"), sets=("lr=3e-4",)).settings == {"lr": "3e-4"}


def test_what_is_wrong_in_a_knob_is_not_held_against_its_settings(errors: Errors) -> None:
    text = with_knobs("flip: {values: [1, 2]}").replace("  knobs:", "  settings: {flip: 1}\n  knobs:")
    assert len(errors(text, sets=("flip=2",))) == 1


def test_two_knobs_of_one_key_are_refused(errors: Errors) -> None:
    (found,) = errors(with_knobs(FLIP, FLIP.replace("flip:", "turn:", 1)))
    assert found == "exp.yaml:5:17: vtune.knobs.turn: augmentation.flip is turned by the knob flip already"


def test_the_hint_shows_what_a_knob_of_the_users_needs_and_what_vtune_knows(load: Load) -> None:
    with pytest.raises(ConfigErrors) as caught:
        load(with_knobs("wokers: {values: [1, 2]}"))
    assert caught.value.hint is not None
    assert "known knobs: workers" in caught.value.hint and "{key: path.in.config, values: [" in caught.value.hint


def test_a_plan_of_the_users_turns_it_by_name(load: Load, here: Path) -> None:
    experiment = load(with_knobs(FLIP))
    (here / "plan.yaml").write_text("phases:\n  - turn: {flip: [0.1, 0.5]}\n  - by_model: flip\n")
    plan = load_plan("plan.yaml", experiment.knobs)
    assert plan.phases[0].rungs == ({"flip": 0.1}, {"flip": 0.5}) and plan.phases[1].knob == "flip"
    with pytest.raises(ConfigErrors, match='plan.yaml:2:12: unknown knob "flip"'):
        load_plan("plan.yaml")
